// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/unused_parameters.h"

#include <utility>

#include <fmt/format.h>

#include "ddp/reducer/engine_task.h"
#include "ddp/reducer/messages.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep::detail {

std::vector<size_t> UnusedParameters::find(
    const GradHooks& hooks, const std::vector<at::Tensor>& parameters) {
  const EngineTask task = EngineTask::current();
  std::vector<size_t> unused;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!task.runs(hooks.accumulator(i))) unused.push_back(i);
  }
  check_hooks_are_on(hooks, parameters, unused, names_);
  if (unused.empty() && !std::exchange(warned_, true)) {
    log_warn(fmt::format(
        "rank {}: find_unused_parameters is on, and all parameters are used "
        "here; the search costs time in every step, so turn it off if that is "
        "always so, on every rank (said once)",
        rank_));
  }
  note(unused, false);
  return unused;
}

void UnusedParameters::note(std::vector<size_t> unused, bool is_static) {
  if (is_static && !unused.empty()) {
    log_info(fmt::format(
        "rank {}: parameters without a gradient in this static graph: {}",
        rank_, parameters_text(unused, names_)));
  }
  if (last_ && *last_ != unused && !std::exchange(changed_, true)) {
    log_info(
        fmt::format("rank {}: the set of unused parameters changes: "
                    "can_set_static_graph=false",
                    rank_));
  }
  last_ = std::move(unused);
}

void check_hook_is_on(const GradHooks& hooks,
                      const std::vector<at::Tensor>& parameters, size_t index,
                      const std::vector<std::string>& names) {
  const at::Tensor& parameter = parameters[index];
  const bool frozen = !parameter.requires_grad();  // and no conversion
  LOCKSTEP_CHECK(frozen || hooks.is_on(index, parameter), UsageError,
                 "parameter {} ('{}') was converted or replaced after it was "
                 "given away (module->to(dtype), torch::load?), so its "
                 "gradients do not come here any more; convert and load "
                 "first, then make a DistributedDataParallel or Reducer",
                 index, names[index]);
}

void check_hooks_are_on(const GradHooks& hooks,
                        const std::vector<at::Tensor>& parameters,
                        const std::vector<size_t>& indices,
                        const std::vector<std::string>& names) {
  for (const size_t i : indices) check_hook_is_on(hooks, parameters, i, names);
}

}  // namespace lockstep::detail
