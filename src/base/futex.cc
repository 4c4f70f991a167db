// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace lockstep {

// Not the private kind, in both: it would not reach other processes.
void futex_wait(const void* word, uint32_t expected, Deadline until) {
  const auto left =
      std::max<int64_t>(0, std::chrono::nanoseconds(until.remaining()).count());
  timespec time{};
  time.tv_sec = left / 1'000'000'000;
  time.tv_nsec = left % 1'000'000'000;
  syscall(SYS_futex, word, FUTEX_WAIT, expected, &time, nullptr, 0);
}

void futex_wake_all(const void* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace lockstep
