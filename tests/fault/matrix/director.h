// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fault/matrix/table.h"

namespace lockstep::faults {

// Plays one cell with four ranks, and fails the test where they do not get what
// the table says. Which rank it happens to, and the moment, are drawn from a
// seed that is printed.
void expect_cell(const Row& row, Moment moment, Medium medium);

}  // namespace lockstep::faults
