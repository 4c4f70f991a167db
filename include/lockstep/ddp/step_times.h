// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep {

// How long the parts of one step took on this rank.
struct StepTimes {
  using Duration = std::chrono::nanoseconds;
  using TimePoint = std::chrono::steady_clock::time_point;

  struct Part {
    TimePoint start{};
    TimePoint end{};
    // A part whose end is before its start was not measured.
    bool is_measured() const { return end >= start && start != TimePoint{}; }
    Duration duration() const {
      return is_measured() ? Duration(end - start) : Duration(0);
    }
  };

  Part forward;        // of the module alone; measured by the wrapper only
  Part backward;       // from the first output or gradient to the last gradient
  Part communication;  // from the first launch to the last result

  // How long at least one bucket was being reduced.
  Duration busy{0};
  // How long the program waited for buckets at the end of backward.
  Duration exposed{0};

  // The share of communication that backward has hidden, from 0 to 1.
  double overlap() const {
    if (busy <= Duration(0)) return 0;
    return exposed >= busy ? 0
                           : 1 - double(exposed.count()) / double(busy.count());
  }
};

// Sums over all steps so far.
struct StepTotals {
  int64_t steps = 0;
  StepTimes::Duration busy{0};
  StepTimes::Duration exposed{0};
};

}  // namespace lockstep
