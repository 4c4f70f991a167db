// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/world.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>

#include <fmt/format.h>

#include "launch/place.h"
#include "launch/rank0_store.h"
#include "launch/round.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/launch/secret_file.h"
#include "lockstep/launch/store_url.h"
#include "lockstep/store/hash_store.h"
#include "lockstep/store/prefix_store.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

using detail::Place;
using detail::Starter;

// A directory for files that live as long as a job, for this user alone.
std::string run_time_directory() {
  const auto usable = [](const std::string& path) {
    struct stat info {};
    return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
           info.st_uid == ::getuid() && (info.st_mode & 0077) == 0 &&
           ::access(path.c_str(), W_OK) == 0;
  };
  const std::string given = env::text("XDG_RUNTIME_DIR").value_or("");
  if (!given.empty() && usable(given)) return given;
  const std::string usual = fmt::format("/run/user/{}", ::getuid());
  if (usable(usual)) return usual;
  const std::string own = fmt::format("/tmp/lockstep-{}", ::getuid());
  if (::mkdir(own.c_str(), 0700) != 0 && errno != EEXIST) {
    throw SystemError(fmt::format("cannot make the directory '{}'", own),
                      errno);
  }
  LOCKSTEP_CHECK(usable(own), UsageError,
                 "directory '{}' is not this user's alone; set "
                 "XDG_RUNTIME_DIR to one that is",
                 own);
  return own;
}

std::string file_name_of(std::string job_id) {
  for (char& c : job_id) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.') c = '-';
  }
  // A file name has its limit; what tells jobs apart stands at the end.
  constexpr size_t kMost = 200;
  if (job_id.size() > kMost) job_id.erase(0, job_id.size() - kMost);
  return "lockstep-" + job_id;
}

std::shared_ptr<Store> find_store(const Place& place,
                                  const WorldOptions& given) {
  if (given.store) return given.store;
  StoreUrlOptions options;
  options.secret = secret_from_environment().value_or("");
  options.timeout = given.timeout;
  options.expected_ranks = place.size;
  if (!place.job_id.empty()) {
    options.run_id = fmt::format("{}.{}", place.job_id, place.restart_count);
  }
  std::string url = given.store_url;
  if (url.empty()) url = env::text("LOCKSTEP_STORE").value_or("");
  LOCKSTEP_CHECK(place.size == 1 || url.compare(0, 7, "hash://") != 0,
                 UsageError,
                 "rank {} of {} cannot meet the others in a store of its own "
                 "process ({})",
                 place.rank, place.size, url);
  if (!url.empty()) return open_store(url, options);
  if (place.size == 1) return std::make_shared<HashStore>();
  switch (place.starter) {
    case Starter::kNobody:
    case Starter::kLockstep:
      throw UsageError(fmt::format(
          "rank {} of {} has no store to meet the others in; set "
          "LOCKSTEP_STORE, or start the program with `lockstep run`",
          place.rank, place.size));
    case Starter::kTorchrun:
      return detail::open_rank0_store(place, options);
    case Starter::kOpenMpi:
    case Starter::kMpich:
    case Starter::kSlurm:
      break;
  }
  if (!place.is_one_host()) return detail::open_rank0_store(place, options);
  return open_store(
      "file://" + run_time_directory() + "/" + file_name_of(place.job_id),
      options);
}

}  // namespace

World find_world(const WorldOptions& options) {
  LOCKSTEP_TRACE_SCOPE("find_world", "launch");
  Place place = detail::read_place();
  if (options.size && !options.rank && place.starter == Starter::kNobody) {
    throw UsageError("a world size was given, but no rank");
  }
  if (options.rank) place.rank = *options.rank;
  if (options.size) place.size = *options.size;
  LOCKSTEP_CHECK(place.size > 0 && place.rank >= 0 && place.rank < place.size,
                 UsageError, "rank {} is not in 0..{} of a world of {}",
                 place.rank, place.size - 1, place.size);
  World world;
  world.rank = place.rank;
  world.size = place.size;
  world.local_rank = place.local_rank;
  world.local_size = place.local_size;
  world.node_rank = place.node_rank;
  world.run_id = place.job_id;
  world.restart_count = place.restart_count;
  world.started_by = to_text(place.starter);
  world.store = find_store(place, options);
  if (place.starter == Starter::kLockstep && !place.job_id.empty()) {
    detail::check_round(*world.store, place.job_id);
  }
  if (!place.job_id.empty()) {
    world.store = std::make_shared<PrefixStore>(
        fmt::format("run/{}.{}", place.job_id, place.restart_count),
        world.store);
  }
  return world;
}

}  // namespace lockstep
