// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

// The version of the lockstep library linked in, such as "0.1.0".
const char* version();

}  // namespace lockstep
