// SPDX-License-Identifier: Apache-2.0
// A rank that behaves as a test wants:
//
//   launch_worker fail HOW RANK before|after   RANK ends by HOW (kill, abort,
//                                    exit, throw) before or after they meet
//   launch_worker stubborn           ignores signals
//   launch_worker polite             prints the signal it gets, then ends
//   launch_worker family             starts a child and one that hides
//   launch_worker flaky ROUNDS       fails in the first ROUNDS rounds
//   launch_worker late               comes with the run id of round 0
//   launch_worker flood MIB          rank 0 prints so much, rank 1 a little
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

#include "lockstep/comm.h"

namespace {

using namespace lockstep;
using namespace std::chrono_literals;

void end_by(const std::string& how) {
  std::cout << "last words of this rank" << std::endl;
  if (how == "kill") ::raise(SIGKILL);
  if (how == "abort") std::abort();
  if (how == "exit") std::exit(3);
  throw std::runtime_error("thrown on purpose");
}

void fail(const std::string& how, int rank, bool before) {
  const World world = find_world();
  if (before && world.rank == rank) end_by(how);
  meet(*world.store, world.rank, world.size, Deadline::in(60s));
  if (!before && world.rank == rank) end_by(how);
  world.store->wait({"never"}, Deadline::in(60s));
}

void wait_for_the_end() {
  std::cout << "ready" << std::endl;
  for (;;) ::pause();
}

std::atomic<int> got{0};

void polite() {
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    std::signal(number, [](int n) { got = n; });
  }
  std::cout << "ready" << std::endl;
  while (got == 0) std::this_thread::sleep_for(5ms);
  std::cout << "told to end by signal " << got << std::endl;
}

void family() {
  std::string command =
      "sleep 1000 & setsid sleep 1000 & echo ready; wait; sleep 1000";
  std::string shell = "/bin/sh";
  std::string option = "-c";
  char* arguments[] = {shell.data(), option.data(), command.data(), nullptr};
  pid_t child = 0;
  ::posix_spawn(&child, shell.c_str(), nullptr, nullptr, arguments, environ);
  for (;;) ::pause();
}

void flaky(int rounds) {
  const World world = find_world();
  meet(*world.store, world.rank, world.size, Deadline::in(60s));
  std::cout << "round " << world.restart_count << " has met" << std::endl;
  if (world.restart_count < rounds && world.rank == 1) std::exit(7);
  if (world.restart_count < rounds) {
    world.store->wait({"never"}, Deadline::in(60s));
  }
}

void late() {
  const World world = find_world();
  if (world.restart_count == 0) std::exit(1);
  const std::string now = std::getenv("LOCKSTEP_RUN_ID");
  const std::string then = now.substr(0, now.rfind('.')) + ".0";
  ::setenv("LOCKSTEP_RUN_ID", then.c_str(), 1);
  try {
    find_world();
    std::cout << "was let in" << std::endl;
  } catch (const MismatchError& error) {
    std::cout << "turned away: " << error.what() << std::endl;
  }
}

void flood(int mib) {
  const World world = find_world();
  if (world.rank == 0) {
    const std::string line(99, 'f');
    for (int64_t left = int64_t{mib} << 20; left > 0; left -= 100) {
      std::cout << line << '\n';
    }
    world.store->set("flooded", "");
    return;
  }
  Deadline::Duration slowest{0};
  while (!world.store->check({"flooded"})) {
    const auto start = Deadline::Clock::now();
    std::cout << "a line of the other rank" << std::endl;
    slowest = std::max(slowest, Deadline::Clock::now() - start);
    std::this_thread::sleep_for(2ms);
  }
  std::cout
      << "slowest "
      << std::chrono::duration_cast<std::chrono::milliseconds>(slowest).count()
      << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "fail" && argc == 5) {
    fail(argv[2], std::atoi(argv[3]), std::string(argv[4]) == "before");
  } else if (what == "stubborn") {
    for (int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, SIG_IGN);
    wait_for_the_end();
  } else if (what == "polite") {
    polite();
  } else if (what == "family") {
    family();
  } else if (what == "flaky" && argc == 3) {
    flaky(std::atoi(argv[2]));
  } else if (what == "late") {
    late();
  } else if (what == "flood" && argc == 3) {
    flood(std::atoi(argv[2]));
  } else {
    std::fputs("usage: see the head of launch_worker.cc\n", stderr);
    return 2;
  }
  return 0;
}
