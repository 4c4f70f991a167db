// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/backend/gloo.h"

namespace lockstep::detail {

// Those of the options, else those of the environment, else the default.
std::vector<GlooDevice> chosen_devices(const GlooOptions& options);

}  // namespace lockstep::detail
