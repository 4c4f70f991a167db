// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "backend/local/local_room.h"
#include "backend/plain_memory.h"
#include "lockstep/backend/local.h"
#include "lockstep/collective/arena.h"
#include "lockstep/collective/arena_patterns.h"

namespace lockstep {
namespace {

using detail::LocalHub;
using detail::LocalRoom;

// In one process an address means the same to every rank.
class LocalArena : public Arena {
 public:
  using Arena::Arena;

  MemoryRef ref_of(const Buffer& buffer) const override {
    return {1, reinterpret_cast<uintptr_t>(buffer.data)};
  }
  std::byte* at(int /*rank*/, MemoryRef ref) const override {
    return reinterpret_cast<std::byte*>(ref.offset);
  }
};

class LocalBackend : public Backend {
 public:
  LocalBackend(std::shared_ptr<LocalRoom> room, const GroupPlace& place)
      : room_(std::move(room)),
        arena_(room_->arena_block(), place.rank, place.size,
               WaitPolicy::for_ranks(place.size),
               LocalRoom::tuning(place.size)) {}

  ~LocalBackend() override {
    arena_.leave();
    room_->mail().close(arena_.rank());
  }

  const char* name() const override { return "local"; }

  void run(const CollectiveOp& op, Patience& patience) override {
    run_on_arena(arena_, op, patience);
  }

  std::unique_ptr<Transfer> send(Buffer buffer, int peer,
                                 uint32_t tag) override {
    return room_->mail().send(buffer, arena_.rank(), peer, tag);
  }
  std::unique_ptr<Transfer> recv(Buffer buffer, int peer_or_any,
                                 uint32_t tag) override {
    return room_->mail().recv(buffer, peer_or_any, arena_.rank(), tag);
  }

  // Plain pages: every thread sees them anyway.
  RegisteredMemory allocate(const CollectiveOp& op,
                            Patience& patience) override {
    // First the memory, then the meeting: all have theirs, or none.
    RegisteredMemory memory =
        detail::plain_memory(static_cast<size_t>(op.signature.dims[0]));
    run_on_arena(arena_, op, patience);
    return memory;
  }

  void check() const override {
    arena_.check();
    room_->mail().check(arena_.rank());
  }

  void interrupt(const Failure& reason) noexcept override {
    arena_.fail(reason);
    room_->mail().fail(reason);
  }

 private:
  const std::shared_ptr<LocalRoom> room_;
  LocalArena arena_;
};

}  // namespace

BackendFactory make_local_factory() {
  return [hub = std::make_shared<LocalHub>()](const GroupPlace& place) {
    return std::make_unique<LocalBackend>(hub->enter(place), place);
  };
}

std::vector<std::shared_ptr<ProcessGroup>> make_local_groups(
    int size, const GroupOptions& options) {
  const BackendFactory factory = make_local_factory();
  std::vector<std::shared_ptr<ProcessGroup>> groups;
  for (int rank = 0; rank < size; ++rank) {
    groups.push_back(ProcessGroup::make(factory, nullptr, rank, size, options));
  }
  return groups;
}

}  // namespace lockstep
