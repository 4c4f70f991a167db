// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

// Reading environment variables: absent and empty both mean "not given", and
// a value that does not parse is a UsageError that names the variable.
namespace lockstep::env {

std::optional<std::string> text(const char* name);
std::optional<int64_t> integer(const char* name);

// Accepts 1/0, true/false, yes/no, on/off, in any case.
std::optional<bool> boolean(const char* name);

}  // namespace lockstep::env
