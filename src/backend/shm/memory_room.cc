// SPDX-License-Identifier: Apache-2.0
// How much memory can still be had. Files in memory are limited by nothing but
// the memory itself, and when that is used up the kernel ends processes; so the
// question must be asked before.
#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "backend/shm/memory_file.h"
#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

// A file that holds one number; "max" is none.
std::optional<size_t> number_in(const std::string& path) {
  std::ifstream file(path);
  size_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// The number after `name` in a file of such lines.
size_t number_after(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    size_t value = 0;
    if (word == name && file >> value) return value;
  }
  return 0;
}

// What a control group leaves. Pages of files that were read are counted as
// used, and given back when needed.
size_t left_by(const std::string& group, const char* limit, const char* usage,
               const char* reclaimable) {
  const auto most = number_in(group + limit);
  const auto used = number_in(group + usage);
  if (!most || !used) return kNoLimit;
  const size_t held =
      *used - std::min(*used, number_after(group + "memory.stat", reclaimable));
  return *most - std::min(*most, held);
}

size_t left_by_v2(const std::string& group) {
  return left_by(group, "memory.max", "memory.current", "inactive_file");
}
size_t left_by_v1(const std::string& group) {
  return left_by(group, "memory.limit_in_bytes", "memory.usage_in_bytes",
                 "total_inactive_file");
}

// This process's group and those above it, as named from outside, and the root,
// which is its own group when seen from inside a container.
size_t left_by_groups() {
  size_t left = std::min(left_by_v2("/sys/fs/cgroup/"),
                         left_by_v1("/sys/fs/cgroup/memory/"));
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kind = line.substr(first + 1, second - first - 1);
    // Those above count too.
    for (std::string path = line.substr(second + 1); path.size() > 1;
         path.resize(path.rfind('/'))) {
      if (kind.empty()) {
        left = std::min(left, left_by_v2("/sys/fs/cgroup" + path + "/"));
      } else if (kind == "memory") {
        left = std::min(left, left_by_v1("/sys/fs/cgroup/memory" + path + "/"));
      }
    }
  }
  return left;
}

}  // namespace

size_t memory_room() {
  const size_t machine =
      number_after("/proc/meminfo", "MemAvailable:") * size_t{1024};
  return std::min(machine == 0 ? kNoLimit : machine, left_by_groups());
}

void check_room(size_t bytes, const std::string& whose) {
  const size_t room = memory_room();
  if (bytes > room) {
    throw SystemError(
        fmt::format("not enough memory {}: {:.1f} MB asked, there is room for "
                    "{:.1f} MB (this machine's free memory, or the limit of "
                    "the memory control group)",
                    whose, static_cast<double>(bytes) / 1e6,
                    static_cast<double>(room) / 1e6),
        ENOMEM);
  }
}

}  // namespace lockstep::detail
