// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/ddp/reduction_options.h"

namespace lockstep {

// What a Reducer may choose. All ranks choose the same.
struct ReducerOptions : ReductionOptions {
  // By parameter: its gradient is sparse. Empty: all are dense.
  std::vector<bool> expect_sparse;

  // By parameter: what errors call it. Empty: "parameter 0" and so on.
  std::vector<std::string> names;

  // Compare parameters and options with the other ranks at the start: one
  // small collective.
  bool verify = true;
};

}  // namespace lockstep
