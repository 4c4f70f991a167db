// SPDX-License-Identifier: Apache-2.0
// Ranks meet through the store, and rank 0 prints who they are, where they run
// and on which cores.
//
//   lockstep run -n 4 -- ./hello_ranks
//
// It works as well under torchrun, mpirun and srun, and alone.
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include <lockstep/comm.h>

using namespace std::chrono_literals;

namespace {

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string cores_of_this_process() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return "?";
  std::string text;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) text += " " + std::to_string(cpu);
  }
  return text;
}

std::string key_of(int rank) { return "greeting/" + std::to_string(rank); }

void greet() {
  const lockstep::World world = lockstep::find_world();
  const auto deadline = lockstep::Deadline::in(60s);

  const char* threads = std::getenv("OMP_NUM_THREADS");
  world.store->set(key_of(world.rank),
                   "rank " + std::to_string(world.rank) + " of " +
                       std::to_string(world.size) + ": host " + host_name() +
                       ", process " + std::to_string(::getpid()) + ", cores" +
                       cores_of_this_process() + ", threads " +
                       (threads != nullptr ? threads : "not set"));
  lockstep::meet(*world.store, world.rank, world.size, deadline);

  if (world.rank == 0) {
    for (int rank = 0; rank < world.size; ++rank) {
      const auto text = world.store->get(key_of(rank), deadline);
      std::puts(lockstep::to_string(text).c_str());
    }
    std::printf("all %d ranks have met (started by %s)\n", world.size,
                world.started_by.c_str());
  }
}

}  // namespace

int main() {
  try {
    greet();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hello_ranks: %s\n", error.what());
    return 1;
  }
}
