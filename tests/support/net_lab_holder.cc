// SPDX-License-Identifier: Apache-2.0
// net_lab_holder OWNER: holds a network namespace for a NetLab of its parent,
// process OWNER, until SIGTERM or the owner's end. Then it kills all that runs
// in the namespace, which nobody holds any more, and which is gone with all
// its devices. It says "ready", or why it is not.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"

namespace {

using namespace lockstep;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

int fail(const char* what) {
  std::printf("%s: %s\n", what, std::strerror(errno));
  return 1;
}

// Whether one was there. The owner may be: a thread of its own can visit.
bool kill_inhabitants(pid_t owner) {
  struct stat home {};
  if (::stat("/proc/self/ns/net", &home) != 0) return false;
  bool found = false;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = std::stoi(name);
    struct stat its {};
    const std::string network = "/proc/" + name + "/ns/net";
    if (pid == ::getpid() || pid == owner ||
        ::stat(network.c_str(), &its) != 0 || its.st_ino != home.st_ino) {
      continue;
    }
    ::kill(pid, SIGKILL);
    found = true;
  }
  return found;
}

int hold(pid_t owner) {
  sigset_t term;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &term, nullptr);
  const Fd told(::signalfd(-1, &term, SFD_CLOEXEC));
  const Fd alive(static_cast<int>(::syscall(SYS_pidfd_open, owner, 0)));
  if (!told || !alive || ::getppid() != owner) return fail("no owner to watch");
  if (::unshare(CLONE_NEWNET) != 0) return fail("unshare");
  std::printf("ready\n");
  std::fflush(stdout);

  pollfd ends[] = {{told.get(), POLLIN, 0}, {alive.get(), POLLIN, 0}};
  while (::poll(ends, 2, -1) < 0 && errno == EINTR) {
  }
  // Again and again, for those that were born meanwhile.
  const auto deadline = Deadline::in(10s);
  while (kill_inhabitants(owner) && !deadline.passed()) {
    std::this_thread::sleep_for(1ms);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2) return hold(std::stoi(argv[1]));
  std::fputs("usage: net_lab_holder OWNER\n", stderr);
  return 2;
}
