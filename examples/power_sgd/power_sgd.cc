// SPDX-License-Identifier: Apache-2.0
// PowerSGD: gradients of large layers travel as two thin matrices. The state is
// saved in the middle of training and loaded again, as after a restart.
#include <cstdio>
#include <sstream>

#include <ATen/ATen.h>
#include <lockstep/hook/power_sgd.h>
#include <lockstep/lockstep.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl()
      : first(register_module("first", torch::nn::Linear(1, 128))),
        hidden(register_module("hidden", torch::nn::Linear(128, 128))),
        last(register_module("last", torch::nn::Linear(128, 1))) {}
  at::Tensor forward(const at::Tensor& x) {
    return last(at::tanh(hidden(at::tanh(first(x * 3)))));
  }
  torch::nn::Linear first, hidden, last;
};
TORCH_MODULE(Net);

using Ddp = lockstep::DistributedDataParallel<Net>;
using lockstep::hooks::PowerSgd;

constexpr int kSteps = 200;  // for each of two runs

// How far the model is from the curve sin(3x), at the points x.
at::Tensor loss_of(const at::Tensor& y, const at::Tensor& x) {
  return (y - at::sin(x * 3)).square().mean();
}

lockstep::hooks::PowerSgdOptions choose() {
  lockstep::hooks::PowerSgdOptions options;
  options.rank = 2;
  options.start_iter = 20;  // until then averages are exact
  return options;
}

void train(Ddp& ddp, const at::Tensor& points) {
  torch::optim::SGD optimizer(ddp->parameters(),
                              torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int i = 0; i < kSteps; ++i) {
    optimizer.zero_grad();
    loss_of(ddp(points), points).backward();
    optimizer.step();
  }
}

bool same_on_all_ranks(const std::shared_ptr<lockstep::ProcessGroup>& group,
                       const torch::nn::Module& module) {
  const at::Tensor differing = at::zeros({1}, at::kInt);
  for (const at::Tensor& one : module.parameters()) {
    const at::Tensor of_rank_0 = one.detach().clone();
    lockstep::broadcast(group, of_rank_0)->wait();
    if (!at::equal(one, of_rank_0)) differing.fill_(1);
  }
  lockstep::all_reduce(group, differing)->wait();
  return differing.item<int>() == 0;
}

}  // namespace

int main() {
  const auto world = lockstep::init();  // alone: a world of one

  // Each rank has its share of the points.
  const at::Tensor points = at::linspace(-1, 1, 96).unsqueeze(1);
  const at::Tensor share =
      points.slice(0, world->rank(), points.size(0), world->size());

  at::manual_seed(static_cast<uint64_t>(world->rank()));
  const Net net;
  std::stringstream file;  // each rank has its own: residuals differ
  double before = 0;
  {
    Ddp ddp(net, world);  // from here on all have the weights of rank 0
    before = loss_of(ddp->forward(points), points).item<double>();
    PowerSgd state(choose());
    ddp.register_comm_hook(state.hook());
    train(ddp, share);
    state.save(file);
  }
  Ddp ddp(net, world);
  PowerSgd state(choose());
  state.load(file);
  ddp.register_comm_hook(state.hook());
  train(ddp, share);
  const double after = loss_of(ddp->forward(points), points).item<double>();

  const auto stats = state.stats();
  const bool same = same_on_all_ranks(world, *ddp.module());
  if (world->rank() == 0) {
    std::printf(
        "%d iterations, %.0f times fewer bytes in the compressed ones\n",
        static_cast<int>(stats.iterations), stats.compression_rate());
    std::printf("loss %.4f -> %.4f, %s weights on all %d ranks\n", before,
                after, same ? "the same" : "DIFFERENT", world->size());
  }
  const bool is_good = stats.iterations == 2 * kSteps &&
                       stats.compression_rate() > 10 && after < before / 10;
  return same && is_good ? 0 : 1;
}
