// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <set>
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

// For threads of libraries: those this process has now, by their numbers, and
// where one of them is to run. Errors: SystemError.
std::set<pid_t> threads_of_this_process();
void bind_thread(pid_t thread, int cpu);

}  // namespace lockstep::bench
