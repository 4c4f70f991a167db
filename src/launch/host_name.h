// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <climits>
#include <string>

namespace lockstep {

// What this host calls itself.
inline std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace lockstep
