// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/thread.h"

#include <pthread.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep {
namespace {

// Blocks all signals in this thread while it lives; a new thread inherits it.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

void run_named(const std::string& name, const std::function<void()>& body) {
  ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
  try {
    body();
  } catch (...) {
    log_error(fmt::format("thread '{}' ended by an exception: {}", name,
                          describe(std::current_exception())));
    std::abort();
  }
}

}  // namespace

Thread::Thread(const std::string& name, std::function<void()> body) {
  SignalsBlocked blocked;
  try {
    thread_ = std::thread(run_named, name, std::move(body));
  } catch (const std::system_error& error) {
    throw SystemError(fmt::format("cannot start thread '{}'", name),
                      error.code().value());
  }
}

Thread& Thread::operator=(Thread&& other) noexcept {
  join();
  thread_ = std::move(other.thread_);
  return *this;
}

void Thread::join() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace lockstep
