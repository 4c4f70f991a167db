// SPDX-License-Identifier: Apache-2.0
#include "store/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <fmt/format.h>

namespace lockstep::detail::handshake {
namespace {

constexpr std::string_view kMagic = "lockstep";
constexpr uint32_t kVersion = 1;
static_assert(kMagic.size() == 8);

using Proof = std::array<std::byte, kProofBytes>;

ConstBytes view(const Nonce& nonce) { return {nonce.data(), nonce.size()}; }

Proof prove(const std::string& secret, std::string_view direction,
            const Nonce& server, const Nonce& client) {
  ByteWriter message;
  message.raw(direction).raw(view(server)).raw(view(client));
  const ByteVector& bytes = message.bytes();
  Proof proof;
  unsigned int size = 0;
  const auto* done =
      ::HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
             reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
             reinterpret_cast<unsigned char*>(proof.data()), &size);
  LOCKSTEP_ASSERT(done != nullptr && size == proof.size());
  return proof;
}

Proof prove_client(const std::string& secret, const Nonce& server,
                   const Nonce& client) {
  return prove(secret, "lockstep client", server, client);
}

Proof prove_server(const std::string& secret, const Nonce& server,
                   const Nonce& client) {
  return prove(secret, "lockstep server", server, client);
}

bool same(const Proof& proof, ConstBytes claimed) {
  return claimed.size() == proof.size() &&
         ::CRYPTO_memcmp(proof.data(), claimed.data(), proof.size()) == 0;
}

Nonce take_nonce(ByteReader& reader) {
  Nonce nonce{};
  const ConstBytes bytes = reader.raw(nonce.size());
  std::copy(bytes.begin(), bytes.end(), nonce.begin());
  return nonce;
}

ByteWriter opening(const Nonce& nonce) {
  ByteWriter writer;
  writer.raw(kMagic).u32(kVersion).raw(view(nonce));
  return writer;
}

}  // namespace

Nonce make_nonce() {
  Nonce nonce;
  if (::RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()),
                   static_cast<int>(nonce.size())) != 1) {
    throw SystemError("no random numbers for a secret", EIO);
  }
  return nonce;
}

std::string make_secret() {
  std::string text;
  for (std::byte byte : make_nonce()) {
    text += fmt::format("{:02x}", std::to_integer<int>(byte));
  }
  return text;
}

ByteVector Server::greeting() const { return opening(nonce_).take(); }

Server::Result Server::judge(ConstBytes hello) const {
  ByteReader reader(hello);
  if (reader.raw(kMagic.size()) != ConstBytes(kMagic)) {
    return {Verdict::kNoClient, {}};
  }
  const bool known_version = reader.u32() == kVersion;
  const Nonce client = take_nonce(reader);
  const ConstBytes proof = reader.raw(kProofBytes);
  const Verdict verdict = !known_version ? Verdict::kOtherVersion
                          : same(prove_client(secret_, nonce_, client), proof)
                              ? Verdict::kAccepted
                              : Verdict::kRefused;
  Proof ours{};
  if (verdict == Verdict::kAccepted) {
    ours = prove_server(secret_, nonce_, client);
  }
  ByteWriter reply;
  reply.u8(static_cast<uint8_t>(verdict)).raw({ours.data(), ours.size()});
  return {verdict, reply.take()};
}

ByteVector Client::hello(ConstBytes greeting) {
  ByteReader reader(greeting);
  LOCKSTEP_CHECK(reader.raw(kMagic.size()) == ConstBytes(kMagic), Refused,
                 "what listens there is no lockstep store; is the port right?");
  const uint32_t version = reader.u32();
  LOCKSTEP_CHECK(version == kVersion, Refused,
                 "the store there speaks protocol version {}, this program {}; "
                 "use the same lockstep on both sides",
                 version, kVersion);
  server_nonce_ = take_nonce(reader);
  const Proof proof = prove_client(secret_, server_nonce_, nonce_);
  return opening(nonce_).raw({proof.data(), proof.size()}).take();
}

void Client::check(ConstBytes verdict) const {
  ByteReader reader(verdict);
  const auto word = static_cast<Verdict>(reader.u8());
  LOCKSTEP_CHECK(word == Verdict::kAccepted, Refused,
                 "the store there refused our secret; all ranks need the "
                 "secret it was started with (LOCKSTEP_SECRET)");
  LOCKSTEP_CHECK(same(prove_server(secret_, server_nonce_, nonce_),
                      reader.raw(kProofBytes)),
                 Refused,
                 "the store there could not prove that it knows our secret; "
                 "it may be an impostor");
}

}  // namespace lockstep::detail::handshake
