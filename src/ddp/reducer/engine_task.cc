// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/engine_task.h"

#include <cstddef>
#include <utility>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

namespace lockstep::detail {

using torch::autograd::Engine;
using torch::autograd::GraphTask;
using torch::autograd::Node;

EngineTask EngineTask::current() {
  return EngineTask(torch::autograd::get_current_graph_task_exec_info());
}

bool EngineTask::is_partial() const {
  return !torch::autograd::get_current_graph_task_exec_info()->empty();
}

// The engine gives away the address of a member of the task; that of the task
// lies a fixed number of bytes before it.
bool EngineTask::is_nested() const {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
  constexpr size_t offset = offsetof(GraphTask, exec_info_);
#pragma GCC diagnostic pop
  const void* task = static_cast<const char*>(id_) - offset;
  return static_cast<const GraphTask*>(task)->reentrant_depth_ > 0;
}

bool EngineTask::runs(const Node* node) const {
  Node* key = const_cast<Node*>(node);
  if (is_partial()) {
    const auto* some = torch::autograd::get_current_graph_task_exec_info();
    const auto found = some->find(key);
    return found != some->end() && found->second.should_execute();
  }
  const auto* nodes = torch::autograd::get_current_graph_task_nodes_in_graph();
  return nodes->count(key) != 0;
}

void EngineTask::at_end(std::function<void()> callback) {
  Engine::get_default_engine().queue_callback(std::move(callback));
}

}  // namespace lockstep::detail
