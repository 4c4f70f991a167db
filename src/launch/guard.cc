// SPDX-License-Identifier: Apache-2.0
#include "launch/guard.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

bool is_marked(const std::string& process, const std::string& launcher_id) {
  std::ifstream file("/proc/" + process + "/environ", std::ios::binary);
  if (!file) return false;
  // The value is a list: a launcher that a rank starts adds itself to it.
  const std::string name = "LOCKSTEP_LAUNCHER=";
  std::string entry;
  while (std::getline(file, entry, '\0')) {
    if (entry.compare(0, name.size(), name) == 0) {
      return ("," + entry.substr(name.size()) + ",")
                 .find("," + launcher_id + ",") != std::string::npos;
    }
  }
  return false;
}

int kill_seen(const std::string& launcher_id) {
  DIR* processes = ::opendir("/proc");
  if (processes == nullptr) return 0;
  int killed = 0;
  const std::string own = std::to_string(::getpid());
  while (const dirent* entry = ::readdir(processes)) {
    const std::string name = entry->d_name;
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (name == own || !is_marked(name, launcher_id)) continue;
    if (::kill(std::atoi(name.c_str()), SIGKILL) == 0) ++killed;
  }
  ::closedir(processes);
  return killed;
}

// Waits for the launcher: a byte means that all is well, the end of the pipe
// that it was killed.
[[noreturn]] void watch(int pipe, const std::string& launcher_id) {
  ::setsid();
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd : {0, 1, 2}) ::dup2(null, fd);
  ::dup2(pipe, 3);
  ::closefrom(4);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    std::signal(number, SIG_IGN);
  }
  char byte = 0;
  ssize_t got = 0;
  while ((got = ::read(3, &byte, 1)) < 0 && errno == EINTR) {
  }
  if (got == 0) kill_marked(launcher_id);
  ::_exit(0);
}

}  // namespace

Guard::Guard(const std::string& launcher_id) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw SystemError("no pipe", errno);
  Fd read_end(ends[0]);
  pipe_.reset(ends[1]);
  pid_ = ::fork();
  if (pid_ < 0) throw SystemError("cannot start a process", errno);
  if (pid_ == 0) {
    pipe_.reset();
    watch(read_end.get(), launcher_id);
  }
}

Guard::~Guard() {
  while (::write(pipe_.get(), "", 1) < 0 && errno == EINTR) {
  }
  ::waitpid(pid_, nullptr, 0);
}

int kill_marked(const std::string& launcher_id) {
  // What is killed may just have started another, and a process that is
  // becoming another program has no environment for a moment: so none has to
  // be seen several times.
  int killed = 0;
  const auto deadline = Deadline::in(std::chrono::seconds(5));
  for (int unseen = 0; unseen < 3 && !deadline.passed(); ++unseen) {
    while (const int now = kill_seen(launcher_id)) {
      killed += now;
      if (deadline.passed()) break;  // one that the system does not let die
      ::usleep(2000);
    }
    ::usleep(1000);
  }
  return killed;
}

}  // namespace lockstep::detail
