// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/shm/hall.h"
#include "lockstep/base/thread.h"
#include "lockstep/comm/registered_memory.h"

namespace lockstep::detail {

// The registered memory of a group, as one rank sees it: its own pieces, and
// where it has mapped those of the others. A piece is a memory file; the ranks
// make theirs together, so all give it the same number.
//
// Whoever drops its piece gives the pages back at once and marks it; the others
// unmap what is marked when the next piece is made.
//
// Threads: add and at by the one thread that runs operations; ref_of and the
//          end of a RegisteredMemory from any.
class Regions {
 public:
  Regions(const Hall& hall, int rank);

  // Makes a piece of `bytes` on every rank. `show` shows the others a number
  // of this rank's, waits for all, and returns theirs by rank.
  // Errors: SystemError when there is no room, PeerError when a rank has ended
  //         meanwhile, and those of `show`.
  using Show = std::function<std::vector<int>(int mine)>;
  RegisteredMemory add(size_t bytes, const Show& show);

  MemoryRef ref_of(const Buffer& buffer) const;
  std::byte* at(int rank, MemoryRef ref) const {
    return pieces_[ref.region].data[static_cast<size_t>(rank)] + ref.offset;
  }

  // The group has failed: a rank that was only stopped may still write, so
  // pages stay until all have gone.
  void keep_pages() noexcept { own_->keep_pages = true; }

 private:
  // One number's memory, of all ranks.
  struct Piece {
    std::vector<std::byte*> data;
    std::vector<Mapping> mappings;
  };
  // This rank's own pieces by their first byte; shared with their owners, who
  // may outlive the group.
  struct Own {
    struct Range {
      uint64_t region;
      size_t bytes;
    };
    mutable std::mutex mutex;
    std::map<const std::byte*, Range> ranges LOCKSTEP_GUARDED_BY(mutex);
    std::atomic<size_t> count{0};  // of ranges
    std::atomic<bool> keep_pages{false};
  };

  void unmap_dropped();
  Mapping map_of(int rank, int fd, size_t bytes) const;
  RegisteredMemory hold(uint64_t region, std::shared_ptr<Mapping> mapping,
                        size_t bytes);

  const Hall& hall_;
  const int rank_;
  std::vector<Piece> pieces_;  // by number; 0 is not used
  std::shared_ptr<Own> own_ = std::make_shared<Own>();
};

}  // namespace lockstep::detail
