// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/comm_hook.h"

namespace lockstep::hooks {

CommHook noop() {
  const auto keep = [](const GradBucket& bucket) {
    return make_future([buffer = bucket.buffer()] { return buffer; });
  };
  return CommHook(keep).named("noop");
}

}  // namespace lockstep::hooks
