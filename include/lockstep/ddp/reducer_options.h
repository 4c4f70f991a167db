// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "lockstep/ddp/reduction_options.h"

namespace lockstep {

// Options of a Reducer. They must be equal on all ranks.
struct ReducerOptions : ReductionOptions {
  // By parameter: whether its gradient is sparse. Empty: all are dense.
  std::vector<bool> expect_sparse;

  // By parameter: its name in errors. Empty: "parameter 0" and so on.
  std::vector<std::string> names;

  // Dense gradients of floating types are reduced in this type: buckets, what
  // hooks get, what is sent. They are copied in and out then; `.grad` keeps the
  // type of its parameter. None: in the type of the parameter.
  std::optional<at::ScalarType> reduce_type;

  // Compare parameters and options with the other ranks at the start: one
  // small collective.
  bool verify = true;
};

}  // namespace lockstep
