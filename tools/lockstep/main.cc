// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <string>

#include "commands.h"
#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "nearest.h"

namespace {

using namespace lockstep;

// CLI11's complaint, and what was probably meant.
int complain(const CLI::App& app, const CLI::ParseError& error, int argc,
             char** argv) {
  const int code = app.exit(error);
  if (code == 0) return 0;  // --help, --version
  const std::string hint = tool::nearest_to(app, argc, argv);
  if (!hint.empty()) std::fprintf(stderr, "Did you mean %s?\n", hint.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("lockstep: distributed data-parallel training for C++ programs",
               "lockstep");
  app.set_version_flag("--version",
                       std::string("lockstep ") + lockstep::version());
  tool::Action action;
  tool::add_run(app, action);
  tool::add_info(app, action);
  tool::add_bench(app, {argv + std::min(argc, 1), argv + argc}, action);
  try {
    app.parse(argc, argv);
    if (!action) {
      std::fputs(app.help().c_str(), stdout);
      return 0;
    }
    return action();
  } catch (const CLI::ParseError& error) {
    return complain(app, error, argc, argv);
  } catch (const UsageError& error) {
    std::fprintf(stderr, "lockstep: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep: %s\n", error.what());
    return 1;
  }
}
