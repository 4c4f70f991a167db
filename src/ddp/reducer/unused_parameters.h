// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ddp/reducer/grad_hooks.h"

namespace lockstep::detail {

// Finds the parameters that a backward will give no gradient, and remembers
// whether they are always the same.
//
// autograd's engine has listed what it is going to run before it begins; what
// is not on that list is unused. A piece that is recomputed inside of backward
// is not seen.
//
// Threads: guarded by the Reducer.
class UnusedParameters {
 public:
  UnusedParameters(int rank, const std::vector<std::string>& names)
      : rank_(rank), names_(names) {}

  // For the backward that this thread is running.
  // Errors: UsageError names a parameter that lost its hook.
  std::vector<size_t> find(const GradHooks& hooks,
                           const std::vector<at::Tensor>& parameters);

  // What a search, or the first step of a static graph, has shown.
  void note(std::vector<size_t> unused, bool is_static);

  bool have_changed() const { return changed_; }
  const std::optional<std::vector<size_t>>& last() const { return last_; }

 private:
  const int rank_;
  const std::vector<std::string>& names_;
  std::optional<std::vector<size_t>> last_;
  bool changed_ = false;
  bool warned_ = false;
};

// Errors: UsageError names a parameter that was converted, so that its
//         gradients come no more.
void check_hook_is_on(const GradHooks& hooks,
                      const std::vector<at::Tensor>& parameters, size_t index,
                      const std::vector<std::string>& names);
void check_hooks_are_on(const GradHooks& hooks,
                        const std::vector<at::Tensor>& parameters,
                        const std::vector<size_t>& indices,
                        const std::vector<std::string>& names);

}  // namespace lockstep::detail
