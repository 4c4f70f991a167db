// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/failure.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace lockstep {
namespace {

template <class E>
std::exception_ptr with_peer(E error, int peer) {
  if (peer >= 0) {
    ErrorContext context;
    context.peer = peer;
    error.add_context(context);
  }
  return std::make_exception_ptr(error);
}

}  // namespace

Failure failure_of(const std::exception_ptr& error, int by) {
  Failure failure;
  failure.by = by;
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    failure.kind = e.kind();
    failure.peer = e.context().peer;
    const std::string& part = e.context().part;
    failure.text = part.empty() ? e.message() : part + ": " + e.message();
  } catch (...) {
    failure.kind = ErrorKind::kInternal;
    failure.text = describe(error);
  }
  return failure;
}

std::exception_ptr error_of(const Failure& failure, int rank) {
  if (failure.peer != rank || failure.peer < 0) {
    switch (failure.kind) {
      case ErrorKind::kTimeout:
        return with_peer(TimeoutError(fmt::format("{} (noticed by rank {})",
                                                  failure.text, failure.by)),
                         failure.peer);
      case ErrorKind::kPeer:
        return with_peer(PeerError(failure.text, failure.peer), failure.peer);
      case ErrorKind::kMismatch:
        return with_peer(MismatchError(failure.text), failure.peer);
      default:
        break;
    }
  }
  return with_peer(AbortedError(fmt::format("rank {} ended the group: {}",
                                            failure.by, failure.text)),
                   failure.by);
}

ByteVector encode(const Failure& failure) {
  ByteWriter writer;
  writer.u8(static_cast<uint8_t>(failure.kind));
  writer.u32(static_cast<uint32_t>(failure.by));
  writer.u32(static_cast<uint32_t>(failure.peer)).counted(failure.text);
  return writer.take();
}

Failure decode_failure(ConstBytes bytes) {
  ByteReader reader(bytes);
  Failure failure;
  failure.kind = static_cast<ErrorKind>(reader.u8());
  failure.by = static_cast<int>(reader.u32());
  failure.peer = static_cast<int>(reader.u32());
  failure.text = to_string(reader.counted());
  LOCKSTEP_CHECK(reader.finished() && failure.kind <= ErrorKind::kInternal,
                 PeerError,
                 "another rank's report of a failure makes no sense");
  return failure;
}

void FailureNote::write(const Failure& failure) noexcept {
  uint32_t empty = kEmpty;
  const uint32_t busy = kBusy + static_cast<uint32_t>(failure.by);
  if (!state_.compare_exchange_strong(empty, busy)) return;
  kind_ = failure.kind;
  by_ = failure.by;
  peer_ = failure.peer;
  const size_t length = std::min(failure.text.size(), kMostText - 1);
  std::memcpy(text_, failure.text.data(), length);
  text_[length] = '\0';
  state_.store(kWritten, std::memory_order_release);
}

void FailureNote::forget_writer(int by) noexcept {
  uint32_t busy = kBusy + static_cast<uint32_t>(by);
  state_.compare_exchange_strong(busy, kEmpty);
}

std::optional<Failure> FailureNote::read() const {
  if (state_.load(std::memory_order_acquire) != kWritten) return std::nullopt;
  return Failure{kind_, by_, peer_, text_};
}

}  // namespace lockstep
