// SPDX-License-Identifier: Apache-2.0
#include "store/tcp_connect.h"

#include <algorithm>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/trace/trace.h"
#include "store/handshake.h"

namespace lockstep::detail {

using namespace std::chrono_literals;

namespace {

// The pause before the next try: it grows to a second, and varies so that a
// thousand ranks do not come back at the same moment.
class Backoff {
 public:
  void pause(Deadline deadline) {
    std::uniform_real_distribution<double> factor(0.5, 1.5);
    const auto wish =
        std::chrono::duration_cast<Deadline::Duration>(next_ * factor(random_));
    std::this_thread::sleep_for(std::min(wish, deadline.remaining()));
    next_ = std::min<std::chrono::duration<double>>(next_ * 1.6, 1s);
  }

 private:
  std::minstd_rand random_{std::random_device{}()};
  std::chrono::duration<double> next_ = 10ms;
};

void prove_each_other(Socket& socket, const std::string& secret,
                      Deadline deadline) {
  ByteVector greeting(handshake::kGreetingBytes);
  socket.recv_exactly(greeting, deadline);
  handshake::Client client(secret);
  socket.send_all(client.hello(greeting), deadline);
  ByteVector verdict(handshake::kVerdictBytes);
  socket.recv_exactly(verdict, deadline);
  client.check(verdict);
}

}  // namespace

Socket connect_to_store(const Address& address, const std::string& secret,
                        Deadline deadline) {
  LOCKSTEP_TRACE_SCOPE("connect", "store");
  const auto allowed = deadline.remaining();
  Backoff backoff;
  std::string reason = "no time was given";
  int tries = 0;
  while (!deadline.passed()) {
    ++tries;
    try {
      Socket socket = Socket::connect(resolve(address, deadline), deadline);
      prove_each_other(socket, secret, earlier(deadline, Deadline::in(10s)));
      return socket;
    } catch (const handshake::Refused& refused) {
      throw PeerError(
          fmt::format("store {}: {}", to_text(address), refused.what()));
    } catch (const Error& error) {
      reason = error.what();
    }
    backoff.pause(deadline);
  }
  throw TimeoutError(fmt::format(
      "no store at {} after {} and {} tries; last: {}; is the server running, "
      "and are host and port right?",
      to_text(address), to_text(allowed), tries, reason));
}

}  // namespace lockstep::detail
