// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace lockstep {

// The first line of `path`, which nobody but its owner may read.
//
// Errors: SystemError when it cannot be read; UsageError when others may read
//         it (the message has the chmod) or when it is empty.
std::string read_secret_file(const std::string& path);

// The job's secret from the environment: LOCKSTEP_SECRET, else the file that
// LOCKSTEP_SECRET_FILE names. Nothing when neither is set.
std::optional<std::string> secret_from_environment();

}  // namespace lockstep
