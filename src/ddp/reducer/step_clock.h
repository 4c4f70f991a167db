// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/future.h"
#include "lockstep/ddp/step_times.h"

namespace lockstep::detail {

// Takes the times of each step. It uses the trace's clock and records the same
// spans, so that figures and traces agree.
//
// Threads: guarded by the Reducer; results of buckets come on any thread.
class StepClock {
 public:
  // A forward was prepared.
  void prepare(size_t parameters);
  // A parameter is ready.
  void note_ready(size_t parameter);
  void begin_backward(size_t buckets);
  // A bucket was launched; it is under way until its result is there.
  void launch(size_t bucket, int64_t launched_ns,
              const Future<at::Tensor>& result);
  // Backward has ended and waits for the results of buckets.
  void begin_waits();
  bool wait(const Future<at::Tensor>& result, Deadline deadline);
  void end_waits();
  // All results are there.
  void end();

  // The times of the last step that has ended.
  const StepTimes& last() const { return last_; }
  const StepTotals& totals() const { return totals_; }
  // By parameter: the time from prepare() until it was ready.
  const std::vector<std::chrono::nanoseconds>& ready_times() const {
    return last_ready_;
  }

 private:
  struct Flight {
    std::atomic<int64_t> launched_ns{0};
    std::atomic<int64_t> landed_ns{0};
  };

  StepTimes current_;
  StepTimes last_;
  StepTotals totals_;
  int64_t waits_began_ns_ = 0;
  int64_t prepared_ns_ = 0;
  std::vector<int64_t> ready_ns_;  // by parameter
  std::vector<std::chrono::nanoseconds> last_ready_;
  // Shared with continuations, which may outlive a step that has failed.
  std::shared_ptr<std::vector<Flight>> flights_;
};

}  // namespace lockstep::detail
