// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/hook/comm_hook.h"

namespace torch::optim {
class Optimizer;
}  // namespace torch::optim

namespace lockstep::hooks {

// Steps the parameters of each bucket as soon as its gradients are reduced,
// while backward still computes others, and drops the gradients at once, so no
// step() follows backward. Without gradient_as_bucket_view this frees their
// memory for the rest of backward; with it gradients are the bucket's memory,
// which stays.
//
//   hooks::OptimizerInBackward steps([](std::vector<at::Tensor> parameters) {
//     return std::make_unique<torch::optim::SGD>(parameters, 0.1);
//   });
//   ddp.register_comm_hook(steps.hook());
//   ...
//   loss_of(ddp(data), target).backward();   // the weights are new now
//
// Gradients that were accumulated in no_sync() are part of the step that ends
// the accumulation. A parameter that no rank has used is not stepped where
// ranks know that: with find_unused_parameters set skip_unused too.
//
// Each parameter has an optimizer of its own, made when the hook first sees it,
// so its state stays with it when buckets are rebuilt.
//
// Threads:   optimizers step on the lane's thread, during backward. Change them
//            between backwards.
// Ownership: copies share the optimizers; hooks keep them.
// Errors:    what an optimizer throws comes out of backward() on all ranks.
class OptimizerInBackward {
 public:
  using Make = std::function<std::unique_ptr<torch::optim::Optimizer>(
      std::vector<at::Tensor> parameters)>;

  // Errors: UsageError when `make` is empty.
  explicit OptimizerInBackward(Make make);

  // `inner` says how gradients are reduced.
  CommHook hook(CommHook inner = all_reduce()) const;

  // Calls `change` with the optimizer of each parameter, by parameter index: to
  // set another learning rate, say.
  using Change =
      std::function<void(size_t parameter, torch::optim::Optimizer& optimizer)>;
  void for_each(const Change& change) const;

 private:
  class Optimizers;
  std::shared_ptr<Optimizers> optimizers_;
};

}  // namespace lockstep::hooks
