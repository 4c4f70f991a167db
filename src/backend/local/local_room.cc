// SPDX-License-Identifier: Apache-2.0
#include "backend/local/local_room.h"

#include <algorithm>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "lockstep/collective/arena.h"

namespace lockstep::detail {
namespace {

constexpr std::align_val_t kCacheLine{64};

void* new_block(int size) {
  const size_t bytes = Arena::block_bytes(size, LocalRoom::tuning(size));
  void* const block = ::operator new(bytes, kCacheLine);
  std::memset(block, 0, bytes);
  return block;
}

}  // namespace

LocalRoom::LocalRoom(int size) : block_(new_block(size)), mail_(size) {}

LocalRoom::~LocalRoom() { ::operator delete(block_, kCacheLine); }

std::shared_ptr<LocalRoom> LocalHub::enter(const GroupPlace& place) {
  const std::lock_guard lock(mutex_);
  Meeting& meeting = meetings_[place.name];
  if (!meeting.room) {
    meeting.room = std::make_shared<LocalRoom>(place.size);
    meeting.came.resize(static_cast<size_t>(place.size));
  }
  LOCKSTEP_CHECK(meeting.came.size() == static_cast<size_t>(place.size),
                 MismatchError,
                 "rank {} says that group '{}' has {} ranks, others say {}",
                 place.rank, place.name, place.size, meeting.came.size());
  const auto rank = static_cast<size_t>(place.rank);
  LOCKSTEP_CHECK(!meeting.came[rank], UsageError,
                 "rank {} of group '{}' was made twice", place.rank,
                 place.name);
  meeting.came[rank] = true;
  meeting.room->mail().open(place.rank, place.bell);
  auto room = meeting.room;
  if (std::find(meeting.came.begin(), meeting.came.end(), false) ==
      meeting.came.end()) {
    meetings_.erase(place.name);
  }
  return room;
}

}  // namespace lockstep::detail
