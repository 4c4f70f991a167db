// SPDX-License-Identifier: Apache-2.0
#include "unit/launch/launch_support.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "support/support.h"

namespace lockstep::testing {
namespace {

bool is_about_places(const std::string& name) {
  for (const char* prefix : {"LOCKSTEP_", "OMPI_", "PMI_", "PMIX_", "SLURM_",
                             "TORCHELASTIC_", "MPI_LOCAL"}) {
    if (name.rfind(prefix, 0) == 0) return true;
  }
  for (const char* whole :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK",
        "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", "XDG_RUNTIME_DIR"}) {
    if (name == whole) return true;
  }
  return false;
}

}  // namespace

CleanEnvironment::CleanEnvironment() {
  std::vector<std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (is_about_places(name)) found.push_back(name);
  }
  for (const auto& name : found) clear(name);
}

CleanEnvironment::~CleanEnvironment() {
  for (const auto& [name, value] : before_) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }
}

void CleanEnvironment::set(const std::string& name, const std::string& value) {
  remember(name);
  ::setenv(name.c_str(), value.c_str(), 1);
}

void CleanEnvironment::clear(const std::string& name) {
  remember(name);
  ::unsetenv(name.c_str());
}

void CleanEnvironment::remember(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  before_.try_emplace(name, value != nullptr ? std::optional<std::string>(value)
                                             : std::nullopt);
}

TestPipe::TestPipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  read_end.reset(ends[0]);
  write_end.reset(ends[1]);
}

bool is_readable(int fd, Deadline deadline) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, deadline.poll_timeout()) > 0;
}

std::string read_to_end(int fd, Deadline deadline) {
  std::string text;
  char chunk[4096];
  while (is_readable(fd, deadline)) {
    const ssize_t got = ::read(fd, chunk, sizeof chunk);
    if (got <= 0) break;
    text.append(chunk, static_cast<size_t>(got));
  }
  return text;
}

std::string read_line(int fd, Deadline deadline) {
  std::string line;
  char byte = 0;
  while (is_readable(fd, deadline) && ::read(fd, &byte, 1) == 1) {
    if (byte == '\n') break;
    line += byte;
  }
  return line;
}

bool is_alive(pid_t pid) {
  const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos) return false;
  const char state = stat[name_end + 2];
  return state != 'Z' && state != 'X';
}

SigpipeIgnored::SigpipeIgnored() : before_(std::signal(SIGPIPE, SIG_IGN)) {}
SigpipeIgnored::~SigpipeIgnored() { std::signal(SIGPIPE, before_); }

}  // namespace lockstep::testing
