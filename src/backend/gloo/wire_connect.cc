// SPDX-License-Identifier: Apache-2.0
#include "backend/gloo/wire_connect.h"

#include <poll.h>

#include <array>
#include <functional>
#include <list>
#include <optional>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/host.h"
#include "lockstep/net/address.h"
#include "lockstep/net/listener.h"
#include "lockstep/store/rendezvous.h"

namespace lockstep::detail {
namespace {

constexpr auto kTurn = std::chrono::milliseconds(50);

// The first words on a connection, both ways: a number that was in the store,
// and the speaker's rank.
constexpr size_t kHelloBytes = 12;

ByteVector hello(uint64_t cookie, int rank) {
  ByteWriter writer;
  writer.u64(cookie).u32(static_cast<uint32_t>(rank));
  return writer.take();
}

std::string door_key(int rank) { return fmt::format("gloo/door/{}", rank); }

// Where a rank listens, as it writes it into the store.
struct Door {
  std::string terms;
  std::string host = host_identity();
  std::string loopback;  // one of its addresses that is for this host only
  uint64_t cookie = 0;
  Address address;

  static Door decode(ConstBytes bytes) {
    ByteReader reader(bytes);
    Door door;
    door.terms = to_string(reader.counted());
    door.host = to_string(reader.counted());
    door.loopback = to_string(reader.counted());
    door.cookie = reader.u64();
    door.address.host = to_string(reader.counted());
    door.address.port = static_cast<uint16_t>(reader.u32());
    return door;
  }
  ByteVector encode() const {
    ByteWriter writer;
    writer.counted(terms).counted(host).counted(loopback).u64(cookie).counted(
        address.host);
    return writer.u32(address.port).take();
  }
};

// Somebody who has knocked and not yet said who it is.
struct Stranger {
  Socket socket;
  ByteVector said;
};

class Connector {
 public:
  Connector(const GroupPlace& place, const std::vector<std::string>& addresses,
            const std::string& terms, Deadline deadline, Refusal& refusal)
      : place_(place),
        deadline_(deadline),
        refusal_(refusal),
        look_([&refusal] { refusal.look(); }),
        listener_(resolve({addresses.front(), 0}, deadline).front()),
        connections_(static_cast<size_t>(place.size)),
        cookies_(connections_.size()) {
    std::random_device random;
    own_.cookie = (uint64_t{random()} << 32) | random();
    own_.terms = terms;
    own_.address = {addresses.front(), listener_.address().port()};
    for (const auto& address : addresses) {
      const auto numbers = resolve({address, 0}, deadline);
      if (numbers.front().is_loopback()) own_.loopback = address;
    }
  }

  std::vector<Socket> connect() {
    try {
      place_.store->set(door_key(place_.rank), own_.encode());
      for (int peer = 0; peer < place_.rank; ++peer) knock(peer);
      while (!missing().empty()) admit();
      for (int peer = 0; peer < place_.rank; ++peer) hear_welcome(peer);
    } catch (const Error&) {
      // While the door is open still: others must not find it closed, and
      // nobody who says why.
      refusal_.refuse(std::current_exception());
      throw;
    }
    return std::move(connections_);
  }

 private:
  Socket& connection(int peer) {
    return connections_[static_cast<size_t>(peer)];
  }

  // Lower ranks are visited. Nobody waits for an answer before all visits have
  // been made, so nobody waits in a circle.
  void knock(int peer) {
    const Door door = door_of(peer);
    LOCKSTEP_CHECK(door.terms == own_.terms, MismatchError,
                   "rank {} uses {}, but rank {} uses {}", peer, door.terms,
                   place_.rank, own_.terms);
    if (door.host != own_.host) {
      check_reachable(door, peer, place_.rank);
      check_reachable(own_, place_.rank, peer);
    }
    cookies_[static_cast<size_t>(peer)] = door.cookie;
    try {
      connection(peer) =
          Socket::connect(resolve(door.address, deadline_), deadline_);
      connection(peer).send_all(hello(door.cookie, place_.rank), deadline_);
    } catch (const Error& error) {
      throw_unreachable(peer, door.address, error);
    }
  }

  Door door_of(int peer) {
    try {
      return Door::decode(
          get_looking(*place_.store, door_key(peer), deadline_, look_));
    } catch (const TimeoutError&) {
      LOCKSTEP_CHECK(!deadline_.passed(), TimeoutError,
                     "rank {} came, and has not said where it listens; is it "
                     "still running?",
                     peer);
      throw;
    }
  }

