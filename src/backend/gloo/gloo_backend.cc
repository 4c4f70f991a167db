// SPDX-License-Identifier: Apache-2.0
#include <gloo/transport/tcp/device.h>
#include <sched.h>

#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "backend/gloo/board.h"
#include "backend/gloo/bulk.h"
#include "backend/gloo/collectives.h"
#include "backend/gloo/devices.h"
#include "backend/gloo/exchange.h"
#include "backend/gloo/mail.h"
#include "backend/gloo/messages.h"
#include "backend/gloo/signals.h"
#include "backend/gloo/wire.h"
#include "backend/gloo/wire_connect.h"
#include "backend/plain_memory.h"
#include "backend/refusal.h"
#include "lockstep/backend/gloo.h"
#include "lockstep/base/env.h"
#include "lockstep/base/version.h"
#include "lockstep/store/prefix_store.h"
#include "lockstep/store/rendezvous.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using detail::Board;
using detail::Bulk;
using detail::Exchange;
using detail::GlooDevices;
using detail::GlooStep;
using detail::GlooTuning;
using detail::Mail;
using detail::Refusal;
using detail::Wire;
using detail::Word;

constexpr std::array kAlgorithms = {GlooAlgorithm::kRing, GlooAlgorithm::kBcube,
                                    GlooAlgorithm::kDirect};

const char* to_text(GlooAlgorithm algorithm) {
  constexpr std::array kNames = {"ring", "bcube", "direct"};
  return kNames.at(static_cast<size_t>(algorithm));
}

GlooAlgorithm algorithm_of(const GlooOptions& options) {
  if (options.algorithm) return *options.algorithm;
  const auto name = env::text("LOCKSTEP_GLOO_ALGORITHM").value_or("ring");
  for (const auto algorithm : kAlgorithms) {
    if (name == to_text(algorithm)) return algorithm;
  }
  throw UsageError(fmt::format(
      "LOCKSTEP_GLOO_ALGORITHM is '{}'; it is ring, bcube or direct", name));
}

GlooTuning tuning_of(const GlooOptions& options) {
  GlooTuning tuning{options.short_bytes, options.window_bytes};
  LOCKSTEP_CHECK(tuning.short_bytes <= Wire::kMostPayload, UsageError,
                 "GlooOptions::short_bytes is {}; it is {} at most",
                 tuning.short_bytes, Wire::kMostPayload);
  LOCKSTEP_CHECK(tuning.window_bytes >= 64 && tuning.window_bytes % 64 == 0,
                 UsageError,
                 "GlooOptions::window_bytes is {}; it is a multiple of 64",
                 tuning.window_bytes);
  return tuning;
}

// While it lives, threads that are started here run on other cores than this
// rank's, or, where it has them all, on any. Gloo's threads ask again and again
// for a lock that the rank's own thread may hold: on one core each time costs a
// tick of the scheduler, ten times what the operation would take.
class Elsewhere {
 public:
  Elsewhere() {
    CPU_ZERO(&before_);
    ::sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t all;
    std::memset(&all, 0xFF, sizeof(all));
    cpu_set_t others;
    CPU_XOR(&others, &all, &before_);
    if (::sched_setaffinity(0, sizeof(others), &others) != 0) {
      ::sched_setaffinity(0, sizeof(all), &all);
    }
  }
  ~Elsewhere() { ::sched_setaffinity(0, sizeof(before_), &before_); }
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;

 private:
  cpu_set_t before_{};
};

// What the groups made by one factory share: Gloo's devices, a thread each.
class Hub {
 public:
  explicit Hub(GlooOptions options) : options_(std::move(options)) {}

  struct Equipment {
    std::vector<std::string> addresses;  // the wire listens on the first
    GlooDevices devices;
    GlooAlgorithm algorithm;
    GlooTuning tuning;

    // What all ranks must have alike.
    std::string terms() const {
      return fmt::format(
          "lockstep {}, {} mesh{}, algorithm '{}', {} bytes on the wire, "
          "windows "
          "of {}",
          version(), devices.size(), devices.size() == 1 ? "" : "es",
          to_text(algorithm), tuning.short_bytes, tuning.window_bytes);
    }
  };

