// SPDX-License-Identifier: Apache-2.0
// A small recommender: will somebody who looked at these items click on that
// one? The tables of items are large, a batch touches few of their rows, and so
// gradients are sparse: only rows that some rank has touched travel.
#include <cstdio>

#include <ATen/ATen.h>
#include <lockstep/lockstep.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

namespace {

constexpr int kItems = 2000;
constexpr int kHistory = 4;     // items that a visitor has looked at
constexpr int kWidth = 8;       // numbers per item
constexpr int kVisitors = 128;  // in a batch
constexpr int kSteps = 400;

struct Batch {
  at::Tensor history;  // kVisitors x kHistory items
  at::Tensor offered;  // kVisitors items
  at::Tensor clicked;  // 1 or 0, by visitor
};

// What nobody tells the model: every item has an appeal, and visitors click
// when that of the offer and of what they looked at is high enough.
at::Tensor appeal_of(const at::Tensor& items) { return at::sin(items * 7); }

Batch make_batch() {
  Batch batch;
  batch.history = at::randint(kItems, {kVisitors, kHistory}, at::kLong);
  batch.offered = at::randint(kItems, {kVisitors}, at::kLong);
  const at::Tensor taste = appeal_of(batch.history).mean(1);
  batch.clicked = (appeal_of(batch.offered) + taste).gt(0).to(at::kFloat);
  return batch;
}

struct RecommenderImpl : torch::nn::Module {
  RecommenderImpl()
      : seen(register_module("seen",
                             torch::nn::EmbeddingBag(
                                 torch::nn::EmbeddingBagOptions(kItems, kWidth)
                                     .mode(torch::kMean)
                                     .sparse(true)))),
        offer(register_module(
            "offer",
            torch::nn::Embedding(
                torch::nn::EmbeddingOptions(kItems, kWidth).sparse(true)))),
        hidden(register_module("hidden", torch::nn::Linear(2 * kWidth, 16))),
        last(register_module("last", torch::nn::Linear(16, 1))) {}
  at::Tensor forward(const Batch& batch) {
    const at::Tensor both =
        at::cat({seen(batch.history), offer(batch.offered)}, 1);
    return last(at::relu(hidden(both))).squeeze(1);
  }
  torch::nn::EmbeddingBag seen;
  torch::nn::Embedding offer;
  torch::nn::Linear hidden, last;
};
TORCH_MODULE(Recommender);

}  // namespace

int main() {
  const auto world = lockstep::init();  // alone: a world of one
  at::manual_seed(static_cast<uint64_t>(world->rank()) + 1);  // data of its own

  // That gradients of tables are sparse is found in the module. Now and then
  // ranks make sure that they still have the same weights, or throw.
  lockstep::DdpOptions options;
  options.check_replicas_every = 100;
  lockstep::DistributedDataParallel ddp(Recommender(), world, options);

  // Adam refuses sparse gradients; plain SGD changes just the rows they have.
  // Each has a small part in the loss of a batch, hence the large steps.
  torch::optim::SGD tables({ddp->seen->weight, ddp->offer->weight},
                           torch::optim::SGDOptions(60));
  auto dense = ddp->hidden->parameters();
  for (const at::Tensor& one : ddp->last->parameters()) dense.push_back(one);
  torch::optim::Adam layers(dense, torch::optim::AdamOptions(0.01));

  at::Tensor first, recent = at::zeros({1});
  for (int step = 0; step < kSteps; ++step) {
    const Batch batch = make_batch();
    tables.zero_grad();
    layers.zero_grad();
    const at::Tensor loss =
        torch::nn::functional::binary_cross_entropy_with_logits(ddp(batch),
                                                                batch.clicked);
    loss.backward();
    tables.step();
    layers.step();
    if (step == 0) first = loss.detach().clone();
    recent = recent * 0.95 + loss.detach() * 0.05;
  }

  // A loss is one rank's; what they agree on is the average.
  lockstep::all_reduce(world, first, lockstep::ReduceOp::kAverage)->wait();
  lockstep::all_reduce(world, recent, lockstep::ReduceOp::kAverage)->wait();
  const at::Tensor gradient = ddp->offer->weight.grad();
  if (world->rank() == 0) {
    std::printf("loss %.3f -> %.3f on %d ranks\n", first.item<double>(),
                recent.item<double>(), world->size());
    std::printf("the last step touched %d of %d rows\n",
                static_cast<int>(gradient._nnz()), kItems);
  }
  const bool learned = recent.item<double>() < first.item<double>() / 2;
  return learned && gradient.is_sparse() ? 0 : 1;
}
