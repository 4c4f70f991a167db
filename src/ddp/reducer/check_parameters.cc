// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/check_parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

void check_parameter(const at::Tensor& parameter, const std::string& name) {
  LOCKSTEP_CHECK(parameter.defined(), UsageError, "{} is an undefined tensor",
                 name);
  LOCKSTEP_CHECK(parameter.layout() == at::kStrided, UsageError,
                 "{} is itself sparse; only gradients may be", name);
  LOCKSTEP_CHECK(parameter.device().is_cpu(), UsageError,
                 "{} is on {}; parameters must be on the CPU", name,
                 parameter.device().str());
  LOCKSTEP_CHECK(parameter.requires_grad(), UsageError,
                 "{} does not require a gradient; leave it out", name);
  LOCKSTEP_CHECK(parameter.is_leaf(), UsageError,
                 "{} is the result of an operation, so it gets no gradient of "
                 "its own; give the leaf it was made from",
                 name);
  LOCKSTEP_CHECK(parameter.has_storage(), UsageError, "{} has no storage",
                 name);
}

}  // namespace

void check_reducible(const std::vector<at::Tensor>& parameters,
                     const ReducerOptions& options) {
  LOCKSTEP_CHECK(!parameters.empty(), UsageError,
                 "there are no parameters; a Reducer needs one that requires a "
                 "gradient");
  LOCKSTEP_CHECK(
      options.names.empty() || options.names.size() == parameters.size(),
      UsageError, "{} names for {} parameters", options.names.size(),
      parameters.size());
  LOCKSTEP_CHECK(options.expect_sparse.empty() ||
                     options.expect_sparse.size() == parameters.size(),
                 UsageError, "expect_sparse has {} entries for {} parameters",
                 options.expect_sparse.size(), parameters.size());
  LOCKSTEP_CHECK(!options.bucket_caps_bytes.empty(), UsageError,
                 "bucket_caps_bytes is empty; give at least one size");
  LOCKSTEP_CHECK(options.rebuild_every >= 0, UsageError,
                 "rebuild_every is {} but must be 0 or more",
                 options.rebuild_every);
  LOCKSTEP_CHECK(options.backwards_per_forward >= 1, UsageError,
                 "backwards_per_forward is {} but must be at least 1",
                 options.backwards_per_forward);
  LOCKSTEP_CHECK(
      !options.reduce_type || at::isFloatingType(*options.reduce_type),
      UsageError, "reduce_type is {}; expected a floating type",
      c10::toString(*options.reduce_type));
  LOCKSTEP_CHECK(!options.skip_unused || options.static_graph ||
                     options.find_unused_parameters,
                 UsageError,
                 "skip_unused needs to know what is unused; turn on "
                 "find_unused_parameters or static_graph with it");
  for (size_t i = 0; i < parameters.size(); ++i) {
    check_parameter(parameters[i], options.names.empty()
                                       ? fmt::format("parameter {}", i)
                                       : fmt::format("parameter {} ('{}')", i,
                                                     options.names[i]));
  }
  if (options.bucket_plan) {
    check_plan(*options.bucket_plan, plan_items(parameters, options));
  }
}

ParameterSet make_parameter_set(std::vector<at::Tensor> parameters,
                                const ReducerOptions& options) {
  check_reducible(parameters, options);
  ParameterSet set;
  set.names = names_of(parameters, options);
  set.items = plan_items(parameters, options);
  set.tensors = std::move(parameters);
  return set;
}

ReducerOptions with_environment(ReducerOptions options) {
  if (const auto last = env::boolean("LOCKSTEP_SMALL_LAST_BUCKET")) {
    options.small_bucket_last = *last;
  }
  return options;
}

std::vector<std::string> names_of(const std::vector<at::Tensor>& parameters,
                                  const ReducerOptions& options) {
  if (!options.names.empty()) return options.names;
  std::vector<std::string> names;
  for (size_t i = 0; i < parameters.size(); ++i) {
    names.push_back(fmt::format("parameter {}", i));
  }
  return names;
}

at::ScalarType bucket_type(const at::Tensor& parameter, bool is_sparse,
                           const ReducerOptions& options) {
  const at::ScalarType own = parameter.scalar_type();
  if (is_sparse || !at::isFloatingType(own)) return own;
  return options.reduce_type.value_or(own);
}

std::vector<PlanItem> plan_items(const std::vector<at::Tensor>& parameters,
                                 const ReducerOptions& options) {
  std::vector<PlanItem> items;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& one = parameters[i];
    const bool sparse =
        !options.expect_sparse.empty() && options.expect_sparse[i];
    const at::ScalarType type = bucket_type(one, sparse, options);
    items.push_back({static_cast<size_t>(one.numel()) * c10::elementSize(type),
                     static_cast<int64_t>(type), sparse});
  }
  return items;
}

std::vector<std::string> settings_text(const ReducerOptions& options) {
  std::vector<std::string> lines = {
      fmt::format("bucket_caps_bytes = {}",
                  fmt::join(options.bucket_caps_bytes, ", ")),
      fmt::format("small_bucket_last = {}", options.small_bucket_last),
      fmt::format("gradient_as_bucket_view = {}",
                  options.gradient_as_bucket_view),
      fmt::format("find_unused_parameters = {}",
                  options.find_unused_parameters),
      fmt::format("static_graph = {}", options.static_graph),
      fmt::format("skip_unused = {}", options.skip_unused),
      fmt::format("check_finite = {}", static_cast<int>(options.check_finite)),
      fmt::format("reduce_type = {}", options.reduce_type
                                          ? c10::toString(*options.reduce_type)
                                          : "that of parameters"),
      fmt::format("rebuild_every = {}", options.rebuild_every),
      fmt::format("backwards_per_forward = {}", options.backwards_per_forward)};
  std::vector<size_t> sparse;
  for (size_t i = 0; i < options.expect_sparse.size(); ++i) {
    if (options.expect_sparse[i]) sparse.push_back(i);
  }
  lines.push_back(fmt::format("expect_sparse = {}", fmt::join(sparse, ", ")));
  std::string plan = "by size";
  if (options.bucket_plan) {
    plan.clear();
    for (const auto& bucket : options.bucket_plan->buckets) {
      plan += fmt::format("[{}]", fmt::join(bucket.items, ", "));
    }
  }
  lines.push_back(fmt::format("bucket_plan = {}", plan));
  return lines;
}

}  // namespace lockstep::detail
