// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "lockstep/base/deadline.h"

// Sleeping until a word in memory changes. The word may lie in memory that
// several processes share.
namespace lockstep {

// Sleeps if `word` holds `expected`, until a wake or the time; may return for
// no reason at all, so look again.
void futex_wait(const void* word, uint32_t expected, Deadline until);

// Wakes all who sleep at `word`, in every process.
void futex_wake_all(const void* word);

// Tells the core that it is only watching.
inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace lockstep
