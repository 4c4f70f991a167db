// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tuple>

#include <gtest/gtest.h>

#include "support/rank_team.h"

namespace lockstep {

// A backend, and how many ranks a group has.
class BackendMatrix
    : public ::testing::TestWithParam<std::tuple<testing::BackendKind, int>> {};

}  // namespace lockstep
