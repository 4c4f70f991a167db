// SPDX-License-Identifier: Apache-2.0
#include "lockstep/backend/init.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/host.h"
#include "lockstep/backend/gloo.h"
#include "lockstep/backend/local.h"
#include "lockstep/backend/shm.h"
#include "lockstep/base/env.h"
#include "lockstep/base/thread.h"
#include "lockstep/launch/world.h"
#include "lockstep/store/prefix_store.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

World world_of(const InitOptions& options) {
  WorldOptions world;
  world.rank = options.rank;
  world.size = options.size;
  world.store = options.store;
  world.store_url = options.store_url;
  return find_world(world);
}

// What the program says, else the environment, else "auto".
std::string backend_of(const InitOptions& options) {
  if (options.backend != "auto") return options.backend;
  return env::text("LOCKSTEP_BACKEND").value_or("auto");
}

// Threads of one process have all memory in common; on one host shared memory
// reaches all ranks; the network reaches the rest.
BackendFactory factory_of(const std::string& name, const World& world,
                          const InitOptions& options) {
  if (name == "shm") return make_shm_factory();
  if (name == "gloo") return make_gloo_factory();
  if (name == "auto" && world.size > 1) {
    const auto meeting = std::make_shared<PrefixStore>(
        fmt::format("init/{}/", options.name), world.store);
    return detail::is_one_host(meeting, world.rank, world.size,
                               Deadline::in(options.timeout))
               ? make_shm_factory()
               : make_gloo_factory();
  }
  const auto names = backend_names();
  LOCKSTEP_CHECK(name == "auto" || name == "local", UsageError,
                 "there is no backend '{}'; there are auto, {}", name,
                 fmt::join(names, ", "));
  LOCKSTEP_CHECK(
      world.size == 1, UsageError,
      "backend '{}' joins threads of one process, but this job has {} "
      "processes; start one process and give it ranks with ranks_in_process, "
      "or choose 'shm' or 'gloo'",
      name, world.size);
  return make_local_factory();
}

}  // namespace

std::vector<std::string> backend_names() { return {"local", "shm", "gloo"}; }

std::shared_ptr<ProcessGroup> init(const InitOptions& options) {
  LOCKSTEP_CHECK(options.ranks_in_process == 1, UsageError,
                 "init() gives one group; for {} ranks in this process call "
                 "init_ranks()",
                 options.ranks_in_process);
  return init_ranks(options).front();
}

std::vector<std::shared_ptr<ProcessGroup>> init_ranks(
    const InitOptions& options) {
  const int ranks = options.ranks_in_process;
  LOCKSTEP_CHECK(ranks > 0, UsageError,
                 "ranks_in_process is {}; it is 1 or more", ranks);
  const World world = world_of(options);
  const BackendFactory factory =
      factory_of(backend_of(options), world, options);
  trace::set_process_rank(world.rank * ranks);
  GroupOptions group;
  group.name = options.name;
  group.timeout = options.timeout;
  group.notice_after = options.notice_after;
  // Side by side: a backend may wait for the other ranks.
  std::vector<std::shared_ptr<ProcessGroup>> groups(static_cast<size_t>(ranks));
  std::vector<std::exception_ptr> errors(groups.size());
  {
    std::vector<Thread> threads;
    threads.reserve(groups.size());
    for (int i = 0; i < ranks; ++i) {
      threads.emplace_back("init", [&, i] {
        const auto at = static_cast<size_t>(i);
        try {
          groups[at] =
              ProcessGroup::make(factory, world.store, world.rank * ranks + i,
                                 world.size * ranks, group);
        } catch (...) {
          errors[at] = std::current_exception();
        }
      });
    }
  }
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return groups;
}

}  // namespace lockstep
