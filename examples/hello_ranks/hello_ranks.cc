// SPDX-License-Identifier: Apache-2.0
// Ranks find each other: each leaves a greeting in the store, waits until all
// are there, and rank 0 reads them out.
//
//   hello_ranks [RANKS]
//
// The first process serves the store and starts the ranks; each rank is a
// process of its own that gets everything it needs through its environment.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <lockstep/base/env.h>
#include <lockstep/lockstep.h>

using namespace std::chrono_literals;

namespace {

int run_rank(int rank, int size) {
  const auto port = *lockstep::env::integer("LOCKSTEP_PORT");
  const auto secret = *lockstep::env::text("LOCKSTEP_SECRET");
  const auto deadline = lockstep::Deadline::in(30s);
  lockstep::TcpStore store("127.0.0.1", static_cast<uint16_t>(port), secret);

  store.set("greeting/" + std::to_string(rank),
            "hello from rank " + std::to_string(rank) + " of " +
                std::to_string(size) + ", process " +
                std::to_string(::getpid()));
  lockstep::meet(store, rank, size, deadline);

  if (rank != 0) return 0;
  for (int i = 0; i < size; ++i) {
    const auto text = store.get("greeting/" + std::to_string(i), deadline);
    std::puts(lockstep::to_string(text).c_str());
  }
  std::printf("all %d ranks have met\n", size);
  return 0;
}

int start_ranks(int size) {
  const std::string secret = lockstep::make_secret();
  lockstep::TcpStoreServer server("127.0.0.1", 0, secret);
  ::setenv("LOCKSTEP_SECRET", secret.c_str(), 1);
  ::setenv("LOCKSTEP_PORT", std::to_string(server.port()).c_str(), 1);
  ::setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);

  std::vector<pid_t> ranks(size);
  for (int rank = 0; rank < size; ++rank) {
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    char name[] = "hello_ranks";
    char* arguments[] = {name, nullptr};
    if (::posix_spawn(&ranks[rank], "/proc/self/exe", nullptr, nullptr,
                      arguments, environ) != 0) {
      std::fprintf(stderr, "cannot start rank %d\n", rank);
      return 1;
    }
  }
  int failed = 0;
  for (pid_t rank : ranks) {
    int status = 0;
    ::waitpid(rank, &status, 0);
    if (status != 0) ++failed;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto rank = lockstep::env::integer("RANK");
    const auto size = lockstep::env::integer("WORLD_SIZE");
    if (rank && size) {
      return run_rank(static_cast<int>(*rank), static_cast<int>(*size));
    }
    const int ranks = argc > 1 ? std::atoi(argv[1]) : 4;
    if (argc > 2 || ranks < 1 || ranks > 1024) {
      std::fputs("usage: hello_ranks [RANKS], from 1 to 1024\n", stderr);
      return 2;
    }
    return start_ranks(ranks);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hello_ranks: %s\n", error.what());
    return 1;
  }
}
