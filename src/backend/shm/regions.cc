// SPDX-License-Identifier: Apache-2.0
#include "backend/shm/regions.h"

#include <sys/mman.h>

#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

// The first page of a piece: whether its owner has dropped it.
std::atomic<uint32_t>& dropped(std::byte* file) {
  return *reinterpret_cast<std::atomic<uint32_t>*>(file);
}

// With many ranks the page tables of all for all would cost more time than the
// faults of those that are used.
constexpr int kMostPopulated = 8;

}  // namespace

Regions::Regions(const Hall& hall, int rank)
    : hall_(hall), rank_(rank), pieces_(1) {}

RegisteredMemory Regions::add(size_t bytes, const Show& show) {
  unmap_dropped();
  if (bytes == 0) return {};
  const size_t file_bytes = kPageBytes + whole_pages(bytes);
  const auto ranks = static_cast<size_t>(hall_.size());
  // All look at what is free before anybody takes any of it.
  const bool can_count =
      bytes <= std::numeric_limits<size_t>::max() / 2 / ranks;
  check_room(
      can_count ? file_bytes * ranks : std::numeric_limits<size_t>::max(),
      fmt::format("for {} bytes on each of {} ranks", bytes, ranks));
  show(0);
  const MemoryFile file = MemoryFile::reserved(file_bytes);
  auto own = std::make_shared<Mapping>(
      file.map(0, file_bytes, MemoryFile::Populate::kNow));
  const std::vector<int> descriptors = show(file.fd());
  Piece piece;
  std::optional<int> gone;
  for (int rank = 0; rank < hall_.size(); ++rank) {
    Mapping mapping;
    try {
      if (rank != rank_) {
        mapping =
            map_of(rank, descriptors[static_cast<size_t>(rank)], file_bytes);
      }
    } catch (const SystemError& error) {
      if (!is_gone(error)) throw;
      gone = rank;
      break;
    }
    piece.data.push_back((rank == rank_ ? own->data() : mapping.data()) +
                         kPageBytes);
    piece.mappings.push_back(std::move(mapping));
  }
  // All have opened the file, so it may be closed. A rank whose file is gone
  // has failed, and here all learn why; or it has ended, which is noticed here
  // unless it came before that.
  show(0);
  if (gone) {
    throw PeerError(fmt::format("rank {} died: process {} has ended without "
                                "leaving the group; look at its output",
                                *gone, hall_.entry(*gone).pid),
                    *gone);
  }
  pieces_.push_back(std::move(piece));
  return hold(pieces_.size() - 1, std::move(own), bytes);
}

Mapping Regions::map_of(int rank, int fd, size_t bytes) const {
  return MemoryFile::of_process(hall_.entry(rank).pid, fd)
      .map(0, bytes,
           hall_.size() <= kMostPopulated ? MemoryFile::Populate::kNow
                                          : MemoryFile::Populate::kOnUse);
}

RegisteredMemory Regions::hold(uint64_t region,
                               std::shared_ptr<Mapping> mapping, size_t bytes) {
  std::byte* const file = mapping->data();
  std::byte* const data = file + kPageBytes;
  {
    const std::lock_guard lock(own_->mutex);
    own_->ranges[data] = {region, bytes};
    ++own_->count;
  }
  auto drop = [own = own_, mapping = std::move(mapping), data](void*) mutable {
    {
      const std::lock_guard lock(own->mutex);
      own->ranges.erase(data);
      --own->count;
    }
    if (!own->keep_pages) {
      ::madvise(data, mapping->size() - kPageBytes, MADV_REMOVE);
    }
    dropped(mapping->data()).store(1, std::memory_order_release);
    mapping.reset();
  };
  return {std::shared_ptr<void>(data, std::move(drop)), data, bytes};
}

void Regions::unmap_dropped() {
  for (Piece& piece : pieces_) {
    for (size_t rank = 0; rank < piece.mappings.size(); ++rank) {
      Mapping& mapping = piece.mappings[rank];
      if (!mapping) continue;
      if (dropped(mapping.data()).load(std::memory_order_acquire) == 0)
        continue;
      mapping.reset();
      piece.data[rank] = nullptr;
    }
  }
}

MemoryRef Regions::ref_of(const Buffer& buffer) const {
  if (own_->count == 0 || buffer.data == nullptr) return {};
  const auto* const begin = static_cast<const std::byte*>(buffer.data);
  const std::lock_guard lock(own_->mutex);
  auto after = own_->ranges.upper_bound(begin);
  if (after == own_->ranges.begin()) return {};
  const auto& [data, range] = *std::prev(after);
  const auto offset = static_cast<size_t>(begin - data);
  if (offset + buffer.bytes() > range.bytes) return {};
  return {range.region, offset};
}

}  // namespace lockstep::detail
