// SPDX-License-Identifier: Apache-2.0
#include "hook/lossy.h"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {

Future<at::Tensor> launch_all(const std::vector<Launch>& launches,
                              at::Tensor value) {
  std::vector<Future<void>> futures;
  try {
    for (const Launch& launch : launches) {
      futures.push_back(launch()->future());
    }
  } catch (...) {  // comes last: what failed before it is the reason
    futures.push_back(make_failed_future<void>(std::current_exception()));
  }
  return when_all(futures).then([value = std::move(value)] { return value; });
}

float* floats_of(const GradBucket& bucket) {
  LOCKSTEP_CHECK(bucket.buffer().is_contiguous(), UsageError,
                 "the buffer of bucket {} has gaps; a hook that sets another "
                 "buffer must give a contiguous tensor",
                 bucket.index());
  return bucket.buffer().data_ptr<float>();
}

}  // namespace lockstep::detail
