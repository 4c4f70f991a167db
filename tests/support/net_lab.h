// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/fd.h"
#include "support/child.h"

namespace lockstep::testing {

// Hosts on one machine: network namespaces, each with a cable to a switch (a
// bridge), which has a namespace too. The machine's own network is not touched,
// and any number of labs can be there at once, with the same addresses.
//
//   LOCKSTEP_NEED_NET_LAB();
//   NetLab lab(2);
//   Child server(lab.on(0, {LOCKSTEP_STORE_WORKER, "serve", "", ...}));
//   lab.cut(1);   // whoever runs on host 1 is alone now
//
// A namespace has no name. It lives by a process that holds it, which ends
// with the lab and with the process that made the lab, however that ends; and
// before it does, it kills all that still runs on its host.
//
// Threads: one at a time.
// Errors:  std::runtime_error with the command that failed and what it said.
class NetLab {
 public:
  explicit NetLab(int hosts);
  ~NetLab();
  NetLab(const NetLab&) = delete;
  NetLab& operator=(const NetLab&) = delete;

  // Why there cannot be one here (no root, no ip, kernel); empty when it can.
  static std::string why_not();
  // The same as loud words for a test that needs one; and whether it may be
  // skipped then (LOCKSTEP_NO_NAMESPACES=1) and need not fail.
  static std::string complaint();
  static bool may_be_missing();

  int hosts() const { return static_cast<int>(hosts_.size()); }
  std::string address(int host) const;    // IPv4, on the switch
  std::string interface(int host) const;  // its name on that host

  // In whose process numbers a command runs: ours, or a namespace of its own
  // for each command. lockstep takes the latter for another machine. Its
  // parent is then a process that hands on its exit code; to that one no
  // signal means anything but SIGKILL, which ends both.
  enum class Pids { kShared, kOwn };
  // The arguments by which `command` runs on a host, as itself (by exec).
  std::vector<std::string> on(int host, const std::vector<std::string>& command,
                              Pids pids = Pids::kShared) const;

  // Has the calling thread, and those it starts, on a host until it ends.
  // Sockets stay where they were made.
  class Visit {
   public:
    Visit(const NetLab& lab, int host);
    ~Visit();
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    Fd home_;
  };

  // Pulls a host's cable, and plugs it in again. Connections notice nothing
  // but silence.
  void cut(int host);
  void mend(int host);
  // What goes through its cable, in each direction; 0: as much as can.
  void limit(int host, int megabits);

 private:
  struct Host {
    std::unique_ptr<Child> holder;
    bool limited = false;
  };

  void plug_in(int host);

  std::unique_ptr<Child> switch_;
  std::vector<Host> hosts_;
};

}  // namespace lockstep::testing

// First in a test that needs a NetLab: without one the test fails, or is
// skipped when LOCKSTEP_NO_NAMESPACES=1 accepts that.
#define LOCKSTEP_NEED_NET_LAB()                                           \
  do {                                                                    \
    const auto complaint = ::lockstep::testing::NetLab::complaint();      \
    if (complaint.empty()) break;                                         \
    if (::lockstep::testing::NetLab::may_be_missing()) {                  \
      GTEST_SKIP() << complaint;                                          \
    }                                                                     \
    FAIL() << complaint << "; set LOCKSTEP_NO_NAMESPACES=1 to accept it"; \
  } while (false)
