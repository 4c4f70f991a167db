// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fuzz/fuzz_socket.h"
#include "lockstep/net/listener.h"
#include "store/connection.h"

namespace lockstep::fuzz {

// A store server that answers what the fuzzer says, to one client.

constexpr auto kCallTimeout = std::chrono::milliseconds(2);
constexpr size_t kMostCalls = 3;
constexpr int kMostPauses = 4;  // of the server, each as long as two calls
inline const std::string kSecret = "the secret of a server that went mad";

enum class Mode {
  kImpostor,  // bytes in place of the handshake
  kRaw,       // the handshake, then bytes
  kScript,    // the handshake, then answers
};

inline void ignore(ConstBytes) {}

inline void shake_hands(Socket& socket) {
  const detail::handshake::Server server(kSecret);
  socket.send_all(server.greeting(), soon());
  ByteVector hello(detail::handshake::kHelloBytes);
  socket.recv_exactly(hello, soon());
  socket.send_all(server.judge(hello).reply, soon());
}

inline detail::codec::Answer make_answer(Input& input) {
  detail::codec::Answer answer;
  answer.status = static_cast<detail::codec::Status>(input.u8() % 3);
  answer.reply.number = input.number();
  const size_t count = input.u8() % 4;
  for (size_t i = 0; i < count; ++i) {
    answer.reply.values.push_back(input.value());
    answer.missing.push_back(to_string(answer.reply.values.back()));
    answer.text = answer.missing.back();
  }
  return answer;
}

// Each step is a byte that says what it is, then what that needs.
inline void follow_script(Socket& socket, Input script) {
  int pauses = 0;
  while (!script.empty()) {
    ByteVector message;
    const uint8_t step = script.u8();
    switch (step % 8) {
      case 0:  // hear the next request, or the client's change of mind
        if (++pauses > kMostPauses) break;
        socket.wait_for(POLLIN, Deadline::in(2 * kCallTimeout));
        if (!read_now(socket, ignore)) return;
        break;
      case 1:
        message = to_vector(script.counted());
        break;
      case 2: {
        ByteWriter body;
        body.u64(script.u8()).raw(script.counted());
        message = ByteWriter().counted(body.bytes()).take();
        break;
      }
      default:
        detail::append_message(script.u8() % (kMostCalls + 2),
                               make_answer(script), message);
    }
    if (!send_cut(socket, message, step & 0x80 ? 3 : 0, ignore)) return;
  }
}

inline void serve(Listener& listener, Mode mode, Input script) {
  try {
    Socket socket = listener.accept(soon());
    if (mode != Mode::kImpostor) shake_hands(socket);
    if (mode == Mode::kScript) {
      follow_script(socket, script);
    } else {
      send_cut(socket, script.rest(), 0, ignore);
    }
    finish(socket, ignore);
  } catch (const Error&) {
    // The client has gone, which is its right.
  }
}

}  // namespace lockstep::fuzz
