// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/auto_compress.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hook/agreement.h"
#include "hook/auto_compress_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/hook/compress.h"

namespace lockstep {
namespace {

using hooks::AutoCompressOptions;
using Clock = std::function<double()>;  // in seconds

double steady_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double median_of(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The candidates one after the other, each for some steps, then the best. The
// plain average is the first.
class AutoCompress {
 public:
  AutoCompress(Clock clock, std::vector<CommHook> candidates,
               AutoCompressOptions options)
      : clock_(std::move(clock)),
        options_(options),
        candidates_(std::move(candidates)) {}

  Future<at::Tensor> operator()(const GradBucket& bucket,
                                const HookContext& context) {
    if (bucket.index() == 0) begin_step(context);
    return candidates_[current_](bucket, context);
  }

 private:
  // A step ends where the next begins.
  void begin_step(const HookContext& context) {
    const double now = clock_();
    if (watch_.is_new(context.group())) {
      // After a failure ranks may have come differently far.
      watch_.set(context.group());
      begin_trial();
    }
    if (is_decided_) return;
    // Buckets are rebuilt in the first steps: the first candidate needs more.
    const int warm_up = options_.warm_up_steps * (current_ == 0 ? 2 : 1);
    if (steps_ > warm_up) {
      samples_.push_back(now - last_);
    }
    if (samples_.size() == static_cast<size_t>(options_.measured_steps)) {
      end_candidate(context);
    }
    ++steps_;
    last_ = clock_();
  }

  void begin_trial() {
    is_decided_ = false;
    seconds_.clear();
    begin_candidate(0);
  }
  void begin_candidate(size_t index) {
    current_ = index;
    steps_ = 0;
    samples_.clear();
  }

  void end_candidate(const HookContext& context) {
    seconds_.push_back(median_of(samples_));
    if (seconds_.size() < candidates_.size()) {
      begin_candidate(current_ + 1);
    } else {
      decide(*context.group());
    }
  }

  // By the slowest rank: a collective that blocks.
  void decide(ProcessGroup& group) {
    CallOptions now;
    now.sync = true;
    group.all_reduce(buffer_of(seconds_), ReduceOp::kMax, now);
    const auto best = std::min_element(seconds_.begin(), seconds_.end());
    const bool pays = *best * options_.min_gain <= seconds_[0];
    current_ = pays ? static_cast<size_t>(best - seconds_.begin()) : 0;
    is_decided_ = true;
    if (group.rank() == 0) log_choice(current_);
  }

  void log_choice(size_t choice) const {
    std::vector<std::string> times;
    for (size_t i = 0; i < seconds_.size(); ++i) {
      times.push_back(fmt::format("{} {:.3g} ms", candidates_[i].name(),
                                  1e3 * seconds_[i]));
    }
    const std::string reason =
        choice == 0 ? fmt::format(
                          "no candidate makes steps {:.3g} times as fast: "
                          "arithmetic is the limit, not the link",
                          options_.min_gain)
                    : fmt::format(
                          "{:.3g} times as fast as all_reduce: the link is "
                          "the limit",
                          seconds_[0] / seconds_[choice]);
    log_info(fmt::format("auto_compress takes {} ({}). Steps: {}",
                         candidates_[choice].name(), reason,
                         fmt::join(times, ", ")));
  }

  const Clock clock_;
  const AutoCompressOptions options_;
  const std::vector<CommHook> candidates_;
  detail::GroupWatch watch_;
  bool is_decided_ = false;  // the current candidate stays
  size_t current_ = 0;
  int steps_ = 0;    // begun with the current candidate before this one
  double last_ = 0;  // when the last step began
  std::vector<double> samples_;  // of the current candidate
  std::vector<double> seconds_;  // medians, by candidate
};

void check(const std::vector<CommHook>& candidates,
           const AutoCompressOptions& options) {
  for (const CommHook& one : candidates) {
    LOCKSTEP_CHECK(one, UsageError, "a candidate of auto_compress is empty");
    LOCKSTEP_CHECK(!one.updates_parameters(), UsageError,
                   "auto_compress cannot try '{}', which updates parameters; "
                   "wrap auto_compress in it instead",
                   one.name());
  }
  LOCKSTEP_CHECK(options.warm_up_steps >= 0 && options.measured_steps >= 1,
                 UsageError,
                 "auto_compress: warm_up_steps is {} and measured_steps {}; "
                 "expected at least 0 and 1",
                 options.warm_up_steps, options.measured_steps);
  LOCKSTEP_CHECK(options.min_gain >= 1, UsageError,
                 "auto_compress: min_gain is {}; expected at least 1",
                 options.min_gain);
}

}  // namespace

CommHook detail::auto_compress_by(std::function<double()> clock,
                                  std::vector<CommHook> candidates,
                                  const AutoCompressOptions& options) {
  check(candidates, options);
  if (candidates.empty()) {
    candidates = {hooks::fp16_compress(), hooks::bf16_compress()};
  }
  candidates.insert(candidates.begin(), hooks::all_reduce());
  const auto state = std::make_shared<AutoCompress>(
      std::move(clock), std::move(candidates), options);
  const auto call = [state](const GradBucket& bucket,
                            const HookContext& context) {
    return (*state)(bucket, context);
  };
  return CommHook(call).named("auto_compress");
}

CommHook hooks::auto_compress(std::vector<CommHook> candidates,
                              const AutoCompressOptions& options) {
  return detail::auto_compress_by(steady_seconds, std::move(candidates),
                                  options);
}

}  // namespace lockstep
