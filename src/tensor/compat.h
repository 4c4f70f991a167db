// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <string>

#include <c10/core/Layout.h>

// The one place for what differs between versions of libtorch.
namespace lockstep::detail {

inline std::string text_of(c10::Layout layout) {
  std::ostringstream text;
  text << layout;
  return text.str();
}

}  // namespace lockstep::detail
