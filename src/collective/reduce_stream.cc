// SPDX-License-Identifier: Apache-2.0
#include "collective/reduce_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collective/reduce_stream.cc"
#include <cstdint>

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "collective/reduce_kernels.h"
#include "lockstep/collective/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void stream_lines(uint8_t* to, const uint8_t* from, size_t bytes,
                  const Upcoming& next) {
  const hn::ScalableTag<uint8_t> d;
  for (size_t at = 0; at < bytes; at += kCacheLine) {
    for (int i = 0; i < next.input_count; ++i) {
      hwy::Prefetch(static_cast<const uint8_t*>(next.inputs[i]) + next.begin +
                    at);
    }
    for (size_t i = at; i < at + kCacheLine; i += hn::Lanes(d)) {
      hn::Stream(hn::LoadU(d, from + i), d, to + i);
    }
  }
}

const char* target_name() {
  if (HWY_TARGET == HWY_STATIC_TARGET) return "baseline";
  return HWY_TARGET == HWY_AVX3 ? "AVX-512" : hwy::TargetName(HWY_TARGET);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep {
namespace detail {

HWY_EXPORT(stream_lines);
HWY_EXPORT(target_name);

void stream_copy(void* target, const void* source, size_t bytes,
                 const Upcoming& next) {
  HWY_DYNAMIC_DISPATCH(stream_lines)
  (static_cast<uint8_t*>(target), static_cast<const uint8_t*>(source), bytes,
   next);
}

void fence_stream() { hwy::FlushStream(); }

}  // namespace detail

const char* reduce_target() {
  using namespace detail;
  return HWY_DYNAMIC_DISPATCH(target_name)();
}

}  // namespace lockstep
#endif
