// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep::detail {

// Gives all ranks the order in which gradients arrived on rank 0. The order may
// differ between ranks, but buckets must not. The program computes between
// begin() and finish().
//
// Threads: guarded by the Reducer.
class OrderAgreement {
 public:
  // Launches a collective on `group`, on every rank.
  void begin(ProcessGroup& group, const std::vector<size_t>& order) {
    words_ = std::make_shared<std::vector<int64_t>>(order.begin(), order.end());
    CallOptions options;
    options.keepalive = words_;
    work_ = group.broadcast(buffer_of(*words_), 0, std::move(options));
  }

  bool is_pending() const { return work_ != nullptr; }

  // Waits for the collective and returns rank 0's order.
  std::vector<size_t> finish() {
    const std::shared_ptr<Work> work = std::exchange(work_, nullptr);
    work->wait();
    return {words_->begin(), words_->end()};
  }

  // Forgets a collective that is pending.
  void reset() { work_ = nullptr; }

 private:
  std::shared_ptr<std::vector<int64_t>> words_;
  std::shared_ptr<Work> work_;
};

}  // namespace lockstep::detail
