// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/store/hash_store.h"
#include "support/rank_team.h"

namespace lockstep::testing {

// Counts how many ranks have come somewhere, without a word from the groups
// under test: all ranks see the same number, be they threads or processes.
//
//   Tally came(kind);
//   run_ranks(kind, 3, [&](ProcessGroup&) { came.add_one(); ... });
//
// Threads: any. Where ranks are processes, all of them make the same tallies.
class Tally {
 public:
  explicit Tally(const BackendKind& kind)
      : store_(kind.make_store ? kind.make_store()
                               : std::make_shared<HashStore>()) {}

  void add_one() { store_->add("count", 1); }
  int count() { return static_cast<int>(store_->add("count", 0)); }

 private:
  const std::shared_ptr<Store> store_;
};

}  // namespace lockstep::testing
