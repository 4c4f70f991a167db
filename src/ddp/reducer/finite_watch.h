// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/process_group.h"
#include "lockstep/ddp/finite_check.h"

namespace lockstep::detail {

// Looks at gradients as they arrive, while they are in the cache, and knows
// after backward whether all gradients of all ranks were finite.
//
// Threads: guarded by the Reducer.
class FiniteWatch {
 public:
  explicit FiniteWatch(FiniteCheck check) : check_(check) {}

  void start_cycle() { found_ = kNothing; }
  // Errors: with kError, UsageError names parameter, bucket and element.
  void look_at(const at::Tensor& gradient, size_t bucket, size_t parameter,
               const std::string& name);

  // At the end of backward: launches what ranks tell each other, with kVerdict,
  // and waits for it.
  void tell(ProcessGroup& group);
  void hear(const std::vector<std::string>& names, Deadline deadline);
  // Of the last backward whose end was heard.
  const std::optional<NonFiniteGradient>& verdict() const { return verdict_; }

 private:
  struct Place {  // of a gradient, as ranks tell each other
    int64_t bucket;
    int64_t parameter;
  };
  static constexpr Place kNothing{-1, -1};

  const FiniteCheck check_;
  Place found_ = kNothing;     // the first here
  std::vector<int64_t> told_;  // a place of each rank
  std::shared_ptr<Work> work_;
  std::optional<NonFiniteGradient> verdict_;
};

}  // namespace lockstep::detail
