// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep {

// How long the parts of one step took on this rank.
struct StepTimes {
  using Duration = std::chrono::nanoseconds;
  using TimePoint = std::chrono::steady_clock::time_point;

  // A part, from when to when.
  struct Part {
    TimePoint start{};
    TimePoint end{};
    // A part whose end comes before its start was not measured.
    bool is_measured() const { return end >= start && start != TimePoint{}; }
    Duration duration() const {
      return is_measured() ? Duration(end - start) : Duration(0);
    }
  };

  Part forward;        // of the module alone; a Reducer knows nothing of it
  Part backward;       // from its first sign to its last gradient
  Part communication;  // from the first launch to the last result

  // In which at least one bucket was on its way.
  Duration busy{0};
  // In which the program waited for buckets at the end of backward.
  Duration exposed{0};

  // The share of communication that backward has hidden, from 0 to 1.
  double overlap() const {
    if (busy <= Duration(0)) return 0;
    return exposed >= busy ? 0
                           : 1 - double(exposed.count()) / double(busy.count());
  }
};

// The same over all steps so far.
struct StepTotals {
  int64_t steps = 0;
  StepTimes::Duration busy{0};
  StepTimes::Duration exposed{0};
};

}  // namespace lockstep
