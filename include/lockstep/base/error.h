// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

namespace lockstep {

// What went wrong, as a word. Each kind is one class below.
enum class ErrorKind {
  kUsage,
  kMismatch,
  kTimeout,
  kPeer,
  kSystem,
  kAborted,
  kInternal,
};

const char* to_text(ErrorKind kind);

// Where it went wrong. A layer fills in what it knows; -1 and "" mean "not
// known here".
struct ErrorContext {
  int rank = -1;          // whose call failed
  std::string operation;  // "all_reduce", "store get"
  int64_t sequence = -1;  // which one of them on its group
  std::string group;      // name of the process group
  int peer = -1;          // the other rank it is about
  std::string part = {};  // of the operation: "bucket 0 of 3, hook 'sign'"
};

// The root of everything lockstep throws.
//
// what() is one sentence with the context in front:
//
//   rank 2: all_reduce #41 on group 'ddp': timed out after 30 s waiting for
//   rank 0; is it still running?
//
// A layer that knows more adds it while the error passes, and the type stays:
//
//   catch (Error& error) { error.add_context({rank(), "barrier"}); throw; }
//
// Threads: an Error is a value; once thrown across threads, do not change it.
class Error : public std::runtime_error {
 public:
  ErrorKind kind() const noexcept { return kind_; }
  const ErrorContext& context() const noexcept { return context_; }

  // The sentence without the context.
  const std::string& message() const noexcept { return message_; }
  const char* what() const noexcept override { return what_.c_str(); }

  // Fills in the fields that are still unknown; known ones stay.
  void add_context(const ErrorContext& more);

 protected:
  Error(ErrorKind kind, std::string message, ErrorContext context = {});

 private:
  ErrorKind kind_;
  std::string message_;
  ErrorContext context_;
  std::string what_;
};

// The call breaks its documented contract. Fix the program.
class UsageError : public Error {
 public:
  explicit UsageError(std::string message);
};

// Ranks disagree: on a shape, a type, an order, a parameter. Fix the program.
class MismatchError : public Error {
 public:
  explicit MismatchError(std::string message);
};

// A deadline passed; the message names who or what was missing.
class TimeoutError : public Error {
 public:
  explicit TimeoutError(std::string message);
};

// A peer closed, died or spoke nonsense. `peer` is its rank where that is
// known; a store server has none.
class PeerError : public Error {
 public:
  explicit PeerError(std::string message, int peer = -1);
};

// A system call or a library failed here. The message ends with the text and
// the name of `error_number`.
class SystemError : public Error {
 public:
  SystemError(const std::string& message, int error_number);
  int error_number() const noexcept { return error_number_; }

 private:
  int error_number_;
};

// Cancelled, because what it belongs to had failed or was closed before.
class AbortedError : public Error {
 public:
  explicit AbortedError(const std::string& message,
                        std::exception_ptr cause = nullptr);
  // The failure that came first; null when there was none (a plain close).
  const std::exception_ptr& cause() const noexcept { return cause_; }

 private:
  std::exception_ptr cause_;
};

// One of our own invariants is broken: please report it.
class InternalError : public Error {
 public:
  explicit InternalError(std::string message);
};

// Throws a copy of `error`, of the same type, with `more` added to its context.
// Use it where others may hold the original: errors of a Future are shared.
[[noreturn]] void rethrow_with_context(const Error& error,
                                       const ErrorContext& more);

// Rethrows the current exception with `part` in its context; one that is none
// of ours becomes a UsageError.
[[noreturn]] void rethrow_with_part(const std::string& part);

// Steps that are queued while it lives, on this thread, fail with errors that
// name `part`: on the other ranks, too, if they end their group.
class ErrorPartScope {
 public:
  explicit ErrorPartScope(std::string part);
  ~ErrorPartScope();
  ErrorPartScope(const ErrorPartScope&) = delete;
  ErrorPartScope& operator=(const ErrorPartScope&) = delete;

  static const std::string& current();  // "" when there is none

 private:
  std::string before_;
};

// The text of any exception, for messages and logs.
std::string describe(const std::exception_ptr& error);

namespace detail {
[[noreturn]] void assertion_failed(const char* condition, const char* file,
                                   int line);
}  // namespace detail

}  // namespace lockstep

// Checks the caller's side of a contract:
//   LOCKSTEP_CHECK(rank < size, UsageError, "rank {} is not below {}", ...);
// The message is formatted by fmt, so the source includes <fmt/format.h>.
#define LOCKSTEP_CHECK(condition, Type, ...)                \
  do {                                                      \
    if (!(condition)) throw Type(fmt::format(__VA_ARGS__)); \
  } while (false)

// Checks our own side.
#define LOCKSTEP_ASSERT(condition)                                          \
  do {                                                                      \
    if (!(condition))                                                       \
      ::lockstep::detail::assertion_failed(#condition, __FILE__, __LINE__); \
  } while (false)
