// SPDX-License-Identifier: Apache-2.0
#include "hook/lossy.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {

float* floats_of(const GradBucket& bucket) {
  LOCKSTEP_CHECK(bucket.buffer().is_contiguous(), UsageError,
                 "the buffer of bucket {} has gaps; a hook that sets another "
                 "buffer must give a contiguous tensor",
                 bucket.index());
  return bucket.buffer().data_ptr<float>();
}

}  // namespace lockstep::detail
