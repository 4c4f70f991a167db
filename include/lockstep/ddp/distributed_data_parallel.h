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

// Trains one module on many ranks: each rank has a replica and its own data,
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
// M is a module holder: a TORCH_MODULE such as torch::nn::Linear, or a
// std::shared_ptr of its implementation. The module is not changed and keeps
// its names and checkpoints; `ddp->` gives access to it. For a
// torch::jit::Module see script_module.h.
//
// Every rank calls forward and backward equally often. In eval mode and without
// gradients forward is that of the module alone, and each rank may call it on
// its own.
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

  // Returns what the module's forward returns: one of the types in
  // visit_tensors.h, or void for a module that keeps its loss elsewhere.
  template <class... Args>
  auto forward(Args&&... args) {
    const bool synced = begin_forward();
    using Output =
        std::decay_t<decltype(module_->forward(std::forward<Args>(args)...))>;
    if constexpr (std::is_void_v<Output>) {
      run(Argument<Args>(*this, std::forward<Args>(args))...);
      end_forward({}, synced);
    } else {
      Output output = run(Argument<Args>(*this, std::forward<Args>(args))...);
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
  // An argument of forward as the module gets it: a tensor in the type that the
  // module computes in, anything else as it is. T is as Args of forward().
  template <class T, class = void>
  class Argument {
   public:
    Argument(const DistributedDataParallel& /*ddp*/, T&& value)
        : value_(std::forward<T>(value)) {}
    T&& get() { return std::forward<T>(value_); }

   private:
    T&& value_;
  };
  template <class T>
  class Argument<
      T, std::enable_if_t<std::is_same_v<std::decay_t<T>, at::Tensor>>> {
   public:
    Argument(const DistributedDataParallel& ddp, const at::Tensor& value)
        : value_(ddp.lowered(value)) {}
    T&& get() { return static_cast<T&&>(value_); }

   private:
    at::Tensor value_;
  };

  template <class... Arguments>
  auto run(Arguments... arguments) {
    try {
      return module_->forward(arguments.get()...);
    } catch (...) {
      abandon_forward();
      throw;
    }
  }

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