  static void check_reachable(const Door& door, int whose, int other) {
    LOCKSTEP_CHECK(
        door.loopback.empty(), UsageError,
        "rank {} listens on {}, which only its own host can reach, and rank {} "
        "runs on another; set LOCKSTEP_SOCKET_IFNAME to the network interface "
        "that joins the hosts",
        whose, door.loopback, other);
  }

  [[noreturn]] void throw_unreachable(int peer, const Address& address,
                                      const Error& error) {
    look_();  // may know better
    const std::string text =
        fmt::format("rank {} cannot be reached at {}: {}", peer,
                    to_text(address), error.message());
    if (error.kind() == ErrorKind::kTimeout) throw TimeoutError(text);
    throw PeerError(text, peer);
  }

  // Higher ranks come here.
  void admit() {
    if (deadline_.passed()) throw_late();
    look_();
    std::vector<pollfd> doors = {{listener_.fd(), POLLIN, 0}};
    for (const auto& stranger : strangers_) {
      doors.push_back({stranger.socket.fd(), POLLIN, 0});
    }
    const int wait = earlier(deadline_, Deadline::in(kTurn)).poll_timeout();
    if (::poll(doors.data(), doors.size(), wait) <= 0) return;
    while (auto socket = listener_.accept_now()) {
      strangers_.push_back({std::move(*socket), {}});
    }
    strangers_.remove_if([&](Stranger& stranger) { return is_done(stranger); });
  }

  bool is_done(Stranger& stranger) {
    try {
      std::array<std::byte, kHelloBytes> room{};
      const auto got = stranger.socket.recv_some(
          Bytes(room.data(), kHelloBytes - stranger.said.size()));
      if (!got) return false;
      if (*got == 0) return true;
      stranger.said.insert(stranger.said.end(), room.begin(),
                           room.begin() + static_cast<ptrdiff_t>(*got));
      if (stranger.said.size() < kHelloBytes) return false;
      ByteReader reader(stranger.said);
      const bool knows = reader.u64() == own_.cookie;
      const auto rank = static_cast<int>(reader.u32());
      if (!knows || rank <= place_.rank || rank >= place_.size) return true;
      if (connection(rank).is_open()) return true;
      stranger.socket.send_all(hello(own_.cookie, place_.rank), deadline_);
      connection(rank) = std::move(stranger.socket);
    } catch (const PeerError&) {
      // Gone again.
    }
    return true;
  }

  void hear_welcome(int peer) {
    std::array<std::byte, kHelloBytes> room{};
    size_t heard = 0;
    while (heard < room.size()) {
      const auto got =
          recv_from(peer, Bytes(room.data() + heard, room.size() - heard));
      if (got) heard += *got;
      if (heard < room.size() && deadline_.passed()) {
        throw TimeoutError(
            fmt::format("rank {} does not answer; is it still running?", peer));
      }
      look_();
    }
    ByteReader reader(ConstBytes(room.data(), room.size()));
    const bool knows = reader.u64() == cookies_[static_cast<size_t>(peer)];
    LOCKSTEP_CHECK(knows && static_cast<int>(reader.u32()) == peer, PeerError,
                   "another program answers in place of rank {}", peer);
  }

  // Nothing when nothing has come yet.
  std::optional<size_t> recv_from(int peer, Bytes room) {
    try {
      const auto got = connection(peer).recv_by(
          room, earlier(deadline_, Deadline::in(kTurn)));
      if (!got || *got > 0) return got;
    } catch (const PeerError&) {
      // The same.
    }
    look_();
    throw PeerError(
        fmt::format("rank {} has closed its door; it has ended, or another "
                    "program has its port",
                    peer),
        peer);
  }

  std::vector<int> missing() {
    std::vector<int> ranks;
    for (int peer = place_.rank + 1; peer < place_.size; ++peer) {
      if (!connection(peer).is_open()) ranks.push_back(peer);
    }
    return ranks;
  }

  [[noreturn]] void throw_late() {
    throw TimeoutError(
        fmt::format("not connected in time: rank {}; can they reach {}?",
                    fmt::join(missing(), ", "), to_text(own_.address)));
  }

  const GroupPlace& place_;
  const Deadline deadline_;
  Refusal& refusal_;
  const std::function<void()> look_;
  Listener listener_;
  Door own_;
  std::vector<Socket> connections_;
  std::vector<uint64_t> cookies_;  // of lower ranks
  std::list<Stranger> strangers_;
};

}  // namespace

std::vector<Socket> connect_wire(const GroupPlace& place,
                                 const std::vector<std::string>& addresses,
                                 const std::string& terms, Deadline deadline,
                                 Refusal& refusal) {
  return Connector(place, addresses, terms, deadline, refusal).connect();
}

}  // namespace lockstep::detail
