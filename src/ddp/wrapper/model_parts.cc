// SPDX-License-Identifier: Apache-2.0
#include "ddp/wrapper/model_parts.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include <ATen/MemoryOverlap.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/nearest.h"

namespace lockstep::detail {
namespace {

using Names = std::vector<std::string>;

bool contains(const Names& names, const std::string& one) {
  return std::find(names.begin(), names.end(), one) != names.end();
}

void check_exists(const std::string& name, const char* where,
                  const Names& known) {
  if (contains(known, name)) return;
  const std::string hint = nearest(name, known);
  throw UsageError(fmt::format(
      "DdpOptions::{} has '{}', which the module does not have{}", where, name,
      hint.empty() ? "" : fmt::format("; did you mean '{}'?", hint)));
}

void check_names(const WrappedModel& model, const DdpOptions& options) {
  Names parameters;
  for (const auto& [name, tensor] : model.parameters()) {
    parameters.push_back(name);
  }
  Names all = parameters;
  for (const auto& [name, tensor] : model.buffers()) all.push_back(name);
  for (const auto& name : options.ignored) check_exists(name, "ignored", all);
  for (const auto& name : options.sparse) {
    check_exists(name, "sparse", parameters);
  }
  for (const auto& name : options.delayed.names) {
    check_exists(name, "delayed", parameters);
  }
  LOCKSTEP_CHECK(
      options.delayed.names.empty() == options.delayed.trigger.empty(),
      UsageError, "DdpOptions::delayed needs both, the names and the trigger");
  if (!options.delayed.trigger.empty()) {
    check_exists(options.delayed.trigger, "delayed.trigger", parameters);
  }
}

void check_tensor(const char* what, const std::string& name,
                  const at::Tensor& tensor) {
  LOCKSTEP_CHECK(tensor.layout() == at::kStrided && tensor.has_storage(),
                 UsageError,
                 "{} '{}' has no storage of its own; dense tensors on the CPU "
                 "can be synchronised, others ignored",
                 what, name);
  LOCKSTEP_CHECK(tensor.device().is_cpu(), UsageError,
                 "{} '{}' is on {}; all must be on the CPU", what, name,
                 tensor.device().str());
  LOCKSTEP_CHECK(at::has_internal_overlap(tensor) != at::MemOverlap::Yes,
                 UsageError,
                 "{} '{}' has elements that share memory (expand()?), so it "
                 "cannot be written; make it contiguous() or ignore it",
                 what, name);
}

void check_trigger(const ModelParts& parts, const std::string& trigger) {
  if (trigger.empty()) return;
  for (const auto& one : parts.parameters) {
    if (one.name == trigger && one.requires_grad) return;
  }
  throw UsageError(fmt::format(
      "the trigger '{}' of delayed parameters is ignored, requires no "
      "gradient, or is the second name of a parameter",
      trigger));
}

// A tensor with two names must have both or neither in the list.
void check_alike(const std::string& what, const Names& listed,
                 const std::string& first, const std::string& second) {
  const bool a = contains(listed, first);
  const bool b = contains(listed, second);
  LOCKSTEP_CHECK(a == b, UsageError,
                 "'{}' and '{}' are the same tensor, and only '{}' is {}; name "
                 "both or neither",
                 first, second, a ? first : second, what);
}

}  // namespace

ModelParts take_apart(const WrappedModel& model, const DdpOptions& options) {
  check_names(model, options);
  ModelParts parts;
  parts.model_name = model.name();
  parts.has_sync_bn = model.has_sync_batch_norm();
  std::unordered_set<const void*> sparse;
  for (const at::Tensor& one : model.sparse_parameters()) {
    sparse.insert(one.unsafeGetTensorImpl());
  }
  std::unordered_map<const void*, std::string> first_names;
  bool any_reduced = false;
  for (const auto& [name, tensor] : model.parameters()) {
    const void* identity = tensor.unsafeGetTensorImpl();
    const bool ignored = contains(options.ignored, name);
    parts.identities.push_back(ignored ? nullptr : identity);
    if (!tensor.defined()) continue;  // as the bias of a Linear without one
    const auto [first, is_new] = first_names.emplace(identity, name);
    if (!is_new) {
      check_alike("ignored", options.ignored, first->second, name);
      check_alike("delayed", options.delayed.names, first->second, name);
      continue;
    }
    if (ignored) continue;
    check_tensor("parameter", name, tensor);
    const bool delayed = contains(options.delayed.names, name);
    const bool is_sparse =
        sparse.count(identity) > 0 || contains(options.sparse, name);
    LOCKSTEP_CHECK(!delayed || tensor.requires_grad(), UsageError,
                   "parameter '{}' is to be delayed, and requires no gradient",
                   name);
    any_reduced = any_reduced || (tensor.requires_grad() && !delayed);
    LOCKSTEP_CHECK(!delayed || !is_sparse, UsageError,
                   "parameter '{}' is to be delayed, and has sparse gradients, "
                   "which cannot be",
                   name);
    parts.parameters.push_back(
        {name, tensor, tensor.requires_grad(), is_sparse, delayed});
  }
  LOCKSTEP_CHECK(any_reduced, UsageError,
                 "{} has no parameter that requires a gradient{}; there is "
                 "nothing to train in parallel",
                 parts.model_name,
                 options.ignored.empty() && options.delayed.names.empty()
                     ? ""
                     : " and is neither ignored nor delayed");
  check_trigger(parts, options.delayed.trigger);
  for (const auto& [name, buffer] : buffers_of(model, options)) {
    check_tensor("buffer", name, buffer);
  }
  return parts;
}

void check_unchanged(const WrappedModel& model, const ModelParts& parts) {
  const std::vector<at::Tensor> now = model.parameter_tensors();
  size_t changed = 0;
  while (changed < now.size() && changed < parts.identities.size()) {
    const void* before = parts.identities[changed];
    if (before && before != now[changed].unsafeGetTensorImpl()) break;
    ++changed;
  }
  if (changed < now.size() || now.size() < parts.identities.size()) {
    const NamedTensors named = model.parameters();
    throw UsageError(fmt::format(
        "parameter '{}' was {} after the module was wrapped; make a new "
        "DistributedDataParallel",
        changed < named.size() ? named[changed].first : "(the last)",
        now.size() < parts.identities.size()   ? "removed"
        : now.size() > parts.identities.size() ? "added"
                                               : "replaced"));
  }
  for (const auto& one : parts.parameters) {
    LOCKSTEP_CHECK(one.requires_grad || !one.tensor.requires_grad(), UsageError,
                   "parameter '{}' was frozen when the module was wrapped, and "
                   "requires a gradient now, which nobody would average; make "
                   "a new DistributedDataParallel",
                   one.name);
  }
}

NamedTensors buffers_of(const WrappedModel& model, const DdpOptions& options) {
  NamedTensors buffers;
  std::unordered_set<const void*> seen;
  for (auto& [name, tensor] : model.buffers()) {
    const bool wanted = tensor.defined() && !contains(options.ignored, name) &&
                        seen.insert(tensor.unsafeGetTensorImpl()).second;
    if (wanted) buffers.emplace_back(name, tensor);
  }
  return buffers;
}

}  // namespace lockstep::detail
