// SPDX-License-Identifier: Apache-2.0
#include "backend/host.h"

#include <sys/stat.h>

#include <cerrno>
#include <fstream>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/store/rendezvous.h"

namespace lockstep::detail {

std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat pids {};
  if (!(file >> boot) || ::stat("/proc/self/ns/pid", &pids) != 0) {
    throw SystemError("cannot tell this host from others: no /proc here",
                      errno);
  }
  return fmt::format("{} {}", boot, pids.st_ino);
}

// The first one writes down where it is; whoever is elsewhere says so.
bool is_one_host(const std::shared_ptr<Store>& store, int rank, int size,
                 Deadline deadline) {
  const std::string here = host_identity();
  const auto first = store->compare_set("host", std::nullopt, here);
  if (!first.stored && first.value != to_vector(here)) {
    store->set("other hosts", "");
  }
  meet(*store, rank, size, deadline);
  return !store->check({"other hosts"});
}

}  // namespace lockstep::detail
