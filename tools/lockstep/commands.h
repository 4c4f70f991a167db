// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

// The commands of the command line. Each adds itself with its options and
// help, and puts into `action` what to do when it is chosen; the action returns
// the exit code.
namespace lockstep::tool {

using Action = std::function<int()>;

void add_run(CLI::App& app, Action& action);
void add_info(CLI::App& app, Action& action);
// `words` is the command line after the name of the program: what the ranks it
// starts are told.
void add_bench(CLI::App& app, const std::vector<std::string>& words,
               Action& action);

}  // namespace lockstep::tool
