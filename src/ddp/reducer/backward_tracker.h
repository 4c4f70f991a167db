// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ddp/reducer/engine_task.h"
#include "ddp/reducer/grad_hooks.h"

namespace lockstep::detail {

// Knows which forwards were prepared and still wait for their backward, which
// backward is running, and where the outermost one ends.
//
//   tracker.expect(outputs, listener);     // in prepare_for_backward()
//   tracker.reach(graph);                  // backward has come to the outputs
//   tracker.follow_this_task(on_end);      // calls on_end when it ends
//   tracker.close(task);                   // in on_end
//   if (!tracker.has_open_task()) ...      // the outermost backward has ended
//   tracker.end_cycle();                   // gradients are reduced
//
// Threads: guarded by the Reducer.
class BackwardTracker {
 public:
  // A forward with these outputs was prepared. `listener` is told the number of
  // the forward when backward comes to them. When no output has a history none
  // can be watched: the next gradient counts as one of this forward.
  // Errors: UsageError in that case with `needs_end`, because the end of the
  //         backward would not be known.
  void expect(const std::vector<at::Tensor>& outputs,
              const std::weak_ptr<BackwardListener>& listener, bool needs_end);

  // Whether the gradients of the next backward are to be reduced: a forward was
  // prepared since the last reduction. Of a forward that was prepared before
  // it, gradients count once backward has come to the outputs.
  bool expects_gradients() const;

  // Backward has come to the outputs of forward `graph`.
  enum class Reached {
    kPrepared,   // its gradients are to be reduced
    kReduced,    // its gradients are reduced already
    kForgotten,  // it was prepared before a reset
  };
  Reached reach(uint64_t graph);

  // Calls `on_end` at the end of the backward that this thread runs; does
  // nothing when that backward is followed already.
  void follow_this_task(std::function<void(const EngineTask& task)> on_end);
  void close(const EngineTask& task);
  // Whether a followed backward runs. One that ended with an exception does
  // not.
  bool has_open_task();

  // Gradients are reduced. True when a backward of another prepared forward may
  // follow.
  bool end_cycle();

  // Forgets all forwards and backwards.
  void reset();

 private:
  struct Forward {
    uint64_t graph;
    std::weak_ptr<const void> alive;  // expires with its graph
    bool is_new = true;               // prepared since the last reduction
    bool reached = false;             // backward has come to its outputs
  };
  struct OpenTask {
    EngineTask task;
    std::weak_ptr<const void> alive;  // expires when it ends or throws
  };

  void forget_forwards();

  std::vector<Forward> forwards_;
  bool expects_unwatched_ = false;  // a forward without history was prepared
  std::vector<OpenTask> open_tasks_;
  uint64_t next_graph_ = 0;
  uint64_t oldest_graph_ = 0;  // the first after the last reset
};

}  // namespace lockstep::detail
