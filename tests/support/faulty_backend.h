// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <functional>

#include "lockstep/comm/backend.h"

namespace lockstep::testing {

// What goes wrong with a backend, and when: operations of one rank are counted
// from 0.
struct Fault {
  enum Kind {
    kThrow,  // operation `at` throws `error` instead of running
    kDelay,  // operation `at` and later ones begin `delay` late
    kHang,   // operation `at` does not return until it is interrupted
  };

  Kind kind = kThrow;
  int at = 0;
  std::exception_ptr error;
  std::chrono::milliseconds delay{0};
};

// A factory whose backends are those of `inner`, with `fault_of(place)` put in
// between where that returns one.
using FaultOf = std::function<const Fault*(const GroupPlace& place)>;
BackendFactory make_faulty_factory(BackendFactory inner, FaultOf fault_of);

}  // namespace lockstep::testing
