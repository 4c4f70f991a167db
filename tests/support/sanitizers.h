// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which sanitizer this was compiled for, as gcc says it and as clang does.
namespace lockstep::testing {

#if defined(__has_feature)
#define LOCKSTEP_HAS_FEATURE(x) __has_feature(x)
#else
#define LOCKSTEP_HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || LOCKSTEP_HAS_FEATURE(address_sanitizer)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__) || LOCKSTEP_HAS_FEATURE(thread_sanitizer)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

#undef LOCKSTEP_HAS_FEATURE

}  // namespace lockstep::testing
