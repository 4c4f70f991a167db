// SPDX-License-Identifier: Apache-2.0
#include "lockstep/backend/init.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/backend/local.h"
#include "lockstep/launch/world.h"
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

BackendFactory factory_of(const std::string& name, const World& world) {
  const auto names = backend_names();
  LOCKSTEP_CHECK(name == "auto" || name == "local", UsageError,
                 "there is no backend '{}'; there are auto, {}", name,
                 fmt::join(names, ", "));
  LOCKSTEP_CHECK(
      world.size == 1, UsageError,
      "backend '{}' joins threads of one process, but this job has {} "
      "processes (started by {}); start one process and give it ranks with "
      "ranks_in_process",
      name, world.size, world.started_by);
  return make_local_factory();
}

}  // namespace

std::vector<std::string> backend_names() { return {"local"}; }

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
  const BackendFactory factory = factory_of(options.backend, world);
  trace::set_process_rank(world.rank * ranks);
  GroupOptions group;
  group.name = options.name;
  group.timeout = options.timeout;
  group.notice_after = options.notice_after;
  std::vector<std::shared_ptr<ProcessGroup>> groups;
  for (int i = 0; i < ranks; ++i) {
    groups.push_back(ProcessGroup::make(factory, world.store,
                                        world.rank * ranks + i,
                                        world.size * ranks, group));
  }
  return groups;
}

}  // namespace lockstep
