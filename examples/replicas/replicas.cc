// SPDX-License-Identifier: Apache-2.0
// Several ranks in one process: each is a thread with a replica of the model
// and a DistributedDataParallel of its own. Started as two processes these are
// four ranks, and all of them train one model.
#include <cstdio>
#include <future>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <lockstep/lockstep.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

namespace {

using Group = std::shared_ptr<lockstep::ProcessGroup>;

constexpr int kRanksPerProcess = 2;
constexpr int kSteps = 300;

// How far the model is from y = 2a - b + 1, at the points (a, b).
at::Tensor loss_of(const at::Tensor& y, const at::Tensor& x) {
  const at::Tensor a = x.select(1, 0);
  const at::Tensor b = x.select(1, 1);
  return (y.squeeze(1) - (a * 2 - b + 1)).square().mean();
}

bool same_on_all_ranks(const Group& group, const torch::nn::Module& module) {
  const at::Tensor differing = at::zeros({1}, at::kInt);
  for (const at::Tensor& one : module.parameters()) {
    const at::Tensor of_rank_0 = one.detach().clone();
    lockstep::broadcast(group, of_rank_0)->wait();
    if (!at::equal(one, of_rank_0)) differing.fill_(1);
  }
  lockstep::all_reduce(group, differing)->wait();
  return differing.item<int>() == 0;
}

// One rank, from its birth to its end: the same as in a process of its own. It
// takes over its end of the group, so that a rank which fails leaves, and the
// others hear of it at once.
bool train(Group&& mine) {
  const Group world = std::move(mine);

  // Threads of a process share torch's default generator, which gives each
  // whatever is next; one of its own gives a rank the same data in every run.
  auto random = at::make_generator<at::CPUGeneratorImpl>(
      static_cast<uint64_t>(world->rank()) + 1);

  torch::nn::Linear net(2, 1);  // weights differ, until it is wrapped
  lockstep::DistributedDataParallel ddp(net, world);
  torch::optim::SGD optimizer(ddp->parameters(), 0.1);
  double loss_now = 0;
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor x = at::rand({16, 2}, random);
    optimizer.zero_grad();
    const at::Tensor loss = loss_of(ddp(x), x);
    loss.backward();  // from here on gradients are averages over all ranks
    optimizer.step();
    if (step + 1 == kSteps) loss_now = loss.item<double>();
  }

  const bool same = same_on_all_ranks(world, *net);
  std::printf("rank %d of %d: loss %.4f, %s weights\n", world->rank(),
              world->size(), loss_now, same ? "the same" : "DIFFERENT");
  return same && loss_now < 0.001;
}

}  // namespace

int main() {
  at::set_num_threads(1);  // a core for each rank, not all cores for each

  lockstep::InitOptions options;
  options.ranks_in_process = kRanksPerProcess;
  std::vector<std::future<bool>> ranks;
  for (Group& world : lockstep::init_ranks(options)) {
    ranks.push_back(std::async(std::launch::async, train, std::move(world)));
  }
  bool good = true;
  for (auto& rank : ranks) good = rank.get() && good;  // or throws its error
  return good ? 0 : 1;
}
