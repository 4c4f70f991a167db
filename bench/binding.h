// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <vector>

namespace lockstep::bench {

// The processors this thread may use, in order.
std::vector<int> allowed_cpus();

// Binds the calling thread to one processor, and with it the threads and
// programs it starts from then on; the destructor gives the thread, not those,
// its freedom back.
//
//   Binding here(allowed_cpus().back());
//   ChildProcess server(...);   // runs there for ever
//
// Threads: made and destroyed on the same thread.
// Errors:  SystemError.
class Binding {
 public:
  explicit Binding(int cpu);
  ~Binding();
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;

 private:
  cpu_set_t before_;
};

}  // namespace lockstep::bench
