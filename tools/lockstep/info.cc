// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <link.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>

#include "commands.h"
#include "lockstep/backend/init.h"
#include "lockstep/base/version.h"
#include "lockstep/collective/reduce.h"
#include "lockstep/launch/describe_machine.h"

namespace lockstep::tool {
namespace {

// The file that a program asking for libblas.so.3 gets, links followed.
std::string blas_path() {
  void* library = ::dlopen("libblas.so.3", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return "";
  std::string path;
  struct link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) {
    char real[PATH_MAX];
    path = ::realpath(map->l_name, real) != nullptr ? real : map->l_name;
  }
  ::dlclose(library);
  return path;
}

void print_blas() {
  const std::string path = blas_path();
  if (path.empty()) {
    std::puts("blas:           libblas.so.3 is not installed");
    return;
  }
  std::printf("blas:           %s\n", path.c_str());
  const bool fast = path.find("openblas") != std::string::npos ||
                    path.find("mkl") != std::string::npos ||
                    path.find("blis") != std::string::npos ||
                    path.find("atlas") != std::string::npos;
  if (!fast) {
    std::puts(
        "  warning: this looks like the reference BLAS, with which libtorch is "
        "8 to\n  20 times slower; install libopenblas0-openmp");
  }
}

void print_shared_memory() {
  struct statvfs room {};
  if (::statvfs("/dev/shm", &room) != 0) {
    std::puts("shared memory:  there is no /dev/shm");
    return;
  }
  const double mib = static_cast<double>(room.f_frsize) / (1 << 20);
  std::printf("shared memory:  %.0f MiB free of %.0f MiB\n",
              mib * static_cast<double>(room.f_bavail),
              mib * static_cast<double>(room.f_blocks));
}

int print_info() {
  std::printf("lockstep:       %s\n", version());
  std::printf("compiler:       %s\n", __VERSION__);
  std::fputs(describe_machine().c_str(), stdout);
  print_shared_memory();
  print_blas();
  std::puts("stores:         tcp, file, hash");
  std::string backends;
  for (const std::string& name : backend_names()) backends += " " + name;
  std::printf("backends:      %s\n", backends.c_str());
  std::printf("vectors:        %s\n", reduce_target());
  return 0;
}

}  // namespace

void add_info(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "info", "Versions, cores and how they would be bound, BLAS, memory");
  command->callback([&action] { action = print_info; });
}

}  // namespace lockstep::tool