  // Made when it is first asked for.
  Equipment equipment() {
    const std::lock_guard lock(mutex_);
    if (!equipment_) {
      LOCKSTEP_CHECK(options_.threads > 0, UsageError,
                     "GlooOptions::threads is {}; it is 1 or more",
                     options_.threads);
      const auto chosen = detail::chosen_devices(options_);
      Equipment made{{}, {}, algorithm_of(options_), tuning_of(options_)};
      for (const auto& device : chosen) {
        made.addresses.push_back(device.address);
      }
      const Elsewhere elsewhere;
      const detail::WithoutSignals without_signals;
      for (int i = 0; i < options_.threads; ++i) {
        for (const auto& device : chosen) {
          made.devices.push_back(make_device(device));
        }
      }
      equipment_ = std::move(made);
    }
    return *equipment_;
  }

 private:
  static std::shared_ptr<gloo::transport::Device> make_device(
      const GlooDevice& device) {
    gloo_device_of_host(device.address);  // says more, and Gloo leaks then
    try {
      return gloo::transport::tcp::CreateDevice(device.address.c_str());
    } catch (const std::exception& error) {
      throw UsageError(
          fmt::format("Gloo cannot use the address '{}' of this host: {}",
                      device.address, error.what()));
    }
  }

  const GlooOptions options_;
  std::mutex mutex_;
  std::optional<Equipment> equipment_ LOCKSTEP_GUARDED_BY(mutex_);
};

class GlooBackend : public Backend, private Wire::Handler {
 public:
  GlooBackend(std::shared_ptr<Hub> hub, const GroupPlace& place)
      : hub_(std::move(hub)),
        bell_(place.bell),
        timeout_(place.timeout),
        board_(place.rank, place.size),
        mail_(board_, place.bell) {
    const Deadline deadline = Deadline::in(place.timeout);
    LOCKSTEP_CHECK(place.store || place.size == 1, UsageError,
                   "backend 'gloo' needs a store in which its ranks meet");
    if (place.size == 1) {
      equip(std::vector<Socket>(1), {SIZE_MAX, 0});
    } else {
      connect(place, deadline);
    }
  }

  ~GlooBackend() override {
    const bool healthy = !board_.has_failed();
    if (healthy) bulk_->wait_received(Deadline::in(kFarewell));
    if (healthy) wire_->send_all(one(Word::kLeave));
    // What has been sent is delivered, as long as somebody takes it.
    wire_->close(Deadline::in(healthy ? timeout_ : kFailedFarewell),
                 healthy ? kFarewell : kFailedFarewell);
  }

  const char* name() const override { return "gloo"; }

  void run(const CollectiveOp& op, Patience& patience) override {
    const GlooStep step{*exchange_, op, patience};
    switch (op.kind) {
      case OpKind::kAllReduce:
        return all_reduce(step, algorithm_);
      case OpKind::kReduce:
        return reduce_to_root(step);
      case OpKind::kReduceScatter:
        return reduce_scatter(step);
      case OpKind::kBroadcast:
        return broadcast(step);
      case OpKind::kAllGather:
        return all_gather(step);
      case OpKind::kGather:
        return gather(step);
      case OpKind::kScatter:
        return scatter(step);
      case OpKind::kAllToAll:
        return all_to_all(step);
      case OpKind::kBarrier:
      case OpKind::kAllocate:
        return barrier(step);
      case OpKind::kSend:
      case OpKind::kRecv:
      case OpKind::kLocalStep:
        break;
    }
    LOCKSTEP_ASSERT(false && "not a collective");
  }

  std::unique_ptr<Transfer> send(Buffer buffer, int peer,
                                 uint32_t tag) override {
    return mail_.send(buffer, peer, tag);
  }
  std::unique_ptr<Transfer> recv(Buffer buffer, int peer_or_any,
                                 uint32_t tag) override {
    return mail_.recv(buffer, peer_or_any, tag);
  }

  RegisteredMemory allocate(const CollectiveOp& op,
                            Patience& patience) override {
    // First the memory, then the meeting: all have theirs, or none.
    RegisteredMemory memory =
        detail::plain_memory(static_cast<size_t>(op.signature.dims[0]));
    run(op, patience);
    return memory;
  }

  void check() const override { board_.check(); }

  void interrupt(const Failure& reason) noexcept override { fail(reason); }

 private:
  // How long a rank that goes stays for those who have not read all yet; after
  // a failure there is little to read.
  static constexpr auto kFarewell = 5s;
  static constexpr auto kFailedFarewell = 500ms;

  static ByteVector one(Word word) { return {static_cast<std::byte>(word)}; }

