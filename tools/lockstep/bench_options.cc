// SPDX-License-Identifier: Apache-2.0
#include "bench_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/backend/init.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "rank_count.h"

namespace lockstep::tool {
namespace {

// The enumerator with that name, of the first `count`.
template <class Enum>
Enum named(const std::string& name, int count, const char* option) {
  std::vector<std::string> known;
  for (int i = 0; i < count; ++i) {
    const auto value = static_cast<Enum>(i);
    if (to_text(value) == name) return value;
    known.emplace_back(to_text(value));
  }
  throw UsageError(fmt::format("{} knows {}, not '{}'", option,
                               fmt::join(known, ", "), name));
}

// What the command line says, else the environment, as init() does.
std::string backend_of(const std::string& word) {
  const std::string name =
      word == "auto" ? env::text("LOCKSTEP_BACKEND").value_or(word) : word;
  const auto names = backend_names();
  LOCKSTEP_CHECK(name == "auto" || std::count(names.begin(), names.end(), name),
                 UsageError, "there is no backend '{}'; there are auto, {}",
                 name, fmt::join(names, ", "));
  return name;
}

void set_sizes(BenchOptions& options, const std::string& text) {
  const size_t colon = text.find(':');
  options.min_bytes = bytes_of(text.substr(0, colon));
  options.max_bytes = colon == std::string::npos
                          ? options.min_bytes
                          : bytes_of(text.substr(colon + 1));
  LOCKSTEP_CHECK(options.min_bytes <= options.max_bytes, UsageError,
                 "--bytes wants MIN:MAX, the smaller one first, not '{}'",
                 text);
  const size_t width = size_of(options.dtype);
  for (const size_t bytes : {options.min_bytes, options.max_bytes}) {
    LOCKSTEP_CHECK(bytes > 0 && bytes % width == 0, UsageError,
                   "--bytes: {} bytes are not one or more {} of {} bytes",
                   bytes, to_text(options.dtype), width);
  }
}

void check_what_it_needs(const BenchArguments& arguments,
                         const Collective& collective) {
  LOCKSTEP_CHECK(collective.reduces || !arguments.op, UsageError,
                 "--op: {} reduces nothing; leave it out", collective.name);
  LOCKSTEP_CHECK(collective.has_root || !arguments.root, UsageError,
                 "--root: {} has no root; leave it out", collective.name);
  LOCKSTEP_CHECK(collective.kind != OpKind::kBarrier || !arguments.bytes,
                 UsageError, "--bytes: barrier moves no data; leave it out");
}

}  // namespace

BenchOptions options_of(const BenchArguments& arguments) {
  BenchOptions options;
  options.collective = collective_of(arguments.collective);
  check_what_it_needs(arguments, options.collective);
  options.backend = backend_of(arguments.backend);
  options.ranks = rank_count_of(arguments.ranks);
  options.dtype = named<DType>(arguments.dtype, kDTypeCount, "--dtype");
  options.op = named<ReduceOp::Kind>(arguments.op.value_or("sum"),
                                     ReduceOp::kKindCount, "--op");
  check_defined(options.op, options.dtype);
  set_sizes(options, arguments.bytes.value_or("1K:16M"));
  LOCKSTEP_CHECK(arguments.step > 1 && std::isfinite(arguments.step),
                 UsageError, "--step must be above 1, not {}", arguments.step);
  LOCKSTEP_CHECK(arguments.iterations >= 1, UsageError,
                 "--iterations must be 1 or more");
  LOCKSTEP_CHECK(arguments.warmup >= 1, UsageError,
                 "--warmup must be 1 or more");
  LOCKSTEP_CHECK(arguments.timeout >= 1, UsageError,
                 "--timeout must be 1 or more");
  options.step = arguments.step;
  options.root = arguments.root.value_or(0);
  options.iterations = arguments.iterations;
  options.warmup = arguments.warmup;
  options.registered = arguments.registered;
  options.sync = arguments.sync;
  options.check = arguments.check;
  options.json = arguments.json;
  options.bind = arguments.bind;
  options.timeout = std::chrono::seconds(arguments.timeout);
  return options;
}

size_t bytes_of(const std::string& text) {
  const char* const end = text.data() + text.size();
  size_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string unit(rest, end);
  int shift = 0;
  if (unit == "K" || unit == "k") shift = 10;
  if (unit == "M" || unit == "m") shift = 20;
  if (unit == "G" || unit == "g") shift = 30;
  LOCKSTEP_CHECK(error == std::errc() && (unit.empty() || shift > 0) &&
                     number <= (size_t{1} << 50 >> shift),
                 UsageError,
                 "--bytes wants sizes like 4096, 1K, 25M or 1G, not '{}'",
                 text);
  return number << shift;
}

std::vector<size_t> sizes_for(const BenchOptions& options, int ranks) {
  LOCKSTEP_CHECK(options.root >= 0 && options.root < ranks, UsageError,
                 "--root {} is not in 0..{}", options.root, ranks - 1);
  if (options.collective.kind == OpKind::kBarrier) return {0};
  const size_t width = size_of(options.dtype);
  const size_t unit =
      options.collective.has_parts ? width * static_cast<size_t>(ranks) : width;
  LOCKSTEP_CHECK(options.min_bytes >= unit, UsageError,
                 "--bytes: {} bytes are too few for {}, which wants one {} for "
                 "each of {} ranks: {} bytes or more",
                 options.min_bytes, options.collective.name,
                 to_text(options.dtype), ranks, unit);
  std::vector<size_t> sizes;
  const auto add = [&](double bytes) {
    const size_t whole = static_cast<size_t>(bytes) / unit * unit;
    if (sizes.empty() || whole > sizes.back()) sizes.push_back(whole);
  };
  const auto most = static_cast<double>(options.max_bytes);
  auto bytes = static_cast<double>(options.min_bytes);
  while (bytes < most) {
    add(bytes);
    bytes *= options.step;
  }
  add(most);
  return sizes;
}

}  // namespace lockstep::tool
