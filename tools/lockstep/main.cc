// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <CLI/CLI.hpp>

#include "lockstep/base/version.h"

int main(int argc, char** argv) {
  CLI::App app("lockstep: distributed data-parallel training for C++ programs",
               "lockstep");
  app.set_version_flag("--version",
                       std::string("lockstep ") + lockstep::version());
  CLI11_PARSE(app, argc, argv);
  std::fputs(app.help().c_str(), stdout);
  return 0;
}
