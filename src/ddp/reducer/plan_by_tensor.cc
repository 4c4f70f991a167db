// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/plan_by_tensor.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace lockstep::detail {
namespace {

// Appends a bucket for each type among `items`, ordered by its first item.
void append_by_type(const std::vector<size_t>& items,
                    const std::vector<PlanItem>& all, BucketPlan& plan) {
  const size_t begin = plan.buckets.size();
  for (const size_t item : items) {
    auto place = plan.buckets.end();
    if (!all[item].sparse) {
      place = std::find_if(plan.buckets.begin() + static_cast<long>(begin),
                           plan.buckets.end(), [&](const auto& bucket) {
                             const PlanItem& first = all[bucket.items[0]];
                             return !first.sparse && first.key == all[item].key;
                           });
    }
    if (place == plan.buckets.end()) {
      plan.buckets.push_back({{item}});
    } else {
      place->items.push_back(item);
    }
  }
}

}  // namespace

BucketPlan plan_by_tensor(const std::vector<std::vector<at::Tensor>>& buckets,
                          const ParameterSet& parameters) {
  std::unordered_map<const void*, size_t> left;  // by identity: the index
  for (size_t i = 0; i < parameters.size(); ++i) {
    left[parameters.tensors[i].unsafeGetTensorImpl()] = i;
  }
  BucketPlan plan;
  for (const auto& tensors : buckets) {
    std::vector<size_t> items;
    for (const at::Tensor& tensor : tensors) {
      const auto found = left.find(tensor.unsafeGetTensorImpl());
      if (found == left.end()) continue;
      items.push_back(found->second);
      left.erase(found);
    }
    append_by_type(items, parameters.items, plan);
  }
  std::vector<size_t> rest;
  for (const auto& [identity, index] : left) rest.push_back(index);
  std::sort(rest.rbegin(), rest.rend());
  append_by_type(rest, parameters.items, plan);
  return plan;
}

}  // namespace lockstep::detail
