// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "lockstep/base/bytes.h"
#include "lockstep/base/error.h"

namespace lockstep {

// Why a group failed, in the form in which one rank tells the others.
struct Failure {
  ErrorKind kind = ErrorKind::kAborted;
  int by = -1;    // the rank that noticed
  int peer = -1;  // the rank it is about, if it is about one
  std::string text;
};

// The failure that rank `by` tells the others when `error` ended its work.
Failure failure_of(const std::exception_ptr& error, int by);

// What rank `rank` throws when it learns of `failure` from another. A late or
// lost peer and a mismatch are the same news for everybody, so the type stays;
// the rank that the news is about, and everybody else, get AbortedError.
std::exception_ptr error_of(const Failure& failure, int rank);

// As bytes, for other ranks to read. Errors: PeerError when they are no
// failure.
ByteVector encode(const Failure& failure);
Failure decode_failure(ConstBytes bytes);

// A failure in memory that ranks share: plain bytes, zeroed when there is none.
// A long text is cut.
class FailureNote {
 public:
  // Writes it, unless there is one, or one is being written.
  void write(const Failure& failure) noexcept;
  // Rank `by` has died: if it was in the middle of writing, others may.
  void forget_writer(int by) noexcept;
  std::optional<Failure> read() const;

 private:
  enum : uint32_t { kEmpty, kWritten, kBusy };  // kBusy + the rank that writes
  static constexpr size_t kMostText = 1024;

  std::atomic<uint32_t> state_;
  ErrorKind kind_;
  int32_t by_;
  int32_t peer_;
  char text_[kMostText];
};

}  // namespace lockstep
