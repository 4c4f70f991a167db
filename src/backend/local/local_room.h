// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/local/mailroom.h"
#include "lockstep/base/thread.h"
#include "lockstep/collective/arena.h"
#include "lockstep/comm/backend.h"

namespace lockstep::detail {

// What the ranks of one local group share.
class LocalRoom {
 public:
  explicit LocalRoom(int size);
  ~LocalRoom();
  LocalRoom(const LocalRoom&) = delete;
  LocalRoom& operator=(const LocalRoom&) = delete;

  // Every thread sees all memory: there is no stage.
  static ArenaTuning tuning(int size) {
    return ArenaTuning::for_ranks(size, false);
  }
  void* arena_block() const { return block_; }
  Mailroom& mail() { return mail_; }

 private:
  void* const block_;
  Mailroom mail_;
};

// Where the ranks of a group find the room they share, by its name.
//
// Threads: any. A room is kept until all its ranks have come.
class LocalHub {
 public:
  // Errors: UsageError when the rank came before; MismatchError when another
  //         rank gave another size.
  std::shared_ptr<LocalRoom> enter(const GroupPlace& place);

 private:
  struct Meeting {
    std::shared_ptr<LocalRoom> room;
    std::vector<bool> came;
  };

  std::mutex mutex_;
  std::map<std::string, Meeting> meetings_ LOCKSTEP_GUARDED_BY(mutex_);
};

}  // namespace lockstep::detail
