// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::detail {

// Says when a parameter is ready: at its first gradient; in a static graph, at
// as many as it had in the first cycle; with several backwards per forward, in
// the last of them. A cycle is what ends with one reduction.
//
// Threads: guarded by the Reducer.
class ReadyCounter {
 public:
  ReadyCounter(size_t parameters, bool static_graph, int backwards_per_cycle);

  void start_cycle();

  enum class Verdict {
    kReady,
    kNotYet,
    kTwice,    // it was ready before
    kChanged,  // the graph is not what it was in the first cycle
  };
  Verdict on_gradient(size_t parameter);

  // For those that are ready for another reason too: they get none, say.
  void mark_ready(size_t parameter) { ready_[parameter] = true; }
  bool is_ready(size_t parameter) const { return ready_[parameter]; }

  // True when it was the last backward of the cycle.
  bool end_backward() { return ++backwards_ >= backwards_per_cycle_; }
  // It had a gradient in this cycle, ready or not.
  bool has_gradient(size_t parameter) const { return seen_[parameter] > 0; }

  // ---- Static graph.

  bool is_static() const { return static_; }
  bool is_learning() const { return static_ && expected_.empty(); }
  // What this cycle has shown holds from now on.
  void learn() { expected_ = seen_; }
  // Parameters that never get a gradient, once that is learned.
  std::vector<size_t> never_used() const;

 private:
  bool static_;
  int backwards_per_cycle_;
  int backwards_ = 0;
  std::vector<int> seen_;
  std::vector<int> expected_;  // empty until learned
  std::vector<bool> ready_;
};

}  // namespace lockstep::detail
