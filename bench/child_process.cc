// SPDX-License-Identifier: Apache-2.0
#include "child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/net/socket.h"

namespace lockstep::bench {
namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      throw SystemError("cannot create a pipe", errno);
    }
    out = Fd(ends[0]);
    in = Fd(ends[1]);
  }
  Fd out;
  Fd in;
};

// What the child does between fork and exec: system calls only, since another
// thread may have held any lock when we forked. Writes errno when it fails.
[[noreturn]] void become(char* const* arguments, const char* directory,
                         pid_t parent, int death_signal, int input, int output,
                         int trouble) {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // The parent may have died before we asked to die with it.
  if (::prctl(PR_SET_PDEATHSIG, death_signal) == 0 && ::getppid() == parent &&
      ::dup2(input, STDIN_FILENO) >= 0 && ::dup2(output, STDOUT_FILENO) >= 0 &&
      (directory == nullptr || ::chdir(directory) == 0)) {
    ::execvp(arguments[0], arguments);
  }
  const int error = errno;
  [[maybe_unused]] const auto told = ::write(trouble, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& arguments,
                           const Options& options)
    : ends_by_itself_(options.ends_by_itself) {
  std::vector<std::string> words = arguments;
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const char* directory =
      options.directory.empty() ? nullptr : options.directory.c_str();

  Pipe input;
  Pipe output;
  Pipe trouble;  // closes by itself when exec succeeds
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) throw SystemError("cannot open /dev/null", errno);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw SystemError("cannot start " + words[0], errno);
  if (pid_ == 0) {
    become(pointers.data(), directory, parent, ends_by_itself_ ? 0 : SIGKILL,
           options.give_input ? input.out.get() : null.get(),
           options.keep_output ? output.in.get() : null.get(),
           trouble.in.get());
  }
  trouble.in.reset();
  int error = 0;
  if (::read(trouble.out.get(), &error, sizeof error) > 0) {
    ::waitpid(pid_, nullptr, 0);
    throw SystemError("cannot run " + words[0], error);
  }
  output_ = std::move(output.out);
  input_ = std::move(input.in);
}

ChildProcess::~ChildProcess() {
  if (!is_running()) return;
  if (ends_by_itself_) {
    ::kill(pid_, SIGTERM);
    if (wait(Deadline::in(std::chrono::seconds(10)))) return;
  }
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool ChildProcess::is_running() {
  if (pid_ >= 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ >= 0;
}

bool ChildProcess::wait(Deadline deadline) {
  if (pid_ < 0) return true;
  const Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (handle) poll_one(handle.get(), POLLIN, deadline);
  return !is_running();
}

std::string ChildProcess::read_line(Deadline deadline) {
  std::string line;
  for (char c = 0;;) {
    if (poll_one(output_.get(), POLLIN, deadline) == 0) {
      throw TimeoutError("a program we started printed nothing in time");
    }
    const ssize_t got = ::read(output_.get(), &c, 1);
    LOCKSTEP_CHECK(got == 1, PeerError, "a program we started ended too soon");
    if (c == '\n') return line;
    line += c;
  }
}

void ChildProcess::write_line(const std::string& line) {
  const std::string text = line + "\n";
  // A line this short goes into the pipe whole.
  if (::write(input_.get(), text.data(), text.size()) < 0) {
    throw SystemError("cannot write to a program we started", errno);
  }
}

TemporaryDirectory::TemporaryDirectory()
    : path_((std::filesystem::temp_directory_path() / "lockstep-XXXXXX")) {
  if (::mkdtemp(path_.data()) == nullptr) {
    throw SystemError("cannot create a temporary directory", errno);
  }
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace lockstep::bench
