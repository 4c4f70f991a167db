// SPDX-License-Identifier: Apache-2.0
// A rank, for tests that stop it, kill it and starve it:
//
//   rank_worker STORE RANK SIZE HOW [ARGUMENT [BACKEND]]
//
//   play SEED        random collectives for ever
//   unwind SEED      messages and collectives for ever, freed when they fail;
//                    SEED % 3: messages alone, collectives alone, both
//   smoke            every kind of thing once
//   stop SEED        sums; goes on without a rank that is stopped
//   allocate BYTES   registered memory, reduced and checked
//   narrow BYTES     the same; rank 1 has address space for the group only
//   tiny_shm BYTES   the same, with 64 MB in /dev/shm
//   apart RANK       makes a group while RANK is in another pid namespace
//   fault PART       its part in a cell of the fault matrix
//
// It meets the others in the store served at STORE, which is HOST:PORT or a
// port of this host, by the secret LOCKSTEP_SECRET, works on BACKEND, which is
// shm, and prints how it ended: see tell_the_end(). Exit code 77: the system
// does not permit the setting.
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "lockstep/base/env.h"
#include "lockstep/net/address.h"
#include "support/rank_worker.h"
#include "support/unwinding.h"

namespace lockstep::testing {

std::shared_ptr<ProcessGroup> join(const Seat& seat, const std::string& name,
                                   Deadline::Duration timeout) {
  InitOptions options;
  options.backend = seat.backend;
  options.store = std::make_shared<PrefixStore>(name, seat.store);
  options.rank = seat.rank;
  options.size = seat.size;
  options.name = name;
  options.timeout = timeout;
  return init(options);
}

// One write(2): a line is there whole or not at all.
void say(const std::string& line) {
  const std::string whole = line + "\n";
  if (::write(1, whole.data(), whole.size()) < 0) std::abort();
}

void tell(const Error& error) { say(line_of(error)); }

void tell_cause(const AbortedError& error) {
  try {
    if (error.cause()) std::rethrow_exception(error.cause());
    tell(error);
  } catch (const Error& cause) {
    tell(cause);
  }
}

namespace {

using namespace std::chrono_literals;

constexpr int kNotPermitted = 77;

int not_permitted(const char* what) {
  say(fmt::format("skip cannot {}: {}", what, std::strerror(errno)));
  return kNotPermitted;
}

void allocate(ProcessGroup& group, size_t bytes) {
  const RegisteredMemory memory = group.allocate(bytes);
  const Buffer all = memory.buffer(DType::kFloat32, bytes / sizeof(float));
  auto* const values = static_cast<float*>(all.data);
  std::fill_n(values, all.count, 1.f);
  group.all_reduce(all)->wait();
  for (size_t i = 0; i < all.count; ++i) {
    LOCKSTEP_CHECK(values[i] == static_cast<float>(group.size()), InternalError,
                   "element {} is {}", i, values[i]);
  }
}

// Should the check before it not do its work, the memory is refused all the
// same: nobody may take what the machine does not have.
void forbid_large_files() {
  const rlimit limit{size_t{1} << 30, size_t{1} << 30};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, SIG_IGN);
}

// As `ulimit -v` does it, with 32 MB more than is used now.
void limit_address_space() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const size_t most =
      pages * static_cast<size_t>(::getpagesize()) + (size_t{32} << 20);
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_AS, &limit);
}

bool mount_small_shm() {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("none", "/dev/shm", "tmpfs", 0, "size=64m") == 0;
}

// As a container does it: the rest of the program is process 1 of its own
// namespace. Returns its exit code here, and nothing there.
std::optional<int> enter_pid_namespace() {
  if (::unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) {
    return not_permitted("make a pid namespace");
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("proc", "/proc", "proc", 0, nullptr) != 0) {
      ::_exit(not_permitted("mount its /proc"));
    }
    return std::nullopt;
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int run(Seat seat, const Address& store, const std::string& how,
        const std::string& word) {
  const size_t argument = std::strtoull(word.c_str(), nullptr, 10);
  if (how == "apart" && seat.rank == static_cast<int>(argument)) {
    // The leak sanitizer, which looks at the end, starts a process of its own:
    // it is lost in the namespace.
    if (const auto code = enter_pid_namespace()) ::_exit(*code);
  }
  if (how == "tiny_shm" && !mount_small_shm()) {
    return not_permitted("mount a small /dev/shm");
  }
  if (how == "allocate") forbid_large_files();
  seat.store = std::make_shared<TcpStore>(
      store.host, store.port, env::text("LOCKSTEP_SECRET").value_or(""));
  if (how == "fault") {
    play_fault(seat, word);
    return 0;
  }
  std::shared_ptr<ProcessGroup> group;
  tell_the_end([&] {
    if (how == "stop") {
      return sum_and_move_on(seat, static_cast<uint32_t>(argument));
    }
    group = join(seat, "world");
    say("ready");
    if (how == "narrow" && seat.rank == 1) limit_address_space();
    if (how == "play") {
      play_for_ever(*group, static_cast<uint32_t>(argument));
    } else if (how == "unwind") {
      const Traffic traffic{argument % 3 != 1, argument % 3 != 0};
      exchange_until_it_fails(*group, traffic, static_cast<uint32_t>(argument));
    } else if (how == "smoke") {
      smoke(*group);
    } else if (how != "apart") {
      allocate(*group, argument);
    }
  });
  // Some end without a word to the others, who are in the same trouble.
  if (how == "play" && argument % 2 == 1) ::_exit(0);
  // The leak sanitizer, which looks at the end, finds no way out of a
  // namespace.
  if (how == "apart") ::_exit(0);
  return 0;
}

}  // namespace
}  // namespace lockstep::testing

int main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc < 5) {
    lockstep::testing::say("usage: see the head of rank_worker.cc");
    return 2;
  }
  const std::string store = argv[1];
  lockstep::testing::Seat seat;
  seat.rank = std::atoi(argv[2]);
  seat.size = std::atoi(argv[3]);
  if (argc > 6) seat.backend = argv[6];
  return lockstep::testing::run(
      seat,
      lockstep::Address::parse(
          store.find(':') == std::string::npos ? "127.0.0.1:" + store : store),
      argv[4], argc > 5 ? argv[5] : "0");
}
