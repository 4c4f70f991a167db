// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "lockstep/base/bytes.h"
#include "lockstep/base/deadline.h"
#include "lockstep/store/store.h"

namespace lockstep {

// Waits in `store` until all `size` ranks have called this. Give each meeting
// a prefix of its own: a store remembers who came.
//
// Every `notice_after` it logs who is missing still. `look` is called from time
// to time, at least every 50 ms, while it waits: what it throws ends the
// waiting.
//
// Errors: TimeoutError says how many of how many joined and which are missing;
//         MismatchError when two processes claim one rank, or ranks disagree
//         on the size; UsageError when the rank is not below the size.
void meet(Store& store, int rank, int size, Deadline deadline,
          Deadline::Duration notice_after = std::chrono::seconds(10),
          const std::function<void()>& look = nullptr);

// The value of `key`, once it is there; `look` as above.
ByteVector get_looking(Store& store, const std::string& key, Deadline deadline,
                       const std::function<void()>& look);

}  // namespace lockstep
