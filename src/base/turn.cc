// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/turn.h"

namespace lockstep {

Turn::Held Turn::take(Deadline deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!free_.wait_until(lock, deadline.time(), [&] { return !taken_; })) {
    return nullptr;
  }
  taken_ = true;
  return Held(this);
}

void Turn::give_back() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    taken_ = false;
  }
  free_.notify_one();
}

}  // namespace lockstep
