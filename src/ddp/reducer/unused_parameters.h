// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ddp/reducer/grad_hooks.h"

namespace lockstep::detail {

// Finds the parameters that get no gradient in a backward, and remembers
// whether these are the same in every step.
//
// autograd's engine lists the nodes that it is going to run before it begins; a
// parameter whose node is not in that list is unused. Parameters of a piece
// that is recomputed inside of backward are not in the list.
//
// Threads: guarded by the Reducer.
class UnusedParameters {
 public:
  UnusedParameters(int rank, const std::vector<std::string>& names)
      : rank_(rank), names_(names) {}

  // The parameters that the backward which this thread runs will not reach.
  // Errors: UsageError names a parameter that lost its hook.
  std::vector<size_t> find(const GradHooks& hooks,
                           const std::vector<at::Tensor>& parameters);

  // The unused parameters of a step: of a static graph, or found at its end.
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

// Check that parameters still have their hooks, or are frozen.
// Errors: UsageError names a parameter that was converted: its gradients do not
//         come to the hooks any more.
void check_hook_is_on(const GradHooks& hooks,
                      const std::vector<at::Tensor>& parameters, size_t index,
                      const std::vector<std::string>& names);
void check_hooks_are_on(const GradHooks& hooks,
                        const std::vector<at::Tensor>& parameters,
                        const std::vector<size_t>& indices,
                        const std::vector<std::string>& names);

}  // namespace lockstep::detail
