// SPDX-License-Identifier: Apache-2.0
#include "binding.h"

#include <cerrno>

#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

cpu_set_t current() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) {
    throw SystemError("cannot tell which processors we may use", errno);
  }
  return cpus;
}

}  // namespace

std::vector<int> allowed_cpus() {
  const cpu_set_t cpus = current();
  std::vector<int> allowed;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &cpus)) allowed.push_back(cpu);
  }
  return allowed;
}

Binding::Binding(int cpu) : before_(current()) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  if (::sched_setaffinity(0, sizeof one, &one) != 0) {
    throw SystemError("cannot bind a thread to a processor", errno);
  }
}

Binding::~Binding() { ::sched_setaffinity(0, sizeof before_, &before_); }

}  // namespace lockstep::bench
