// SPDX-License-Identifier: Apache-2.0
#include "ddp/trainer.h"

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/optim/sgd.h>

#include "ddp/models.h"
#include "lockstep/base/error.h"
#include "lockstep/ddp/distributed_data_parallel.h"
#include "lockstep/hook/make_hook.h"
#include "lockstep/tensor/collectives.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Group = std::shared_ptr<ProcessGroup>;

constexpr int kWarmUpSteps = 4;  // the second one rebuilds the buckets
constexpr double kLearningRate = 0.01;

DdpOptions options_for(const StepOrder& order, size_t parameters) {
  DdpOptions options;
  if (order.bucket_bytes > 0) {
    options.bucket_caps_bytes = {static_cast<size_t>(order.bucket_bytes)};
  }
  if (order.mode == "after") {
    options.bucket_plan = BucketPlan{{{reverse_order(parameters)}}};
  }
  return options;
}

// The net, made data-parallel or not. The only place that knows how.
class Parallel {
 public:
  Parallel(torch::nn::Sequential net, const StepOrder& order,
           const Group& world)
      : net_(std::move(net)) {
    if (order.mode == "local") return;
    ddp_.emplace(net_, world, options_for(order, net_->parameters().size()));
    if (order.hook == "all_reduce") return;  // what it does by itself
    ddp_->register_comm_hook(hooks::make(order.hook));
  }

  at::Tensor forward(const at::Tensor& input) {
    return ddp_ ? ddp_->forward(input) : net_->forward(input);
  }

 private:
  torch::nn::Sequential net_;
  std::optional<DistributedDataParallel<torch::nn::Sequential>> ddp_;
};

class StepTrainer final : public Trainer {
 public:
  StepTrainer(const StepOrder& order, const Group& world)
      : drop_(order.gradients == "drop"),
        model_(make_model(order.model, order.batch, world->rank())),
        parallel_(model_.net, order, world),
        sgd_(model_.net->parameters(), kLearningRate) {
    StepTimes ignored;
    run(kWarmUpSteps, ignored);
    if (order.mode != "local" && order.hook != "noop") check_weights(world);
  }

  void run(int steps, StepTimes& times) override {
    for (int i = 0; i < steps; ++i) one_step(times);
  }

 private:
  void one_step(StepTimes& times) {
    auto last = Clock::now();
    const auto lap = [&](double& part) {
      const auto now = Clock::now();
      part += std::chrono::duration<double>(now - last).count();
      last = now;
    };
    model_.net->zero_grad(drop_);
    lap(times.zero);
    const at::Tensor loss = model_.loss_of(parallel_.forward(model_.input));
    lap(times.forward);
    loss.backward();
    lap(times.backward);
    sgd_.step();
    lap(times.update);
  }

  void check_weights(const Group& world) {
    const at::NoGradGuard no_grad;
    at::Tensor sum = at::zeros({1}, at::kDouble);
    for (const auto& one : model_.net->parameters()) {
      sum.add_(one.sum(at::kDouble));
    }
    const at::Tensor average = sum.clone();
    all_reduce(world, average, ReduceOp::kAverage)->wait();
    LOCKSTEP_CHECK(sum.equal(average), InternalError,
                   "ranks have different weights after {} steps: {} here",
                   kWarmUpSteps, sum.item<double>());
  }

  const bool drop_;
  Model model_;
  Parallel parallel_;
  torch::optim::SGD sgd_;
};

// Buckets without a backward: what communication takes by itself.
class Exchange final : public Trainer {
 public:
  Exchange(const StepOrder& order, Group world) : world_(std::move(world)) {
    const auto parameters = make_model(order.model, 1, 0).net->parameters();
    std::vector<PlanItem> items;
    items.reserve(parameters.size());
    for (const auto& one : parameters) items.push_back({one.nbytes()});
    const auto plan =
        plan_buckets(items, options_for(order, items.size()).bucket_caps_bytes,
                     reverse_order(items.size()));
    for (const auto& bucket : plan.buckets) {
      int64_t count = 0;
      for (const size_t i : bucket.items) count += parameters[i].numel();
      buckets_.push_back(registered_zeros(*world_, {count}, at::kFloat));
    }
    StepTimes ignored;
    run(kWarmUpSteps, ignored);
  }

  void run(int steps, StepTimes& times) override {
    for (int i = 0; i < steps; ++i) {
      const auto begin = Clock::now();
      std::vector<WorkHandle> works;
      for (const at::Tensor& bucket : buckets_) {
        works.push_back(all_reduce(world_, bucket, ReduceOp::kAverage));
      }
      for (const auto& work : works) work->wait();
      times.wait += std::chrono::duration<double>(Clock::now() - begin).count();
    }
  }

 private:
  const Group world_;
  std::vector<at::Tensor> buckets_;
};

}  // namespace

std::unique_ptr<Trainer> make_trainer(const StepOrder& order,
                                      const Group& world) {
  if (order.mode == "exchange") {
    return std::make_unique<Exchange>(order, world);
  }
  return std::make_unique<StepTrainer>(order, world);
}

}  // namespace lockstep::bench
