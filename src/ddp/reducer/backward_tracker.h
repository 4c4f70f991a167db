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
//   tracker.expect(outputs, listener);     // prepare_for_backward
//   tracker.reach(graph);                  // backward has come to its outputs
//   tracker.follow_this_task(on_end);      // its end is the one we wait for
//   tracker.close(task);                   // in on_end
//   if (!tracker.has_open_task()) ...      // the outermost has ended
//   tracker.end_cycle();                   // gradients are reduced
//
// Threads: guarded by the Reducer.
class BackwardTracker {
 public:
  // A forward with these outputs was prepared: `listener` hears, by a number
  // of the forward, when backward comes to them. Outputs without history are
  // not watched: the next gradient is taken for theirs. `needs_end`: UsageError
  // then, since nobody would know where that backward ends.
  void expect(const std::vector<at::Tensor>& outputs,
              const std::weak_ptr<BackwardListener>& listener, bool needs_end);

  // Whether the gradients of the next backward are ours: one was prepared since
  // the last reduction. A forward from before whose outputs somebody has kept
  // must be reached first.
  bool expects_gradients() const;

  // Backward has come to the outputs of forward `graph`.
  enum class Reached {
    kPrepared,   // and is one that we wait for
    kReduced,    // whose gradients are reduced already
    kForgotten,  // from before a reset
  };
  Reached reach(uint64_t graph);

  // Calls `on_end` at the end of the backward that this thread runs, once per
  // backward.
  void follow_this_task(std::function<void(const EngineTask& task)> on_end);
  void close(const EngineTask& task);
  // A backward that ended with an exception is not open any more.
  bool has_open_task();

  // Gradients are reduced. True when another forward was prepared that may
  // still have its backward.
  bool end_cycle();

  // Forgets everything; what was prepared before is nobody's business now.
  void reset();

 private:
  struct Forward {
    uint64_t graph;
    std::weak_ptr<const void> alive;  // while its graph is
    bool is_new = true;               // since the last reduction
    bool reached = false;             // by backward
  };
  struct OpenTask {
    EngineTask task;
    std::weak_ptr<const void> alive;  // until it ends, well or not
  };

  void forget_forwards();

  std::vector<Forward> forwards_;
  bool expects_unwatched_ = false;
  std::vector<OpenTask> open_tasks_;
  uint64_t next_graph_ = 0;
  uint64_t oldest_graph_ = 0;  // since the last reset
};

}  // namespace lockstep::detail
