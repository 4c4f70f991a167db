// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/make_hook.h"

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "hook/hook_text.h"
#include "lockstep/base/error.h"
#include "lockstep/base/nearest.h"
#include "lockstep/hook/auto_compress.h"
#include "lockstep/hook/compress.h"
#include "lockstep/hook/post_local_sgd.h"
#include "lockstep/hook/power_sgd.h"
#include "lockstep/hook/quantize.h"
#include "lockstep/hook/sign.h"
#include "lockstep/hook/top_k.h"

namespace lockstep::hooks {
namespace {

using detail::HookText;

QuantizeOptions read_quantize(HookText& text) {
  QuantizeOptions options;
  text.read("bits", options.bits);
  text.read("block", options.block);
  text.read("error_feedback", options.error_feedback);
  text.read("seed", options.seed);
  return options;
}

SignOptions read_sign(HookText& text) {
  SignOptions options;
  text.read("block", options.block);
  text.read("error_feedback", options.error_feedback);
  return options;
}

TopKOptions read_top_k(HookText& text) {
  TopKOptions options;
  text.read("ratio", options.ratio);
  text.read("error_feedback", options.error_feedback);
  return options;
}

PowerSgdOptions read_power_sgd(HookText& text) {
  PowerSgdOptions options;
  text.read("rank", options.rank);
  text.read("start_iter", options.start_iter);
  text.read("min_compression_rate", options.min_compression_rate);
  text.read("error_feedback", options.error_feedback);
  text.read("warm_start", options.warm_start);
  text.read("epsilon", options.epsilon);
  text.read("seed", options.seed);
  text.read("log_stats_every", options.log_stats_every);
  text.read("batch_same_shapes", options.batch_same_shapes);
  return options;
}

PostLocalSgdOptions read_post_local_sgd(HookText& text) {
  PostLocalSgdOptions options;
  text.read("start_iter", options.start_iter);
  text.read("reduce_locally", options.reduce_locally);
  return options;
}

// A built-in hook: how many it takes in parentheses, and how it is made from
// its options and these.
struct Entry {
  size_t most_inner;
  CommHook (*make)(HookText& text, std::vector<CommHook> inner);
};

constexpr size_t kAny = std::numeric_limits<size_t>::max();

// In the order of the enum.
const std::vector<Entry>& entries() {
  using Inner = std::vector<CommHook>;
  static const std::vector<Entry> all = {
      {0, [](HookText&, Inner) { return all_reduce(); }},
      {0, [](HookText&, Inner) { return noop(); }},
      {1,
       [](HookText&, Inner inner) {
         return inner.empty() ? fp16_compress() : fp16_compress(inner[0]);
       }},
      {1,
       [](HookText&, Inner inner) {
         return inner.empty() ? bf16_compress() : bf16_compress(inner[0]);
       }},
      {0, [](HookText& text, Inner) { return quantize(read_quantize(text)); }},
      {0, [](HookText& text, Inner) { return sign(read_sign(text)); }},
      {0, [](HookText& text, Inner) { return top_k(read_top_k(text)); }},
      {0,
       [](HookText& text, Inner) { return power_sgd(read_power_sgd(text)); }},
      {0, [](HookText& text,
             Inner) { return batched_power_sgd(read_power_sgd(text)); }},
      {0, [](HookText& text,
             Inner) { return post_local_sgd(read_post_local_sgd(text)); }},
      {kAny,
       [](HookText&, Inner inner) { return auto_compress(std::move(inner)); }},
  };
  return all;
}

const Entry& entry_of(const std::string& name) {
  const auto& all = names();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] == name) return entries()[i];
  }
  throw UsageError(fmt::format("there is no hook '{}'; did you mean '{}'?",
                               name, detail::nearest(name, all)));
}

}  // namespace

const std::vector<std::string>& names() {
  static const std::vector<std::string> all = {
      "all_reduce",        "noop",           "fp16_compress", "bf16_compress",
      "quantize",          "sign",           "top_k",         "power_sgd",
      "batched_power_sgd", "post_local_sgd", "auto_compress",
  };
  return all;
}

CommHook make(const std::string& text) {
  HookText parts(text);
  const Entry& entry = entry_of(parts.name());
  parts.check_inner(entry.most_inner);
  std::vector<CommHook> inner;
  for (const std::string& one : parts.inner()) inner.push_back(make(one));
  CommHook hook = entry.make(parts, std::move(inner));
  parts.check_all_read();
  return std::move(hook).named(text);
}

CommHook make(Builtin hook) {
  const auto index = static_cast<size_t>(hook);
  LOCKSTEP_CHECK(index < names().size(), UsageError,
                 "there is no built-in hook {}", index);
  return make(names()[index]);
}

}  // namespace lockstep::hooks
