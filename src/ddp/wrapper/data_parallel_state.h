// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/wrapper/buffer_sync.h"
#include "ddp/wrapper/delayed_gradients.h"
#include "ddp/wrapper/low_precision.h"
#include "ddp/wrapper/model_parts.h"
#include "ddp/wrapper/stats_keeper.h"
#include "lockstep/ddp/data_parallel_core.h"

namespace lockstep {

// A model, a Reducer on its parameters, and the parts that keep the rest of the
// model equal on all ranks.
struct DataParallelCore::State {
  State(std::shared_ptr<WrappedModel> m, std::shared_ptr<ProcessGroup> g,
        DdpOptions o)
      : model(std::move(m)), group(std::move(g)), options(std::move(o)) {}

  const std::shared_ptr<WrappedModel> model;
  std::shared_ptr<ProcessGroup> group;
  DdpOptions options;
  detail::ModelParts parts;
  // Without init_sync, null before the first step.
  std::unique_ptr<Reducer> reducer;
  std::shared_ptr<detail::DelayedGradients> delayed;  // null: none is delayed
  // How many backwards the delayed Reducer was behind the other at the last
  // reset.
  int64_t delayed_lag = 0;
  int64_t forwards = 0;  // since ranks were last compared
  std::optional<detail::StatsKeeper> stats;
  std::shared_ptr<detail::LowPrecision> low;  // null: as the model is
  detail::BufferSync buffers;
  BufferHook buffer_hook;
  BufferHookTime buffer_hook_time = BufferHookTime::kBeforeForward;
  // Warns once of a backward through a forward in eval mode.
  std::shared_ptr<detail::BackwardListener> eval_listener;
  bool is_removed = false;  // remove_hooks() has made this a plain model

  NamedTensors buffers_now() const {
    return detail::buffers_of(*model, options);
  }
  void note_buckets() {
    stats->note_buckets(*reducer->group(), reducer->bucket_plan());
  }
  void apply_types();
  std::vector<at::Tensor> reduced_parameters() const;
  ReducerOptions reducer_options() const;
  std::vector<std::string> settings() const;
};

}  // namespace lockstep
