// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <c10/core/ScalarType.h>

namespace lockstep {

// Which types a DistributedDataParallel computes and communicates in. What is
// not given stays as the model has it.
//
//   DdpOptions options;
//   options.mixed_precision.parameter_type = at::kBFloat16;
//   options.mixed_precision.reduce_type = at::kBFloat16;
//   DistributedDataParallel ddp(net, world, options);
//   torch::optim::SGD optimizer(ddp->parameters(), 0.1);   // of float32
//
// The program sees float32 alone: parameters, their gradients and the
// optimizer's state. While forward and backward run, the module's parameters
// are copies of another type, made once per forward. Floating tensors among
// the arguments of forward are converted to this type, and floating outputs
// back, so that the loss is computed in float32. Vectors and structs of tensors
// among the arguments are passed on as they are.
//
// In eval mode and without gradients forward computes in float32.
struct MixedPrecision {
  // Of parameters in forward and backward. Parameters of batch normalisation
  // stay as they are unless buffer_type is given: they must have the type of
  // the running statistics.
  std::optional<at::ScalarType> parameter_type;

  // Of buckets, and of what is sent. Gradients are copied in and out then, even
  // with gradient_as_bucket_view.
  std::optional<at::ScalarType> reduce_type;

  // Of floating buffers, which are converted when the module is wrapped.
  std::optional<at::ScalarType> buffer_type;
};

}  // namespace lockstep
