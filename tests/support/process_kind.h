// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "support/rank_team.h"

namespace lockstep::testing {

// The kind whose ranks are processes: those of the job that this program was
// started as, on backend shm or, if told so, gloo:
//
//   lockstep run -n 5 --backend gloo -- build/bin/backend_contract_test
//
// Nothing when it was started alone. Each process runs the same tests in the
// same order. A team has the first processes; those it does not need wait for
// the others in every run. A process whose test has failed must end, so that
// the launcher ends the job: it would be out of step.
//
// With `ranks_each` above 1 a process has so many ranks, as threads: the first
// ranks belong to the first process.
std::optional<BackendKind> process_kind(int ranks_each = 1);

}  // namespace lockstep::testing
