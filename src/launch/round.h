// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/store/store.h"

namespace lockstep::detail {

// A job that is restarted has rounds, each with a run id of its own. The
// launcher writes the current one into the store; a process of an earlier
// round that comes late is turned away.
void begin_round(Store& store, const std::string& run_id);

// Errors: MismatchError when `run_id` is not the current one.
void check_round(Store& store, const std::string& run_id);

}  // namespace lockstep::detail
