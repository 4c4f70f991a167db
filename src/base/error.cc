// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"

#include <string.h>

#include <utility>

#include <fmt/format.h>

namespace lockstep {
namespace {

// "rank 2: all_reduce #41 on group 'ddp': ", or less of it, or nothing.
std::string prefix_of(const ErrorContext& context) {
  std::string text;
  if (context.rank >= 0) text += fmt::format("rank {}: ", context.rank);
  std::string subject = context.operation;
  if (context.sequence >= 0) {
    subject +=
        fmt::format("{}#{}", subject.empty() ? "" : " ", context.sequence);
  }
  if (!context.group.empty()) {
    subject += fmt::format("{}group '{}'", subject.empty() ? "" : " on ",
                           context.group);
  }
  if (!subject.empty()) text += subject + ": ";
  if (!context.part.empty()) text += context.part + ": ";
  return text;
}

std::string system_text(int error_number) {
  const char* name = ::strerrorname_np(error_number);
  if (name == nullptr) return fmt::format("error {}", error_number);
  return fmt::format("{} ({})", ::strerrordesc_np(error_number), name);
}

ErrorContext with_peer(int peer) {
  ErrorContext context;
  context.peer = peer;
  return context;
}

}  // namespace

const char* to_text(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return "usage error";
    case ErrorKind::kMismatch:
      return "mismatch";
    case ErrorKind::kTimeout:
      return "timeout";
    case ErrorKind::kPeer:
      return "peer error";
    case ErrorKind::kSystem:
      return "system error";
    case ErrorKind::kAborted:
      return "aborted";
    case ErrorKind::kInternal:
      return "internal error";
  }
  return "unknown";
}

Error::Error(ErrorKind kind, std::string message, ErrorContext context)
    : std::runtime_error(""),
      kind_(kind),
      message_(std::move(message)),
      context_(std::move(context)),
      what_(prefix_of(context_) + message_) {}

void Error::add_context(const ErrorContext& more) {
  if (context_.rank < 0) context_.rank = more.rank;
  if (context_.operation.empty()) context_.operation = more.operation;
  if (context_.sequence < 0) context_.sequence = more.sequence;
  if (context_.group.empty()) context_.group = more.group;
  if (context_.peer < 0) context_.peer = more.peer;
  if (context_.part.empty()) context_.part = more.part;
  what_ = prefix_of(context_) + message_;
}

UsageError::UsageError(std::string message)
    : Error(ErrorKind::kUsage, std::move(message)) {}

MismatchError::MismatchError(std::string message)
    : Error(ErrorKind::kMismatch, std::move(message)) {}

TimeoutError::TimeoutError(std::string message)
    : Error(ErrorKind::kTimeout, std::move(message)) {}

PeerError::PeerError(std::string message, int peer)
    : Error(ErrorKind::kPeer, std::move(message), with_peer(peer)) {}

SystemError::SystemError(const std::string& message, int error_number)
    : Error(ErrorKind::kSystem, message + ": " + system_text(error_number)),
      error_number_(error_number) {}

AbortedError::AbortedError(const std::string& message, std::exception_ptr cause)
    : Error(ErrorKind::kAborted,
            cause ? message + "; cause: " + describe(cause) : message),
      cause_(std::move(cause)) {}

InternalError::InternalError(std::string message)
    : Error(ErrorKind::kInternal, std::move(message)) {}

namespace {

template <class Type>
[[noreturn]] void throw_copy(const Error& error, const ErrorContext& more) {
  Type copy(static_cast<const Type&>(error));
  copy.add_context(more);
  throw copy;
}

}  // namespace

void rethrow_with_context(const Error& error, const ErrorContext& more) {
  switch (error.kind()) {
    case ErrorKind::kUsage:
      throw_copy<UsageError>(error, more);
    case ErrorKind::kMismatch:
      throw_copy<MismatchError>(error, more);
    case ErrorKind::kTimeout:
      throw_copy<TimeoutError>(error, more);
    case ErrorKind::kPeer:
      throw_copy<PeerError>(error, more);
    case ErrorKind::kSystem:
      throw_copy<SystemError>(error, more);
    case ErrorKind::kAborted:
      throw_copy<AbortedError>(error, more);
    case ErrorKind::kInternal:
      break;
  }
  throw_copy<InternalError>(error, more);
}

void rethrow_with_part(const std::string& part) {
  ErrorContext context;
  context.part = part;
  try {
    throw;
  } catch (const Error& known) {
    rethrow_with_context(known, context);
  } catch (...) {
    UsageError error(describe(std::current_exception()));
    error.add_context(context);
    throw error;
  }
}

namespace {
thread_local std::string current_part;
}  // namespace

ErrorPartScope::ErrorPartScope(std::string part)
    : before_(std::exchange(current_part, std::move(part))) {}
ErrorPartScope::~ErrorPartScope() { current_part = std::move(before_); }
const std::string& ErrorPartScope::current() { return current_part; }

std::string describe(const std::exception_ptr& error) {
  if (!error) return "no error";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

namespace detail {

void assertion_failed(const char* condition, const char* file, int line) {
  throw InternalError(
      fmt::format("invariant broken: {} ({}:{}); this is a bug in lockstep, "
                  "please report it",
                  condition, file, line));
}

}  // namespace detail
}  // namespace lockstep
