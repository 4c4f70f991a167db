// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/collectives.h"

// Tensors as the plain memory a group works on, and back.
namespace lockstep::detail {

// Checks that `tensor` is dense, on the CPU and of a type that can be sent.
// Errors: UsageError, where `name` says which argument it is.
void check_dense(const std::string& name, const at::Tensor& tensor);

// Complex as pairs of real numbers; others as they are. Shares the memory.
at::Tensor as_real(const at::Tensor& tensor);

// A tensor whose elements lie one after the other: `tensor` itself where they
// do, else a copy.
//
// What a FlatTensor is of is kept alive by keepalive(); write_back() brings a
// result to where the tensor really is.
class FlatTensor {
 public:
  // `name` is for errors.
  FlatTensor(const std::string& name, const at::Tensor& tensor);
  // All of `tensors` (of one type, checked) side by side, always as a copy;
  // their elements are copied in only when asked for.
  FlatTensor(const std::string& name, const TensorList& tensors, bool copy_in);

  Buffer buffer() const;
  const at::Tensor& data() const { return data_; }
  bool is_copy() const { return !write_back_to_.empty(); }
  void write_back() const;
  // Errors: UsageError when elements of the tensor share memory.
  void check_writable() const;

 private:
  at::Tensor data_;           // contiguous and real
  TensorList write_back_to_;  // what data_ is a copy of, side by side
};

// The number of elements of each, after as_real().
std::vector<size_t> counts_of(const TensorList& tensors);
// The list as counts, or empty when all are equal.
std::vector<size_t> counts_unless_equal(const TensorList& tensors);

// Fills in what a call on tensors adds: keeps `kept` until the operation has
// completed, and writes `results` back before it does.
CallOptions with_tensors(CallOptions options,
                         const std::vector<FlatTensor>& kept,
                         const std::vector<FlatTensor>& results);

// The same, and the shape of `tensor` for ranks to compare.
CallOptions with_shape(CallOptions options, const at::Tensor& tensor);

// For a list whose tensors are packed: ranks compare all their shapes.
uint64_t agreement_of_shapes(const TensorList& tensors);

// Runs `body`, which is what `operation` does with a group: errors say whose it
// was.
template <class Body>
WorkHandle in_call(const GroupRef& group, const char* operation,
                   const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    ErrorContext context;
    context.rank = group->rank();
    context.operation = operation;
    context.group = group->name();
    rethrow_with_context(error, context);
  }
}

// Errors: UsageError when `op` has no meaning for the complex `tensor`.
void check_complex_op(const at::Tensor& tensor, ReduceOp op);

}  // namespace lockstep::detail
