// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

// The commands of the command line. Each adds itself with its options and
// help, and puts into `action` what to do when it is chosen; the action returns
// the exit code.
namespace lockstep::tool {

using Action = std::function<int()>;

void add_run(CLI::App& app, Action& action);
void add_info(CLI::App& app, Action& action);

}  // namespace lockstep::tool