  void connect(const GroupPlace& place, Deadline deadline) {
    Refusal refusal(place, "gloo/refused");
    const auto look = [&] { refusal.look(); };
    std::optional<Hub::Equipment> equipment;
    try {
      equipment = hub_->equipment();
      algorithm_ = equipment->algorithm;
    } catch (const Error&) {
      refusal.refuse(std::current_exception());
    }
    look();
    PrefixStore meeting("gloo/", place.store);
    meet(meeting, place.rank, place.size, deadline, 10s, look);
    try {
      equip(detail::connect_wire(place, equipment->addresses,
                                 equipment->terms(), deadline, refusal),
            equipment->tuning);
      bulk_->connect(place, equipment->devices, deadline, look);
      // Nobody goes before all have come: it would look like a refusal.
      Patience patience(deadline.remaining());
      exchange_->meet(patience);
    } catch (const Error&) {
      const auto error = std::current_exception();
      refusal.refuse(error);
      if (wire_) {
        fail(failure_of(error, place.rank));
        wire_->close(Deadline::in(kFailedFarewell), kFailedFarewell);
      }
      throw;
    }
  }

  void equip(std::vector<Socket> connections, GlooTuning tuning) {
    Wire::Handler& handler = *this;
    wire_.emplace(std::move(connections), board_.rank(), handler);
    bulk_.emplace(board_, *wire_);
    exchange_.emplace(board_, *wire_, *bulk_, tuning);
    mail_.attach(*wire_);
    wire_->start();
  }

  // Here and on the others, who pass it on in turn: whoever ends because of it
  // must not be taken for its cause by somebody who has not heard of it yet.
  void fail(const Failure& failure) noexcept {
    if (board_.has_failed()) return;
    // First told, then known: knowing it, this process may end.
    wire_->send_all(one(Word::kFailure), encode(failure));
    mail_.close();
    board_.fail(failure);
    bulk_->close();
    bell_->ring();
  }

  void on_message(int peer, ConstBytes message) override {
    LOCKSTEP_CHECK(!message.empty(), PeerError, "rank {} sent nothing", peer);
    const auto word = static_cast<Word>(message.data()[0]);
    const ConstBytes body = message.from(1);
    switch (word) {
      case Word::kPart: {
        const auto length = ByteReader(body).u64();
        LOCKSTEP_CHECK(length <= Exchange::kMostPart, PeerError,
                       "a message of {} bytes, which is too long", length);
        return board_.begin_part(peer, length, body.from(sizeof(length)));
      }
      case Word::kMore:
        return board_.add_to_part(peer, body);
      case Word::kReceived:
        return board_.set_received(peer, ByteReader(body).u64());
      case Word::kQuestion: {
        ByteWriter answer;
        answer.u8(static_cast<uint8_t>(Word::kAnswer)).raw(body);
        return wire_->send(peer, answer.bytes());
      }
      case Word::kAnswer:
        return board_.answer(peer, ByteReader(body).u64());
      case Word::kFailure:
        fail(decode_failure(body));
        return board_.leave(peer);
      case Word::kLeave:
        board_.leave(peer);
        return bell_->ring();
      default:
        return mail_.on_message(peer, word, body);
    }
  }

  void on_lost(int peer, const std::string& why) override {
    if (board_.has_left(peer)) return;
    fail({ErrorKind::kPeer, board_.rank(), peer,
          fmt::format("rank {} died, or its host cannot be reached any more "
                      "({}); look at its output",
                      peer, why)});
    board_.leave(peer);
  }

  void on_clear(int peer) override { mail_.on_clear(peer); }
  void on_alarm() override { bulk_->close_if_late(); }

  const std::shared_ptr<Hub> hub_;
  const std::shared_ptr<Bell> bell_;
  const Deadline::Duration timeout_;
  GlooAlgorithm algorithm_ = GlooAlgorithm::kDirect;
  Board board_;
  Mail mail_;
  std::optional<Bulk> bulk_;
  std::optional<Exchange> exchange_;
  std::optional<Wire> wire_;  // last: its thread uses all of the above
};

}  // namespace

BackendFactory make_gloo_factory(const GlooOptions& options) {
  auto hub = std::make_shared<Hub>(options);
  return [hub](const GroupPlace& place) {
    return std::make_unique<GlooBackend>(hub, place);
  };
}

}  // namespace lockstep
