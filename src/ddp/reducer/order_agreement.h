// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep::detail {

// Gives all ranks the order of arrival that rank 0 has seen: it may differ from
// rank to rank, and buckets must not. The collective travels while the program
// computes.
class OrderAgreement {
 public:
  // Every rank begins, at the same place in the order of `group`.
  void begin(ProcessGroup& group, const std::vector<size_t>& order) {
    words_ = std::make_shared<std::vector<int64_t>>(order.begin(), order.end());
    CallOptions options;
    options.keepalive = words_;
    work_ = group.broadcast(buffer_of(*words_), 0, std::move(options));
  }

  bool is_pending() const { return work_ != nullptr; }

  // Waits for it.
  std::vector<size_t> finish() {
    const std::shared_ptr<Work> work = std::exchange(work_, nullptr);
    work->wait();
    return {words_->begin(), words_->end()};
  }

  void reset() { work_ = nullptr; }

 private:
  std::shared_ptr<std::vector<int64_t>> words_;
  std::shared_ptr<Work> work_;
};

}  // namespace lockstep::detail
