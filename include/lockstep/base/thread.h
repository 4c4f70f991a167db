// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <thread>

// Documents which mutex guards a member; the tools that check it are the
// thread sanitizer and the reader.
#define LOCKSTEP_GUARDED_BY(mutex)

namespace lockstep {

// A thread with a name, joined by its destructor.
//
// Signals are blocked in it, so that handlers run on the program's own
// threads. An exception that leaves `body` ends the process with a message
// that names the thread: it would be a bug of ours.
//
// Ownership: whoever owns the Thread makes `body` return before destroying it.
// Errors:    SystemError when the system has no thread left.
class Thread {
 public:
  Thread() = default;
  // The system shows the first 15 characters of the name.
  Thread(const std::string& name, std::function<void()> body);
  ~Thread() { join(); }
  Thread(Thread&&) = default;
  Thread& operator=(Thread&& other) noexcept;

  bool is_current() const {
    return thread_.get_id() == std::this_thread::get_id();
  }
  void join();

 private:
  std::thread thread_;
};

}  // namespace lockstep
