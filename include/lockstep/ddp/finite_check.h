// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace lockstep {

// What to do with gradients that are infinite or NaN.
enum class FiniteCheck {
  // Nothing: they spread to all ranks.
  kOff,
  // An error out of backward(), on all ranks, before the gradient is sent.
  kError,
  // Backward goes on. Afterwards Reducer::non_finite() says the same on all
  // ranks, so that a program which scales its loss can skip the step:
  //
  //   loss_of(ddp(data), target).mul(scale).backward();
  //   if (ddp.reducer().non_finite()) {
  //     scale /= 2;
  //   } else {
  //     optimizer.step();
  //   }
  kVerdict,
};

// A gradient that was not finite before gradients were summed. Of several, the
// first: by bucket, then by rank.
struct NonFiniteGradient {
  int rank = 0;          // whose it was
  size_t bucket = 0;     // in which it was to be sent
  size_t parameter = 0;  // its index among the Reducer's
  std::string name;      // of the parameter
};

}  // namespace lockstep
