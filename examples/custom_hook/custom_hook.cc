// SPDX-License-Identifier: Apache-2.0
// A communication hook of one's own, as a lambda: gradients are averaged over
// the ranks, and then each bucket is clipped. Some batches are damaged; without
// clipping they would spoil the net.
#include <algorithm>
#include <cstdio>
#include <memory>

#include <ATen/ATen.h>
#include <lockstep/lockstep.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl()
      : hidden(register_module("hidden", torch::nn::Linear(1, 16))),
        last(register_module("last", torch::nn::Linear(16, 1))) {}
  at::Tensor forward(const at::Tensor& x) {
    return last(at::tanh(hidden(x * 3)));
  }
  torch::nn::Linear hidden, last;
};
TORCH_MODULE(Net);

constexpr int kSteps = 600;
constexpr double kMaxNorm = 0.5;

// Shared by the hook and the program, which reads it between steps.
struct Clipping {
  int buckets = 0;
  double largest_norm = 0;  // before clipping
};

// Averages a bucket, then scales it down to a norm of at most kMaxNorm.
auto average_and_clip(std::shared_ptr<Clipping> clipping) {
  return [clipping](const lockstep::GradBucket& bucket,
                    const lockstep::HookContext& context) {
    auto average = lockstep::hooks::all_reduce()(bucket, context);
    if (bucket.is_skipped() || bucket.buffer().is_sparse()) return average;

    // Nothing waits here. The step is queued in the lane, behind the average,
    // and runs on the lane's thread while backward goes on.
    const at::Tensor gradients = bucket.buffer();
    const auto clip = [clipping, gradients] {
      const at::NoGradGuard no_grad;
      const double norm = gradients.norm().item<double>();
      clipping->largest_norm = std::max(clipping->largest_norm, norm);
      if (norm <= kMaxNorm) return;
      gradients.mul_(kMaxNorm / norm);
      ++clipping->buckets;
    };
    lockstep::StepOptions options;
    options.fatal = true;  // if it throws, the step fails on all ranks
    const auto work = context.group()->post(clip, options);
    return work->future().then([gradients] { return gradients; });
  };
}

// How far the model is from the curve sin(3x), at the points x.
at::Tensor loss_of(const at::Tensor& y, const at::Tensor& x,
                   double damage = 1) {
  return (y - at::sin(x * 3) * damage).square().mean();
}

}  // namespace

int main() {
  const auto world = lockstep::init();  // alone: a world of one

  // Each rank has its share of the points.
  const at::Tensor points = at::linspace(-1, 1, 96).unsqueeze(1);
  const at::Tensor mine =
      points.slice(0, world->rank(), points.size(0), world->size());

  at::manual_seed(static_cast<uint64_t>(world->rank()));
  lockstep::DdpOptions options;
  options.check_replicas_every = 50;  // weights stay the same on all ranks
  lockstep::DistributedDataParallel ddp(Net(), world, options);
  const auto clipping = std::make_shared<Clipping>();
  ddp.register_comm_hook(average_and_clip(clipping), "average_and_clip");

  torch::optim::SGD optimizer(ddp->parameters(), 0.1);
  const double before = loss_of(ddp->forward(points), points).item<double>();
  for (int step = 0; step < kSteps; ++step) {
    // On rank 0 every hundredth batch is damaged.
    const bool is_damaged = world->rank() == 0 && step % 100 == 50;
    optimizer.zero_grad();
    loss_of(ddp(mine), mine, is_damaged ? 1e4 : 1).backward();
    optimizer.step();
  }
  const double after = loss_of(ddp->forward(points), points).item<double>();

  if (world->rank() == 0) {
    std::printf("%d of %d buckets clipped, norms of up to %.0f became %.1f\n",
                clipping->buckets, kSteps, clipping->largest_norm, kMaxNorm);
    std::printf("loss %.3f -> %.3f on %d ranks\n", before, after,
                world->size());
  }
  const bool is_clipped =
      clipping->buckets >= kSteps / 100 && clipping->largest_norm > 1000;
  return is_clipped && after < before / 10 ? 0 : 1;
}
