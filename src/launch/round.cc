// SPDX-License-Identifier: Apache-2.0
#include "launch/round.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {

void begin_round(Store& store, const std::string& run_id) {
  store.set("round", run_id);
}

void check_round(Store& store, const std::string& run_id) {
  if (!store.check({"round"})) return;  // a store without a launcher
  const std::string current = to_string(store.get("round"));
  LOCKSTEP_CHECK(current == run_id, MismatchError,
                 "this process belongs to run '{}', which is over; the job "
                 "is now at '{}'",
                 run_id, current);
}

}  // namespace lockstep::detail
