// SPDX-License-Identifier: Apache-2.0
// What fault tests start, stop and kill:
//
//   store_worker serve SECRET [HOST]   serves a store, prints its port
//   store_worker reach SECRET HOST PORT BYTES SECONDS
//                                      sets so many bytes in a store, prints
//                                      how many seconds it took, or why it
//                                      could not in time
//   store_worker write PATH NAME       sets NAME/0, NAME/1, ... in a file store
//                                      and prints each once acknowledged
//   store_worker fill DIRECTORY        fills a small file system of its own
//                                      through a file store
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "lockstep/comm.h"

namespace {

using namespace lockstep;
using namespace std::chrono_literals;

int serve(const std::string& secret, const std::string& host) {
  TcpStoreServer server(host, 0, secret);
  std::printf("%u\n", static_cast<unsigned>(server.port()));
  std::fflush(stdout);
  for (;;) ::pause();
}

int reach(const std::string& secret, const std::string& host, uint16_t port,
          size_t bytes, std::chrono::seconds time) {
  TcpStoreOptions options;
  options.connect_timeout = time;
  options.timeout = time;
  TcpStore store(host, port, secret, options);
  const auto begin = Deadline::Clock::now();
  store.set("value", std::string(bytes, 'v'));
  const std::chrono::duration<double> took = Deadline::Clock::now() - begin;
  std::printf("%g\n", took.count());
  return 0;
}

int write(const std::string& path, const std::string& name) {
  FileStoreOptions options;
  options.run_id = "kill";
  FileStore store(path, options);
  const std::string value(3000, 'v');
  for (int i = 0;; ++i) {
    const std::string number = std::to_string(i);
    store.set(name + "/" + number, number + value);
    // One write(2) per line: a line is there whole or not at all.
    const std::string line = number + "\n";
    if (::write(1, line.data(), line.size()) < 0) return 1;
  }
}

// Exit codes: 0 as it should be, 1 not so, 77 no file system could be made.
int fill(const std::string& directory) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", directory.c_str(), "tmpfs", 0, "size=256k") != 0) {
    std::printf("cannot make a file system: %s\n", std::strerror(errno));
    return 77;
  }
  FileStore store(directory + "/store", {});
  const std::string value(10000, 'x');
  int stored = 0;
  for (;; ++stored) {
    try {
      store.set("k" + std::to_string(stored), std::to_string(stored) + value);
    } catch (const SystemError& error) {
      std::printf("%s\n", error.what());
      if (error.error_number() != ENOSPC || stored < 10) return 1;
      break;
    }
  }
  // Nothing acknowledged is lost, here and for a new handle, the failed set
  // has left nothing, and small changes still fit.
  const auto intact = [&](Store& handle) {
    for (int i = 0; i < stored; ++i) {
      const auto text = to_string(handle.get("k" + std::to_string(i)));
      if (text != std::to_string(i) + value) return false;
    }
    return !handle.check({"k" + std::to_string(stored)});
  };
  FileStore second(directory + "/store", {});
  store.add("small", 1);
  const bool good =
      intact(store) && intact(second) && to_string(second.get("small")) == "1";
  std::printf("%d stored before it was full\n", stored);
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string what = argc > 1 ? argv[1] : "";
  try {
    if (what == "serve" && argc == 3) return serve(argv[2], "127.0.0.1");
    if (what == "serve" && argc == 4) return serve(argv[2], argv[3]);
    if (what == "reach" && argc == 7) {
      return reach(argv[2], argv[3], static_cast<uint16_t>(std::stoi(argv[4])),
                   std::stoul(argv[5]),
                   std::chrono::seconds(std::stoi(argv[6])));
    }
    if (what == "write" && argc == 4) return write(argv[2], argv[3]);
    if (what == "fill" && argc == 3) return fill(argv[2]);
  } catch (const std::exception& error) {
    std::printf("error: %s\n", error.what());
    return 1;
  }
  std::fputs("usage: see the head of store_worker.cc\n", stderr);
  return 2;
}
