// SPDX-License-Identifier: Apache-2.0
// What bench_reducer looks at from outside, as a program of its own:
//
//   count leaves N STEPS       steps with a Reducer, counted by callgrind
//   count mlp N STEPS          the same for a model of N layers
//   count alone N STEPS        the same without a Reducer
//   memory BACKEND views|copies
//                              prints the figures of memory.h
#include <valgrind/callgrind.h>

#include <optional>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "reducer/idle_backend.h"
#include "reducer/memory.h"
#include "reducer/model.h"

namespace lockstep::bench {
namespace {

void count(const std::string& what, int size, int steps) {
  constexpr int kWarmUpSteps = 3;  // the second one rebuilds the buckets
  at::set_num_threads(1);
  Model model =
      what == "leaves" ? make_leaves(size) : make_mlp(small_mlp(size));
  ReducerOptions options;
  if (what == "leaves") options.bucket_caps_bytes = {kLeafBucketBytes};
  std::optional<Reducer> reducer;
  if (what != "alone") {
    reducer.emplace(model.parameters, make_idle_group(), options);
  }
  Reducer* const used = reducer ? &*reducer : nullptr;
  for (int i = 0; i < kWarmUpSteps; ++i) train_step(model, used);
  CALLGRIND_START_INSTRUMENTATION;
  for (int i = 0; i < steps; ++i) train_step(model, used);
  CALLGRIND_STOP_INSTRUMENTATION;
}

void run_worker(const std::vector<std::string>& words) {
  if (words.size() == 4 && words[0] == "count") {
    return count(words[1], std::stoi(words[2]), std::stoi(words[3]));
  }
  LOCKSTEP_CHECK(words.size() == 3 && words[0] == "memory", UsageError,
                 "this program is started by bench_reducer");
  const auto figures = measure_memory(words[1], words[2] == "views");
  fmt::print("{} {} {}\n", figures.parameters, figures.counted, figures.grown);
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  try {
    lockstep::bench::run_worker({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
