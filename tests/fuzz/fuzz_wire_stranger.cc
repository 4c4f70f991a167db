// SPDX-License-Identifier: Apache-2.0
// What anybody can send to a store server's port: it must neither fall over,
// nor let a stranger in, nor keep its clients waiting.
//
// Input: how it ends, the size of the pieces, then the bytes.

#include <deque>

#include "fuzz/fuzz_socket.h"
#include "lockstep/base/log.h"
#include "lockstep/store/tcp_store.h"
#include "lockstep/store/tcp_store_server.h"
#include "store/handshake.h"

namespace lockstep::fuzz {
namespace {

using namespace std::chrono_literals;

constexpr int kCheckEvery = 256;
constexpr size_t kMostLingering = 8;

enum class Ending { kHalfClose, kReset, kStay };

// One server for the whole run, with limits low enough to be reached, and a
// client that behaves.
class World {
 public:
  void meet_stranger(Input input) {
    const auto ending = static_cast<Ending>(input.u8() % 3);
    const size_t cut = input.u8();
    Socket socket = Socket::connect({server_.address()}, soon());
    reset_on_close(socket);
    ByteVector heard;
    const auto hear = [&](ConstBytes bytes) {
      heard.insert(heard.end(), bytes.begin(), bytes.end());
    };
    const bool open = send_cut(socket, input.rest(), cut, hear);
    if (open && ending == Ending::kHalfClose) finish(socket, hear);
    require(
        heard.size() <= detail::handshake::kGreetingBytes ||
            heard[detail::handshake::kGreetingBytes] !=
                static_cast<std::byte>(detail::handshake::Verdict::kAccepted),
        "nobody gets in without the secret");
    if (ending == Ending::kStay) linger(std::move(socket));
    if (++inputs_ % kCheckEvery == 0) check_client();
  }

 private:
  static TcpStoreServerOptions options() {
    TcpStoreServerOptions options;
    options.handshake_time = 5ms;
    options.most_strangers = kMostLingering / 2;
    return options;
  }

  void linger(Socket socket) {
    lingering_.push_back(std::move(socket));
    if (lingering_.size() > kMostLingering) lingering_.pop_front();
  }

  // An Error that leaves this is a finding too.
  void check_client() {
    const std::string value = std::to_string(inputs_);
    client_.set("key", value);
    require(to_string(client_.get("key", soon())) == value,
            "a client gets what it has set");
    require(server_.load().clients == 1, "there is one client");
  }

  const std::string secret_ = make_secret();
  TcpStoreServer server_{"127.0.0.1", 0, secret_, options()};
  TcpStore client_{"127.0.0.1", server_.port(), secret_, {5s, 5s}};
  std::deque<Socket> lingering_;
  int64_t inputs_ = 0;
};

}  // namespace
}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::set_log_level(lockstep::LogLevel::kOff);
  static lockstep::fuzz::World world;
  world.meet_stranger({data, size});
  return 0;
}
