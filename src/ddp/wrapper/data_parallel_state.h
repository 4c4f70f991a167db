// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/wrapper/buffer_sync.h"
#include "ddp/wrapper/delayed_gradients.h"
#include "ddp/wrapper/model_parts.h"
#include "ddp/wrapper/stats_keeper.h"
#include "lockstep/ddp/data_parallel_core.h"

namespace lockstep {

// A model, a Reducer on its parameters, and what keeps the rest of the model
// alike on all ranks.
struct DataParallelCore::State {
  State(std::shared_ptr<WrappedModel> m, std::shared_ptr<ProcessGroup> g,
        DdpOptions o)
      : model(std::move(m)), group(std::move(g)), options(std::move(o)) {}

  const std::shared_ptr<WrappedModel> model;
  std::shared_ptr<ProcessGroup> group;
  DdpOptions options;
  detail::ModelParts parts;
  std::unique_ptr<Reducer> reducer;  // none yet without init_sync
  std::shared_ptr<detail::DelayedGradients> delayed;  // or none
  // Backwards that only one of the two has begun, before the last reset.
  int64_t delayed_lag = 0;
  int64_t forwards = 0;  // since ranks were last compared
  std::optional<detail::StatsKeeper> stats;
  detail::BufferSync buffers;
  BufferHook buffer_hook;
  BufferHookTime buffer_hook_time = BufferHookTime::kBeforeForward;
  // Hears of a backward through a forward in eval mode, and warns once.
  std::shared_ptr<detail::BackwardListener> eval_listener;
  bool is_removed = false;  // and a plain model since

  NamedTensors buffers_now() const {
    return detail::buffers_of(*model, options);
  }
  std::vector<at::Tensor> reduced_parameters() const;
  ReducerOptions reducer_options() const;
  std::vector<std::string> settings() const;
};

}  // namespace lockstep
