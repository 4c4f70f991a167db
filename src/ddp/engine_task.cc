// SPDX-License-Identifier: Apache-2.0
#include "ddp/engine_task.h"

#include <utility>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

namespace lockstep::detail {

using torch::autograd::Engine;
using torch::autograd::Node;

EngineTask EngineTask::current() {
  return EngineTask(torch::autograd::get_current_graph_task_exec_info());
}

bool EngineTask::is_partial() const {
  return !torch::autograd::get_current_graph_task_exec_info()->empty();
}

bool EngineTask::passes(const Node* node) const {
  const auto* nodes = torch::autograd::get_current_graph_task_nodes_in_graph();
  return nodes->count(const_cast<Node*>(node)) != 0;
}

void EngineTask::at_end(std::function<void()> callback) {
  Engine::get_default_engine().queue_callback(std::move(callback));
}

}  // namespace lockstep::detail
