// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace lockstep::tool {

// The option or command closest to a word of the command line that is none,
// if one is close; for "did you mean".
std::string nearest_to(const CLI::App& app, int argc, char** argv);

}  // namespace lockstep::tool
