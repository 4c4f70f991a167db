// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "lockstep/base/bytes.h"
#include "lockstep/base/error.h"

// How a client and a server of a TcpStore prove to each other that they know
// the job's secret, before anything else is read.
//
//   server -> client   greeting: magic, version, nonce S           44 bytes
//   client -> server   hello:    magic, version, nonce C, proof    76 bytes
//   server -> client   verdict:  one byte, proof                   33 bytes
//
// A proof is HMAC-SHA-256 under the secret over a word for the direction and
// both nonces. Fresh nonces make a recorded proof worthless, the word keeps
// one side's proof from serving as the other's. All three have a fixed size,
// so nobody parses a length from a stranger. Without a secret (loopback only)
// the same exchange runs with an empty key.
namespace lockstep::detail::handshake {

inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kProofBytes = 32;
inline constexpr size_t kGreetingBytes = 8 + 4 + kNonceBytes;
inline constexpr size_t kHelloBytes = 8 + 4 + kNonceBytes + kProofBytes;
inline constexpr size_t kVerdictBytes = 1 + kProofBytes;

using Nonce = std::array<std::byte, kNonceBytes>;

enum class Verdict : uint8_t {
  kRefused = 0,  // the client's proof is wrong
  kAccepted = 1,
  kOtherVersion = 2,  // it speaks another version of the protocol
  kNoClient = 3,      // it does not speak this protocol at all
};

// Random bytes that nobody can guess, and a secret made of them (64 hex
// digits). Errors: SystemError when the system has no entropy.
Nonce make_nonce();
std::string make_secret();

// Thrown by Client: trying again would end the same way.
class Refused : public PeerError {
 public:
  using PeerError::PeerError;
};

class Server {
 public:
  explicit Server(const std::string& secret)
      : secret_(secret), nonce_(make_nonce()) {}
  ByteVector greeting() const;

  struct Result {
    Verdict verdict;
    ByteVector reply;  // what to send; nothing for kNoClient
  };
  Result judge(ConstBytes hello) const;

 private:
  const std::string& secret_;
  Nonce nonce_;
};

class Client {
 public:
  explicit Client(const std::string& secret)
      : secret_(secret), nonce_(make_nonce()) {}

  // Errors: Refused when the other side is no such server, or not of our
  // version.
  ByteVector hello(ConstBytes greeting);

  // Errors: Refused when it refused us, or does not know the secret itself.
  void check(ConstBytes verdict) const;

 private:
  const std::string& secret_;
  Nonce nonce_;
  Nonce server_nonce_{};
};

}  // namespace lockstep::detail::handshake
