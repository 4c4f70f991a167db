// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/backward_tracker.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

template <class T, class Predicate>
void erase_if(std::vector<T>& values, const Predicate& predicate) {
  values.erase(std::remove_if(values.begin(), values.end(), predicate),
               values.end());
}

}  // namespace

void BackwardTracker::expect(const std::vector<at::Tensor>& outputs,
                             const std::weak_ptr<BackwardListener>& listener,
                             bool needs_end) {
  const auto alive = watch_outputs(outputs, next_graph_, listener);
  LOCKSTEP_CHECK(!needs_end || !alive.expired(), UsageError,
                 "prepare_for_backward needs the loss, or outputs that it is "
                 "computed from: a static graph, and several backwards per "
                 "forward, must know where a backward ends");
  forget_forwards();
  if (alive.expired()) {
    expects_unwatched_ = true;
  } else {
    forwards_.push_back({next_graph_++, alive});
  }
}

bool BackwardTracker::expects_gradients() const {
  return expects_unwatched_ ||
         std::any_of(forwards_.begin(), forwards_.end(),
                     [](const Forward& one) {
                       return one.is_new && !one.alive.expired();
                     });
}

BackwardTracker::Reached BackwardTracker::reach(uint64_t graph) {
  if (graph < oldest_graph_) return Reached::kForgotten;
  for (Forward& one : forwards_) {
    if (one.graph != graph) continue;
    one.reached = true;
    return Reached::kPrepared;
  }
  return Reached::kReduced;
}

void BackwardTracker::follow_this_task(
    std::function<void(const EngineTask& task)> on_end) {
  const EngineTask task = EngineTask::current();
  has_open_task();  // drops ended tasks, whose identity may be used again
  for (const OpenTask& one : open_tasks_) {
    if (one.task == task) return;
  }
  const auto alive = std::make_shared<const char>();
  open_tasks_.push_back({task, alive});
  EngineTask::at_end(
      [on_end = std::move(on_end), task, alive] { on_end(task); });
}

void BackwardTracker::close(const EngineTask& task) {
  erase_if(open_tasks_, [&](const OpenTask& one) { return one.task == task; });
}

bool BackwardTracker::has_open_task() {
  erase_if(open_tasks_,
           [](const OpenTask& one) { return one.alive.expired(); });
  return !open_tasks_.empty();
}

bool BackwardTracker::end_cycle() {
  expects_unwatched_ = false;
  forget_forwards();
  for (Forward& one : forwards_) one.is_new = false;
  return !forwards_.empty();
}

void BackwardTracker::reset() {
  forwards_.clear();
  expects_unwatched_ = false;
  open_tasks_.clear();
  oldest_graph_ = next_graph_;
}

// Drops forwards that backward has reached, and forwards whose graph is gone.
void BackwardTracker::forget_forwards() {
  erase_if(forwards_, [](const Forward& one) {
    return one.reached || one.alive.expired();
  });
}

}  // namespace lockstep::detail
