// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "lockstep/ddp/data_parallel_core.h"
#include "lockstep/ddp/visit_tensors.h"

namespace lockstep {

// Trains one module on many ranks: each has a replica, sees data of its own,
// and gets the average of all gradients while backward still runs.
//
//   auto world = lockstep::init();
//   Net net;
//   lockstep::DistributedDataParallel ddp(net, world);   // all get rank 0's
//   torch::optim::SGD optimizer(ddp->parameters(), 0.1);
//   for (auto& batch : my_share_of_the_data) {
//     optimizer.zero_grad();
//     loss_of(ddp(batch.data), batch.target).backward();
//     optimizer.step();                                  // the same everywhere
//   }
//
// M is what a program holds a module by: a TORCH_MODULE such as
// torch::nn::Linear, or a std::shared_ptr of its implementation. The module
// stays what it is, with the same names and checkpoints: `ddp->` is it. For a
// torch::jit::Module see script_module.h.
//
// Every rank calls forward and backward equally often. In eval mode and without
// gradients forward is that of the module alone, on any rank, whatever the
// others do.
//
// Threads, Ownership, Errors: see DataParallelCore, which has the other calls.
template <class M>
class DistributedDataParallel : public DataParallelCore {
 public:
  DistributedDataParallel(M module, std::shared_ptr<ProcessGroup> group,
                          DdpOptions options = {})
      : DataParallelCore(wrapped(as_module(module)), std::move(group),
                         std::move(options)),
        module_(std::move(module)) {}

  // What the module's forward returns. visit_tensors.h says which types it may
  // be; a module that returns nothing is one whose loss is found elsewhere.
  template <class... Args>
  auto forward(Args&&... args) {
    const bool synced = begin_forward();
    using Output =
        std::decay_t<decltype(module_->forward(std::forward<Args>(args)...))>;
    if constexpr (std::is_void_v<Output>) {
      module_->forward(std::forward<Args>(args)...);
      end_forward({}, synced);
    } else {
      Output output = module_->forward(std::forward<Args>(args)...);
      std::vector<at::Tensor*> tensors;
      visit_tensors(output, [&](at::Tensor& one) { tensors.push_back(&one); });
      end_forward(tensors, synced);
      return output;
    }
  }
  template <class... Args>
  auto operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  // The wrapped module.
  M& module() { return module_; }
  const M& module() const { return module_; }
  auto* operator->() { return &*module_; }
  const auto* operator->() const { return &*module_; }

 private:
  template <class Impl>
  static std::shared_ptr<torch::nn::Module> as_module(
      const std::shared_ptr<Impl>& module) {
    return module;
  }
  template <class Impl>
  static std::shared_ptr<torch::nn::Module> as_module(
      const torch::nn::ModuleHolder<Impl>& module) {
    return module.is_empty() ? nullptr : module.ptr();
  }

  M module_;
};

}  // namespace lockstep
