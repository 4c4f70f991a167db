// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/messages.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep::detail {
namespace {

constexpr size_t kMaxNamed = 20;

const char* unfinished_remedy(const ReducerOptions& options) {
  if (options.static_graph) {
    return "static_graph is on, and this step used other parameters than the "
           "first: the graph has changed. Turn static_graph off and "
           "find_unused_parameters on";
  }
  if (options.find_unused_parameters) {
    return "find_unused_parameters is on, so they are in the graph of the loss "
           "and yet got no gradient: a backward that ended early, one inside "
           "another whose outputs were not given to prepare_for_backward, or a "
           "forward output that was not used in the loss. Give it all outputs, "
           "or the loss";
  }
  return "turn on find_unused_parameters, or static_graph if it is the same "
         "parameters in every step; or make every parameter take part in the "
         "loss";
}

}  // namespace

std::string parameters_text(const std::vector<size_t>& indices,
                            const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(indices.size(), kMaxNamed); ++i) {
    text += fmt::format("{}{} ('{}')", i == 0 ? "" : ", ", indices[i],
                        names[indices[i]]);
  }
  if (indices.size() > kMaxNamed) {
    text += fmt::format(" and {} more", indices.size() - kMaxNamed);
  }
  return text;
}

std::string unfinished_text(int rank, const std::vector<size_t>& missing,
                            size_t frozen,
                            const std::vector<std::string>& names,
                            const ReducerOptions& options) {
  std::string text = fmt::format(
      "Expected to have finished reduction, but {} of {} parameters got no "
      "gradient in this backward on rank {}: {}.",
      missing.size(), names.size(), rank, parameters_text(missing, names));
  if (frozen > 0) {
    return text + fmt::format(
                      " {} of them were frozen after wrapping: requires_grad "
                      "is off. Remedy: freeze first, then wrap; or, in steps "
                      "in which all are frozen, call the module and not the "
                      "wrapper.",
                      frozen);
  }
  text += fmt::format(" They took no part in the loss. Remedy: {}.",
                      unfinished_remedy(options));
  text += fmt::format(
      " If the program calls backward() several times after one forward, say "
      "how often: backwards_per_forward (it is {}).",
      options.backwards_per_forward);
  return text;
}

std::string twice_text(int rank, size_t index, const std::string& name,
                       bool may_be_misjudged) {
  return fmt::format(
      "Expected to mark a variable ready only once, but parameter {} ('{}') "
      "got a second gradient in one backward on rank {}. Possible causes: it "
      "is used outside of the forward that was prepared, or several forward "
      "and backward passes are in flight; it is used in several pieces that "
      "are recomputed in backward (activation checkpointing){}. If it is used "
      "the same number of times in every step, static_graph is the way out.",
      index, name, rank,
      may_be_misjudged ? "; or the search for unused parameters misjudged it, "
                         "because a recomputed piece hides it"
                       : "");
}

std::string changed_text(int rank, size_t index, const std::string& name) {
  return fmt::format(
      "Your training graph has changed: parameter {} ('{}') got more gradients "
      "on rank {} than in the first step, and static_graph promises the same "
      "graph in every step. Turn static_graph off.",
      index, name, rank);
}

std::string again_text(int rank) {
  return fmt::format(
      "backward() passed again, on rank {}, through outputs whose gradients "
      "have been reduced already; what it adds would stay on this rank. Run "
      "the forward again, or say how often backward() is called after one "
      "forward: backwards_per_forward.",
      rank);
}

std::string not_in_map_text(size_t index, const std::string& name) {
  return fmt::format(
      "gradients are read from a GradientMap, and backward() has put that of "
      "parameter {} ('{}') into .grad; fill the map and call mark_ready(), or "
      "set_gradient_map(nullptr)",
      index, name);
}

std::string hook_text(size_t bucket, size_t bucket_count,
                      const std::string& hook) {
  return fmt::format("bucket {} of {}, hook '{}'", bucket, bucket_count, hook);
}

void warn_of_create_graph() {
  static LogLimiter limiter(std::chrono::minutes(1));
  if (!limiter.admit()) return;
  log_warn(
      "gradients were computed with create_graph: their values are averaged "
      "over the ranks, but their history is dropped, and gradients of "
      "gradients are not synchronised. For a penalty on gradients use "
      "autograd::grad() and call backward() on the whole loss.");
}

}  // namespace lockstep::detail
