// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/host_name.h"

#include <unistd.h>

#include <array>

namespace lockstep::detail {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "?";
  return name.data();
}

}  // namespace lockstep::detail
