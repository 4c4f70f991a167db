// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::detail {

// Decides when a parameter is ready: at its first gradient; in a static graph,
// after as many gradients as in the first cycle; with several backwards per
// forward, in the last backward. A cycle is the time between two reductions.
//
// Threads: guarded by the Reducer.
class ReadyCounter {
 public:
  ReadyCounter(size_t parameters, bool static_graph, int backwards_per_cycle);

  void start_cycle();

  enum class Verdict {
    kReady,
    kNotYet,
    kTwice,    // the parameter was ready before
    kChanged,  // the same in a static graph: not the graph of the first cycle
  };
  Verdict on_gradient(size_t parameter);

  // For every parameter that is ready, also one that gets no gradient.
  void mark_ready(size_t parameter) { ready_[parameter] = true; }
  bool is_ready(size_t parameter) const { return ready_[parameter]; }
  // Parameters that are not ready, in ascending order.
  std::vector<size_t> missing() const;

  // A backward has ended; true when it was the last one of the cycle.
  bool end_backward() { return ++backwards_ >= backwards_per_cycle_; }
  // The parameter had a gradient in this cycle, ready or not.
  bool has_gradient(size_t parameter) const { return seen_[parameter] > 0; }

  // ---- Static graph.

  bool is_static() const { return static_; }
  bool is_learning() const { return static_ && expected_.empty(); }
  // From now on every cycle is expected to be like this one.
  void learn() { expected_ = seen_; }
  // Parameters that never get a gradient, once that is learned.
  std::vector<size_t> never_used() const;

 private:
  bool static_;
  int backwards_per_cycle_;
  int backwards_ = 0;
  std::vector<int> seen_;      // gradients in this cycle, by parameter
  std::vector<int> expected_;  // the same for every cycle; empty until learned
  std::vector<bool> ready_;
};

}  // namespace lockstep::detail
