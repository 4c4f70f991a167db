// SPDX-License-Identifier: Apache-2.0
#include "launch/rank_process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw SystemError("no pipe", errno);
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  Fd read_end;
  Fd write_end;
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const auto& text : texts)
    list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

// All the child needs, made before the fork: after it, in a process that has
// threads, only system calls are allowed.
struct Prepared {
  const char* path;
  char* const* arguments;
  char* const* environment;
  const cpu_set_t* cpus;  // or null
  pid_t launcher;
  int null;
  int out;
  int err;
  int failed;  // errno goes here
};

[[noreturn]] void become_rank(const Prepared& p) {
  sigset_t none;
  ::sigemptyset(&none);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGPIPE, &standard, nullptr);  // which the launcher ignores
  const bool ready =
      ::setpgid(0, 0) == 0 && ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
      ::getppid() == p.launcher &&  // else it died before the line above
      (p.cpus == nullptr ||
       ::sched_setaffinity(0, sizeof(cpu_set_t), p.cpus) == 0) &&
      ::dup2(p.null, 0) >= 0 && ::dup2(p.out, 1) >= 0 &&
      ::dup2(p.err, 2) >= 0 && ::sigprocmask(SIG_SETMASK, &none, nullptr) == 0;
  if (ready) ::execve(p.path, p.arguments, p.environment);
  const int error = errno;
  while (::write(p.failed, &error, sizeof error) < 0 && errno == EINTR) {
  }
  ::_exit(127);
}

}  // namespace

std::string to_text(const Ending& ending) {
  if (ending.signal == 0) {
    return fmt::format("exited with code {}", ending.code);
  }
  const char* name = ::sigabbrev_np(ending.signal);
  return fmt::format("killed by {}{}",
                     name != nullptr ? fmt::format("SIG{}", name)
                                     : fmt::format("signal {}", ending.signal),
                     ending.dumped_core ? " (core dumped)" : "");
}

RankProcess::RankProcess(const RankCommand& command) {
  Pipe out;
  Pipe err;
  Pipe failed;
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto arguments = pointers(command.arguments);
  const auto environment = pointers(command.environment);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (int cpu : command.cpus) {
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &cpus);
  }
  const Prepared prepared{command.program.c_str(),
                          arguments.data(),
                          environment.data(),
                          CPU_COUNT(&cpus) > 0 ? &cpus : nullptr,
                          ::getpid(),
                          null.get(),
                          out.write_end.get(),
                          err.write_end.get(),
                          failed.write_end.get()};
  pid_ = ::fork();
  if (pid_ == 0) become_rank(prepared);
  if (pid_ < 0) throw SystemError("cannot start a process", errno);
  ::setpgid(pid_, pid_);  // by both, so that neither has to wait
  failed.write_end.reset();
  int error = 0;
  ssize_t got = 0;
  while ((got = ::read(failed.read_end.get(), &error, sizeof error)) < 0 &&
         errno == EINTR) {
  }
  if (got == sizeof error) {
    ::waitpid(pid_, nullptr, 0);
    ending_ = Ending{127, 0, false};
    throw SystemError(fmt::format("cannot start '{}'", command.program), error);
  }
  handle_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!handle_) {
    error = errno;
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    throw SystemError("no handle for a process", error);
  }
  out_ = std::move(out.read_end);
  err_ = std::move(err.read_end);
}

RankProcess::~RankProcess() {
  if (pid_ < 0 || ending_ || !handle_) return;
  signal(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void RankProcess::signal(int number) const {
  if (!ending_) ::kill(-pid_, number);
}

std::optional<Ending> RankProcess::reap() {
  if (ending_) return ending_;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info,
               WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  Ending ending;
  if (info.si_code == CLD_EXITED) {
    ending.code = info.si_status;
  } else {
    ending.signal = info.si_status;
    ending.dumped_core = info.si_code == CLD_DUMPED;
  }
  ending_ = ending;
  return ending_;
}

}  // namespace lockstep::detail
