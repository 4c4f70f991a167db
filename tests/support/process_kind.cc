// SPDX-License-Identifier: Apache-2.0
#include "support/process_kind.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lockstep/backend/gloo.h"
#include "lockstep/backend/shm.h"
#include "lockstep/base/env.h"
#include "lockstep/launch/world.h"
#include "lockstep/store/prefix_store.h"
#include "lockstep/store/rendezvous.h"
#include "support/support.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongest =
    120s;  // until all have come from what they did before

class Job {
 public:
  int size() const { return world_.size; }

  void meet_all() {
    PrefixStore meeting(fmt::format("meeting/{}", meetings_++), world_.store);
    meet(meeting, world_.rank, world_.size, Deadline::in(kLongest));
  }

  std::shared_ptr<Store> make_store() {
    return std::make_shared<PrefixStore>(fmt::format("part/{}", stores_++),
                                         world_.store);
  }

  Groups make_groups(int size, int ranks_each, const GroupOptions& options) {
    LOCKSTEP_CHECK(size <= world_.size * ranks_each, UsageError,
                   "a team of {} ranks, but this job has {} processes", size,
                   world_.size);
    const auto store = make_store();
    Groups groups(static_cast<size_t>(size));
    const int first = world_.rank * ranks_each;
    const int here = std::clamp(size - first, 0, ranks_each);
    run_threads(here, [&](int i) {
      const int rank = first + i;
      groups[static_cast<size_t>(rank)] =
          ProcessGroup::make(patient(factory_), store, rank, size, options);
    });
    meet_all();
    return groups;
  }

 private:
  const World world_ = find_world();
  const BackendFactory factory_ = env::text("LOCKSTEP_BACKEND") == "gloo"
                                      ? make_gloo_factory()
                                      : make_shm_factory();
  int meetings_ = 0;
  int stores_ = 0;
};

}  // namespace

std::optional<BackendKind> process_kind(int ranks_each) {
  static const auto job = std::make_shared<Job>();
  if (job->size() == 1) return std::nullopt;
  return BackendKind{"Processes",
                     [ranks_each](int size, const GroupOptions& options) {
                       return job->make_groups(size, ranks_each, options);
                     },
                     [] { job->meet_all(); }, [] { return job->make_store(); }};
}

}  // namespace lockstep::testing
