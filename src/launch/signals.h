// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <optional>

#include "lockstep/base/fd.h"

namespace lockstep::detail {

// Turns SIGINT, SIGTERM and SIGHUP into something one can poll for, while it
// lives; those that are ignored stay so. Construct it before any thread is
// started: they inherit the mask.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return fd_.get(); }
  // The next one that has arrived.
  std::optional<int> next();

 private:
  sigset_t before_;
  Fd fd_;
};

}  // namespace lockstep::detail
