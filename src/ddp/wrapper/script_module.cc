// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/script_module.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace detail {
namespace {

// Calls visit(tensor) for each tensor, and returns the value with what visit
// returned in its place.
template <class Visit>
c10::IValue map_tensors(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) return visit(value.toTensor());
  if (value.isTuple()) {
    const auto tuple = value.toTuple();
    std::vector<c10::IValue> elements;
    for (const auto& one : tuple->elements()) {
      elements.push_back(map_tensors(one, visit));
    }
    // Of the same type, so that a named tuple keeps its names.
    return c10::ivalue::Tuple::createNamed(std::move(elements), tuple->type());
  }
  if (value.isList()) {
    const auto list = value.toList();
    c10::impl::GenericList copy(list.elementType());
    for (const c10::IValue& one : list) copy.push_back(map_tensors(one, visit));
    return copy;
  }
  if (value.isGenericDict()) {
    const auto dict = value.toGenericDict();
    c10::impl::GenericDict copy(dict.keyType(), dict.valueType());
    for (const auto& entry : dict) {
      copy.insert(entry.key(), map_tensors(entry.value(), visit));
    }
    return copy;
  }
  return value;
}

}  // namespace

std::vector<at::Tensor> tensors_of(const c10::IValue& value) {
  std::vector<at::Tensor> tensors;
  map_tensors(value, [&](const at::Tensor& one) {
    tensors.push_back(one);
    return one;
  });
  return tensors;
}

c10::IValue with_tensors(const c10::IValue& value,
                         const std::vector<at::Tensor>& tensors) {
  size_t next = 0;
  return map_tensors(value, [&](const at::Tensor& /*before*/) {
    LOCKSTEP_ASSERT(next < tensors.size());
    return tensors[next++];
  });
}

}  // namespace detail

namespace {

class WrappedScript : public WrappedModel {
 public:
  explicit WrappedScript(torch::jit::Module module)
      : module_(std::move(module)) {}

  std::string name() const override {
    const auto name = module_.type()->name();
    return name ? name->name() : "a TorchScript module";
  }
  NamedTensors parameters() const override {
    NamedTensors named;
    for (const auto& one : module_.named_parameters()) {
      named.emplace_back(one.name, one.value);
    }
    return named;
  }
  NamedTensors buffers() const override {
    NamedTensors named;
    for (const auto& one : module_.named_buffers()) {
      named.emplace_back(one.name, one.value);
    }
    return named;
  }
  std::vector<at::Tensor> parameter_tensors() const override {
    std::vector<at::Tensor> tensors;
    for (const auto& one : module_.parameters()) tensors.push_back(one);
    return tensors;
  }
  bool is_training() const override { return module_.is_training(); }

 private:
  const torch::jit::Module module_;
};

}  // namespace

std::shared_ptr<WrappedModel> wrapped(const torch::jit::Module& module) {
  return std::make_shared<WrappedScript>(module);
}

}  // namespace lockstep
