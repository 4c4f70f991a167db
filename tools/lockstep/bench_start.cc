// SPDX-License-Identifier: Apache-2.0
#include "bench_start.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <mutex>

#include <fmt/format.h>

#include "bench_rank.h"
#include "lockstep/backend/init.h"
#include "lockstep/base/error.h"
#include "lockstep/base/thread.h"
#include "lockstep/launch/launcher.h"
#include "lockstep/launch/rank_cpus.h"
#include "lockstep/launch/world.h"

namespace lockstep::tool {
namespace {

InitOptions init_options(const BenchOptions& options, const World& world) {
  InitOptions init;
  init.backend = options.backend;
  init.timeout = options.timeout;
  init.name = "bench";
  init.store = world.store;
  init.rank = world.rank;
  init.size = world.size;
  return init;
}

int be_a_rank(const BenchOptions& options, const World& world) {
  LOCKSTEP_CHECK(options.ranks == 0 || options.ranks == world.size, UsageError,
                 "-n {}, but this is one of the {} ranks that {} has started; "
                 "leave -n out",
                 options.ranks, world.size, world.started_by);
  const auto group = init(init_options(options, world));
  const int code =
      bench_rank(options, *group, {false, world.local_size == world.size});
  group->shutdown(Deadline::in(options.timeout));
  return code;
}

void bind_this_thread(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  }
  if (::sched_setaffinity(0, sizeof set, &set) != 0) {
    throw SystemError("cannot bind a thread to its cpus", errno);
  }
}

// The first error of any rank ends the others, and is the one that is thrown.
int run_threads(const BenchOptions& options, const World& world,
                const std::vector<std::vector<int>>& cpus) {
  InitOptions init = init_options(options, world);
  init.backend = "local";
  init.ranks_in_process = static_cast<int>(cpus.size());
  const auto groups = init_ranks(init);
  std::mutex mutex;
  std::exception_ptr error;
  int code = 0;
  std::vector<Thread> threads;
  for (size_t rank = 0; rank < groups.size(); ++rank) {
    threads.emplace_back(fmt::format("rank {}", rank), [&, rank] {
      try {
        bind_this_thread(cpus[rank]);
        const int mine = bench_rank(options, *groups[rank], {true, true});
        const std::lock_guard lock(mutex);
        code = std::max(code, mine);
      } catch (...) {
        {
          const std::lock_guard lock(mutex);
          if (!error) error = std::current_exception();
        }
        groups[rank]->abort("another rank of the benchmark failed");
      }
    });
  }
  threads.clear();
  if (error) std::rethrow_exception(error);
  return code;
}

int launch(const BenchOptions& options, int ranks,
           const std::vector<std::string>& words) {
  RunOptions run_options;
  run_options.command = {std::filesystem::read_symlink("/proc/self/exe")};
  run_options.command.insert(run_options.command.end(), words.begin(),
                             words.end());
  run_options.ranks = ranks;
  run_options.bind = options.bind;
  run_options.backend = options.backend;
  run_options.prefix = false;
  return run(run_options);
}

// Whether ranks are to be threads: when told, and by itself where there is no
// backend between processes.
bool wants_threads(const BenchOptions& options) {
  if (options.backend != "auto") return options.backend == "local";
  const auto names = backend_names();
  return std::all_of(names.begin(), names.end(),
                     [](const auto& name) { return name == "local"; });
}

}  // namespace

int start_bench(const BenchOptions& options,
                const std::vector<std::string>& words) {
  const World world = find_world();
  if (world.size > 1) return be_a_rank(options, world);
  const auto cpus = rank_cpus(options.ranks, options.bind);
  const int ranks = static_cast<int>(cpus.size());
  sizes_for(options, ranks);  // complain here, not on every rank
  // One rank needs no job; it would not know that it is in one, and start it
  // again.
  if (ranks == 1) return be_a_rank(options, world);
  if (wants_threads(options)) return run_threads(options, world, cpus);
  return launch(options, ranks, words);
}

}  // namespace lockstep::tool
