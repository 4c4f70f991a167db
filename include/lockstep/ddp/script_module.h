// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <torch/csrc/jit/api/module.h>

#include "lockstep/ddp/distributed_data_parallel.h"

namespace lockstep {

namespace detail {

// The tensors in a value that a TorchScript function returned: in tuples, lists
// and dictionaries of any depth, in order.
std::vector<at::Tensor> tensors_of(const c10::IValue& value);

// The same value with these tensors in their places.
c10::IValue with_tensors(const c10::IValue& value,
                         const std::vector<at::Tensor>& tensors);

}  // namespace detail

// DistributedDataParallel for a TorchScript module:
//
//   torch::jit::Module net = torch::jit::load("net.pt");
//   lockstep::DistributedDataParallel ddp(net, world);
//   torch::Tensor out = ddp({batch}).toTensor();
//
// Parameters and buffers have their names in the script; optimizers get the
// tensors of ddp->parameters() as they would without the wrapper.
template <>
class DistributedDataParallel<torch::jit::Module> : public DataParallelCore {
 public:
  DistributedDataParallel(torch::jit::Module module,
                          std::shared_ptr<ProcessGroup> group,
                          DdpOptions options = {})
      : DataParallelCore(wrapped(module), std::move(group), std::move(options)),
        module_(std::move(module)) {}

  c10::IValue forward(std::vector<c10::IValue> inputs) {
    const bool synced = begin_forward();
    for (c10::IValue& input : inputs) {
      if (input.isTensor()) input = lowered(input.toTensor());
    }
    const c10::IValue output = run(std::move(inputs));
    std::vector<at::Tensor> tensors = detail::tensors_of(output);
    std::vector<at::Tensor*> pointers;
    for (at::Tensor& one : tensors) pointers.push_back(&one);
    end_forward(pointers, synced);
    return detail::with_tensors(output, tensors);
  }
  c10::IValue operator()(std::vector<c10::IValue> inputs) {
    return forward(std::move(inputs));
  }

  torch::jit::Module& module() { return module_; }
  const torch::jit::Module& module() const { return module_; }
  torch::jit::Module* operator->() { return &module_; }
  const torch::jit::Module* operator->() const { return &module_; }

 private:
  c10::IValue run(std::vector<c10::IValue> inputs) {
    try {
      return module_.forward(std::move(inputs));
    } catch (...) {
      abandon_forward();
      throw;
    }
  }

  torch::jit::Module module_;
};

}  // namespace lockstep
