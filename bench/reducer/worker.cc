// SPDX-License-Identifier: Apache-2.0
// What bench_reducer looks at from outside, as a program of its own:
//
//   count leaves N STEPS       steps with a Reducer, counted by callgrind
//   count mlp N STEPS          the same for a model of N layers
//   count alone N STEPS        the same without a Reducer
//   count wrapped N STEPS      the same as mlp, a module in
//                              DistributedDataParallel
//   memory BACKEND views|copies
//                              prints the figures of memory.h
#include <valgrind/callgrind.h>

#include <optional>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "lockstep/base/error.h"
#include "lockstep/ddp/distributed_data_parallel.h"
#include "reducer/idle_backend.h"
#include "reducer/memory.h"
#include "reducer/model.h"

namespace lockstep::bench {
namespace {

constexpr int kWarmUpSteps = 3;  // the second one rebuilds the buckets

void count_wrapped(int size, int steps) {
  const MlpShape shape = small_mlp(size);
  torch::nn::Sequential net;
  for (int i = 0; i < shape.layers; ++i) {
    net->push_back(torch::nn::Linear(shape.width, shape.width));
    net->push_back(torch::nn::ReLU());
  }
  DistributedDataParallel ddp(net, make_idle_group());
  torch::optim::SGD optimizer(ddp->parameters(), 1e-3);
  const at::Tensor input = at::randn({shape.batch, shape.width});
  const auto train = [&](int count) {
    for (int i = 0; i < count; ++i) {
      ddp->zero_grad(false);
      ddp(input).pow(2).mean().backward();
      optimizer.step();
    }
  };
  train(kWarmUpSteps);
  CALLGRIND_START_INSTRUMENTATION;
  train(steps);
  CALLGRIND_STOP_INSTRUMENTATION;
}

void count(const std::string& what, int size, int steps) {
  at::set_num_threads(1);
  if (what == "wrapped") return count_wrapped(size, steps);
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
