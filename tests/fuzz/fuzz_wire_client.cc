// SPDX-License-Identifier: Apache-2.0
// What those who know the secret can send: nonsense costs them their own
// connection, and nobody else anything.
//
// Input: how to read it; then bytes for the wire as they are, or a script of
// well-formed messages on up to two connections.

#include <array>
#include <functional>
#include <optional>
#include <thread>

#include "fuzz/fuzz_socket.h"
#include "lockstep/base/log.h"
#include "lockstep/store/tcp_store.h"
#include "lockstep/store/tcp_store_server.h"
#include "store/connection.h"
#include "store/tcp_connect.h"

namespace lockstep::fuzz {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kFenceId = UINT64_MAX;
constexpr int kMostSteps = 64;

const std::string& secret() {
  static const std::string secret = make_secret();
  return secret;
}

// A client made by hand, past the handshake.
class Peer {
 public:
  explicit Peer(uint16_t port)
      : socket_(
            detail::connect_to_store({"127.0.0.1", port}, secret(), soon())) {
    reset_on_close(socket_);
  }

  void send(ConstBytes bytes, size_t cut = 0) {
    if (open_) open_ = send_cut(socket_, bytes, cut, hear());
  }

  void end() {
    if (open_) finish(socket_, hear());
  }

  // Returns when the server has dealt with everything sent before: it answers
  // a last request, or it has closed.
  void fence() {
    StoreRequest check;
    check.op = StoreOp::kCheck;
    ByteVector message;
    detail::append_message(kFenceId, check, message);
    fence_answered_ = false;
    send(message);
    const auto deadline = soon();
    while (open_ && !fence_answered_) {
      open_ = read_now(socket_, hear());
      if (!open_ || fence_answered_) return;
      require(socket_.wait_for(POLLIN, deadline), "it answers or closes");
    }
  }

 private:
  // Every message of the server is a well-formed answer.
  std::function<void(ConstBytes)> hear() {
    return [this](ConstBytes bytes) {
      while (!bytes.empty()) {
        const Bytes room = in_.room();
        const size_t count = std::min(room.size(), bytes.size());
        std::copy_n(bytes.data(), count, room.data());
        in_.filled(count);
        bytes = bytes.from(count);
        while (const auto message = in_.next()) {
          ByteReader reader(*message);
          const uint64_t id = reader.u64();
          const auto answer = detail::codec::decode_answer(reader);
          require(answer.has_value(), "answers are well-formed");
          if (id == kFenceId) fence_answered_ = true;
        }
      }
    };
  }

  Socket socket_;
  FrameReader in_{detail::kMostMessageBytes};
  bool open_ = true;
  bool fence_answered_ = false;
};

// Both connections of a script, made when first used.
class Peers {
 public:
  explicit Peers(uint16_t port) : port_(port) {}

  Peer& at(size_t index) {
    if (!peers_[index]) peers_[index].emplace(port_);
    return *peers_[index];
  }
  void leave(size_t index) { peers_[index].reset(); }

  void fence() {
    for (auto& peer : peers_) {
      if (peer) peer->fence();
    }
  }

 private:
  const uint16_t port_;
  std::array<std::optional<Peer>, 2> peers_;
};

ByteVector framed(uint64_t id, ConstBytes body) {
  const auto length = static_cast<uint32_t>(8 + body.size());
  return ByteWriter().u32(length).u64(id).raw(body).take();
}

// A value that makes answers pile up at the server.
StoreRequest set_large(Input& input) {
  StoreRequest request;
  request.keys.push_back(input.key());
  request.values.emplace_back(input.u8() * size_t{1024});
  return request;
}

// Each step: what and by whom (one byte), the id where there is one, the rest.
void follow_script(Input input, Peers& peers) {
  for (int i = 0; i < kMostSteps && !input.empty(); ++i) {
    const uint8_t step = input.u8();
    const size_t who = step >> 7;
    ByteVector message;
    switch (step % 8) {
      case 0:
        peers.at(who).send(framed(input.u8(), input.counted()));
        break;
      case 1:
        peers.at(who).send(
            framed(detail::kCancelId, ByteWriter().u64(input.u8()).bytes()));
        break;
      case 2:
        peers.leave(who);
        break;
      case 3:
        peers.fence();
        break;
      case 4:
        detail::append_message(input.u8(), set_large(input), message);
        peers.at(who).send(message);
        break;
      default:
        detail::append_message(input.u8(), input.request(), message);
        peers.at(who).send(message, step & 0x40 ? 5 : 0);
    }
  }
}

void visit(uint16_t port, Input input) {
  if (input.u8() % 2 == 0) {
    const size_t cut = input.u8();
    Peer peer(port);
    peer.send(input.rest(), cut);
    peer.end();
  } else {
    Peers peers(port);
    follow_script(input, peers);
    peers.fence();
  }
}

// An Error that leaves this is a finding too.
void check_others(const TcpStoreServer& server) {
  TcpStore client("127.0.0.1", server.port(), secret(), {5s, 5s});
  client.set("honest key", "value");
  require(to_string(client.get("honest key", soon())) == "value",
          "a client gets what it has set");
  const auto deadline = soon();
  while (server.load().waiting > 0 || server.load().clients > 1) {
    require(!deadline.passed(), "who has left is forgotten");
    std::this_thread::yield();
  }
}

}  // namespace
}  // namespace lockstep::fuzz

// A server for each input: memory stays bounded, and a finding can be repeated.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::fuzz;
  lockstep::set_log_level(lockstep::LogLevel::kOff);
  const lockstep::TcpStoreServer server("127.0.0.1", 0, secret());
  visit(server.port(), {data, size});
  check_others(server);
  return 0;
}
