// SPDX-License-Identifier: Apache-2.0
// Records training steps of a model with a few buckets, and writes them for a
// trace viewer; docs/step.md narrates one of them.
#include <cstdio>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <lockstep/lockstep.h>

namespace {

using Tensors = std::vector<at::Tensor>;
namespace trace = lockstep::trace;

constexpr int kLayers = 4;
constexpr int64_t kWidth = 512;  // a layer's weights: 1 MiB

at::Tensor loss_of(const Tensors& weights, at::Tensor x) {
  for (const at::Tensor& one : weights) x = at::relu(at::matmul(x, one));
  return x.square().mean();
}

void one_step(lockstep::Reducer& reducer, const Tensors& weights,
              const at::Tensor& batch) {
  const trace::Span step("step", "program");
  reducer.prepare_for_forward();
  at::Tensor loss;
  {
    const trace::Span span("forward", "program");
    loss = loss_of(weights, batch);
  }
  reducer.prepare_for_backward({loss});
  {
    const trace::Span span("backward", "program");
    loss.backward();
  }
  const trace::Span span("update", "program");
  const at::NoGradGuard no_grad;
  for (const at::Tensor& one : weights) {
    one.sub_(one.grad(), 0.01);
    one.mutable_grad().zero_();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string prefix = argc > 1 ? argv[1] : "step";
  const auto world = lockstep::init();

  Tensors weights;
  for (int i = 0; i < kLayers; ++i) {
    weights.push_back(at::randn({kWidth, kWidth}) / 16);
  }
  lockstep::broadcast_coalesced(world, weights)->wait();
  for (const at::Tensor& one : weights) one.requires_grad_();
  const at::Tensor batch = at::randn({64, kWidth});

  lockstep::ReducerOptions options;
  options.bucket_caps_bytes = {1 << 20};  // a bucket for each layer
  lockstep::Reducer reducer(weights, world, options);

  // What happens only in the first steps (threads start, memory is touched)
  // shall not be in the picture.
  for (int i = 0; i < 10; ++i) one_step(reducer, weights, batch);
  world->barrier()->wait();  // all ranks start together
  trace::start();
  for (int i = 0; i < 20; ++i) one_step(reducer, weights, batch);
  trace::stop();

  const std::string path =
      prefix + "." + std::to_string(world->rank()) + ".json";
  trace::write_chrome(path);
  std::printf("wrote %s: %zu buckets\n", path.c_str(),
              reducer.bucket_plan().buckets.size());
}
