// SPDX-License-Identifier: Apache-2.0
#include "support/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

namespace lockstep::testing {

Child::Child(const std::vector<std::string>& arguments, bool with_errors,
             bool with_input) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  output_.reset(ends[0]);
  const Fd write_end(ends[1]);
  Fd read_end;
  if (with_input) {
    // A socket: writing to one whose reader is gone can be told not to signal.
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      throw std::runtime_error("socketpair");
    }
    input_.reset(ends[0]);
    read_end.reset(ends[1]);
  }

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), 1);
  if (read_end) {
    ::posix_spawn_file_actions_adddup2(&actions, read_end.get(), 0);
  }
  if (with_errors) {
    ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), 2);
  }
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const auto& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const int error =
      ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + arguments[0]);
}

Child::~Child() {
  if (status_) return;
  ::kill(pid_, SIGKILL);
  wait();
}

std::optional<std::string> Child::read_line(Deadline deadline) {
  for (;;) {
    const size_t end = buffered_.find('\n');
    if (end != std::string::npos) {
      std::string line = buffered_.substr(0, end);
      buffered_.erase(0, end + 1);
      return line;
    }
    pollfd entry{output_.get(), POLLIN, 0};
    const int ready = ::poll(&entry, 1, deadline.poll_timeout());
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    char chunk[4096];
    const ssize_t got = ::read(output_.get(), chunk, sizeof chunk);
    if (got <= 0) return std::nullopt;
    buffered_.append(chunk, static_cast<size_t>(got));
  }
}

std::vector<std::string> Child::read_all(Deadline deadline) {
  std::vector<std::string> lines;
  while (auto line = read_line(deadline)) lines.push_back(*line);
  return lines;
}

void Child::write_line(const std::string& line) const {
  const std::string whole = line + "\n";
  ::send(input_.get(), whole.data(), whole.size(), MSG_NOSIGNAL);
}

void Child::signal(int number) const { ::kill(pid_, number); }

void Child::stop() const {
  signal(SIGSTOP);
  int status = 0;
  while (::waitpid(pid_, &status, WUNTRACED) < 0 && errno == EINTR) {
  }
}

int Child::wait() {
  if (!status_) {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    status_ = status;
  }
  return *status_;
}

}  // namespace lockstep::testing
