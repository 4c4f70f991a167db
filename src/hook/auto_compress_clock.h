// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "lockstep/hook/auto_compress.h"

namespace lockstep::detail {

// hooks::auto_compress() with a clock of the caller's, in seconds: for tests.
CommHook auto_compress_by(std::function<double()> clock,
                          std::vector<CommHook> candidates,
                          const hooks::AutoCompressOptions& options);

}  // namespace lockstep::detail
