// SPDX-License-Identifier: Apache-2.0
// Gradient accumulation: a batch that is too large for memory goes through in
// four pieces, and the ranks talk to each other once per batch, not four times.
#include <cstdio>
#include <vector>

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

using Ddp = lockstep::DistributedDataParallel<Net>;

constexpr int kPieces = 4;
constexpr int kUpdates = 500;

// How far the model is from the curve sin(3x), at the points x.
at::Tensor loss_of(const at::Tensor& y, const at::Tensor& x) {
  return (y - at::sin(x * 3)).square().mean();
}

// A loss is the mean over its piece, and the sum of four is wanted to be the
// mean over the batch.
void accumulate(Ddp& ddp, const at::Tensor& piece) {
  (loss_of(ddp(piece), piece) / kPieces).backward();
}

void one_update(Ddp& ddp, const std::vector<at::Tensor>& pieces,
                torch::optim::Optimizer& optimizer) {
  optimizer.zero_grad();
  {
    const auto alone = ddp.no_sync();  // while it lives, nothing is sent
    for (int i = 0; i + 1 < kPieces; ++i) accumulate(ddp, pieces[i]);
  }
  accumulate(ddp, pieces.back());  // averages the sum of all four
  optimizer.step();
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

  // Each rank has its share of the points, cut into pieces of one size.
  const at::Tensor points = at::linspace(-1, 1, 96).unsqueeze(1);
  const auto pieces =
      points.slice(0, world->rank(), points.size(0), world->size())
          .chunk(kPieces);

  at::manual_seed(static_cast<uint64_t>(world->rank()));
  Ddp ddp(Net(), world);  // from here on all have the weights of rank 0
  torch::optim::SGD optimizer(ddp->parameters(),
                              torch::optim::SGDOptions(0.05).momentum(0.9));
  const double before = loss_of(ddp->forward(points), points).item<double>();
  for (int i = 0; i < kUpdates; ++i) one_update(ddp, pieces, optimizer);
  const double after = loss_of(ddp->forward(points), points).item<double>();

  const auto reductions = static_cast<int>(ddp.stats().steps);
  const bool same = same_on_all_ranks(world, *ddp.module());
  if (world->rank() == 0) {
    std::printf("%d backwards, %d reductions\n", kUpdates * kPieces,
                reductions);
    std::printf("loss %.3f -> %.3f, %s weights on all %d ranks\n", before,
                after, same ? "the same" : "DIFFERENT", world->size());
  }
  return same && reductions == kUpdates && after < before / 10 ? 0 : 1;
}
