// SPDX-License-Identifier: Apache-2.0
#include "backend/shm/hall.h"

#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "backend/host.h"
#include "backend/refusal.h"
#include "lockstep/base/bytes.h"
#include "lockstep/base/host_name.h"
#include "lockstep/store/prefix_store.h"
#include "lockstep/store/rendezvous.h"

namespace lockstep::detail {
namespace {

constexpr const char* kOfferKey = "shm/hall";

// What rank 0 offers, once it does.
ByteVector offer_in(Store& store, Deadline deadline,
                    const std::function<void()>& look) {
  const auto allowed = deadline.remaining();
  try {
    return get_looking(store, kOfferKey, deadline, look);
  } catch (const TimeoutError&) {
    // Or is it the store that does not answer? Then that is what to say.
    store.call({StoreOp::kCheck, {kOfferKey}, {}, 0}, deadline);
    LOCKSTEP_CHECK(!deadline.passed(), TimeoutError,
                   "rank 0 has not made the group after {}; is it running, and "
                   "does it use the same store?",
                   to_text(allowed));
    throw;
  }
}

}  // namespace

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): whole lines
struct Hall::Header {
  uint64_t cookie;  // tells it from whatever else a descriptor may mean
  alignas(64) FailureNote mail_failure;
};

// What rank 0 writes into the store.
struct Hall::Offer {
  std::string host = host_identity();
  std::string name = host_name();
  pid_t pid = ::getpid();
  int fd = -1;
  uint64_t cookie = new_cookie();
  ArenaTuning tuning;

  ByteVector encode() const {
    ByteWriter writer;
    writer.counted(host).counted(name);
    writer.u32(static_cast<uint32_t>(pid)).u32(static_cast<uint32_t>(fd));
    writer.u64(cookie).u64(tuning.one_phase_bytes).u64(tuning.window_bytes);
    return writer.take();
  }
  static Offer decode(ConstBytes bytes) {
    ByteReader reader(bytes);
    Offer offer;
    offer.host = to_string(reader.counted());
    offer.name = to_string(reader.counted());
    offer.pid = static_cast<pid_t>(reader.u32());
    offer.fd = static_cast<int>(reader.u32());
    offer.cookie = reader.u64();
    offer.tuning.one_phase_bytes = reader.u64();
    offer.tuning.window_bytes = reader.u64();
    LOCKSTEP_CHECK(reader.finished(), UsageError,
                   "what rank 0 wrote into the store makes no sense; do all "
                   "ranks use the same version of lockstep?");
    return offer;
  }
};

// Header, an entry per rank, a byte per pair of ranks; then, on a page of its
// own, the arena.
size_t Hall::arena_offset(int size) {
  const auto ranks = static_cast<size_t>(size);
  return whole_pages(sizeof(Header) + ranks * sizeof(HallEntry) +
                     ranks * ranks);
}

size_t Hall::bytes() const {
  return whole_pages(arena_offset(size_) + Arena::block_bytes(size_, tuning_));
}

Hall::Hall(const GroupPlace& place, const std::function<ArenaTuning()>& tuning)
    : size_(place.size) {
  LOCKSTEP_CHECK(place.store, UsageError,
                 "backend 'shm' needs a store in which its ranks meet");
  Store& store = *place.store;
  const Deadline deadline = Deadline::in(place.timeout);
  std::optional<MemoryFile> file;  // open until all have found it
  Refusal refusal(place, "shm/refused");
  const auto look = [&] { refusal.look(); };
  try {
    inbox_.emplace(size_);
    if (place.rank == 0) {
      tuning_ = tuning();
      check_room(bytes(), "for the shared pages of a group");
      file.emplace(MemoryFile::reserved(bytes()));
      store.set(kOfferKey, make(*file).encode());
    } else {
      enter(Offer::decode(offer_in(store, deadline, look)), look);
    }
    HallEntry& mine = entry(place.rank);
    mine.pid = ::getpid();
    mine.inbox_fd = inbox_->fd();
    mine.inbox_cookie = inbox_->cookie();
    CPU_ZERO(&mine.cores);
    ::sched_getaffinity(0, sizeof(mine.cores), &mine.cores);
  } catch (const Error&) {
    refusal.refuse(std::current_exception());
  }
  look();
  PrefixStore meeting("shm/", place.store);
  meet(meeting, place.rank, size_, deadline, std::chrono::seconds(10), look);
}

Hall::Offer Hall::make(MemoryFile& file) {
  mapping_ = file.map(0, bytes(), MemoryFile::Populate::kNow);
  Offer offer;
  offer.fd = file.fd();
  offer.tuning = tuning_;
  reinterpret_cast<Header*>(mapping_.data())->cookie = offer.cookie;
  return offer;
}

// Rank 0 may have given up meanwhile: then there is a better reason.
void Hall::enter(const Offer& offer, const std::function<void()>& look) {
  try {
    open(offer);
  } catch (const SystemError& error) {
    const int number = error.error_number();
    if (!is_gone(error) || number == EACCES || number == EPERM) throw;
    look();
    throw PeerError("rank 0 has ended, or has given up making the group", 0);
  }
}

void Hall::open(const Offer& offer) {
  LOCKSTEP_CHECK(
      offer.host == host_identity(), UsageError,
      "backend 'shm' joins the ranks of one host, but this one runs on '{}' "
      "and "
      "rank 0 on '{}' (or in other containers); choose another backend",
      host_name(), offer.name);
  tuning_ = offer.tuning;
  const MemoryFile file = MemoryFile::of_process(offer.pid, offer.fd);
  LOCKSTEP_CHECK(file.begins_with(offer.cookie), PeerError,
                 "process {} is not rank 0 any more", offer.pid);
  mapping_ = file.map(0, bytes(), MemoryFile::Populate::kNow);
}

HallEntry& Hall::entry(int rank) const {
  return reinterpret_cast<HallEntry*>(mapping_.data() + sizeof(Header))[rank];
}

FailureNote& Hall::mail_failure() const {
  return reinterpret_cast<Header*>(mapping_.data())->mail_failure;
}

std::atomic<uint8_t>& Hall::ring_open(int from, int to) const {
  auto* const flags = reinterpret_cast<std::atomic<uint8_t>*>(&entry(size_));
  return flags[static_cast<size_t>(from) * static_cast<size_t>(size_) +
               static_cast<size_t>(to)];
}

void* Hall::arena_block() const {
  return mapping_.data() + arena_offset(size_);
}

}  // namespace lockstep::detail
