// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/store.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

StoreRequest request_for(StoreOp op, const std::string& key) {
  StoreRequest request;
  request.op = op;
  request.keys.push_back(key);
  return request;
}

StoreRequest request_for(StoreOp op, const std::string& key, ConstBytes value) {
  StoreRequest request = request_for(op, key);
  request.values.push_back(to_vector(value));
  return request;
}

StoreRequest request_for(StoreOp op, const std::vector<std::string>& keys) {
  StoreRequest request;
  request.op = op;
  request.keys = keys;
  return request;
}

}  // namespace

StoreReply Store::call(StoreRequest request, Deadline deadline) {
  const StoreOp op = request.op;
  LOCKSTEP_TRACE_SCOPE(to_text(op), "store");
  try {
    check_request(request);
    return execute(std::move(request), deadline);
  } catch (Error& error) {
    ErrorContext context;
    context.operation = fmt::format("store {}", to_text(op));
    error.add_context(context);
    throw;
  }
}

void Store::set(const std::string& key, ConstBytes value) {
  call(request_for(StoreOp::kSet, key, value), by_default());
}

void Store::multi_set(const std::vector<std::string>& keys,
                      const std::vector<ByteVector>& values) {
  StoreRequest request = request_for(StoreOp::kSet, keys);
  request.values = values;
  call(std::move(request), by_default());
}

ByteVector Store::get(const std::string& key, Deadline deadline) {
  auto reply = call(request_for(StoreOp::kGet, key), deadline);
  return std::move(reply.values.at(0));
}

std::vector<ByteVector> Store::multi_get(const std::vector<std::string>& keys,
                                         Deadline deadline) {
  return call(request_for(StoreOp::kGet, keys), deadline).values;
}

void Store::wait(const std::vector<std::string>& keys, Deadline deadline) {
  call(request_for(StoreOp::kWait, keys), deadline);
}

bool Store::check(const std::vector<std::string>& keys) {
  return call(request_for(StoreOp::kCheck, keys), by_default()).number != 0;
}

int64_t Store::add(const std::string& key, int64_t delta) {
  StoreRequest request = request_for(StoreOp::kAdd, key);
  request.delta = delta;
  return call(std::move(request), by_default()).number;
}

void Store::append(const std::string& key, ConstBytes value) {
  call(request_for(StoreOp::kAppend, key, value), by_default());
}

Store::CompareSetResult Store::compare_set(const std::string& key,
                                           std::optional<ConstBytes> expected,
                                           ConstBytes desired) {
  StoreRequest request = request_for(StoreOp::kCompareSet, key, desired);
  if (expected) request.values.push_back(to_vector(*expected));
  StoreReply reply = call(std::move(request), by_default());
  CompareSetResult result{reply.number != 0, std::nullopt};
  if (!reply.values.empty()) result.value = std::move(reply.values[0]);
  return result;
}

bool Store::delete_key(const std::string& key) {
  return call(request_for(StoreOp::kDelete, key), by_default()).number != 0;
}

int64_t Store::num_keys(const std::string& prefix) {
  return call(request_for(StoreOp::kNumKeys, prefix), by_default()).number;
}

void Store::push(const std::string& queue, ConstBytes value) {
  call(request_for(StoreOp::kPush, queue, value), by_default());
}

ByteVector Store::pop(const std::string& queue, Deadline deadline) {
  auto reply = call(request_for(StoreOp::kPop, queue), deadline);
  return std::move(reply.values.at(0));
}

int64_t Store::length(const std::string& queue) {
  return call(request_for(StoreOp::kLength, queue), by_default()).number;
}

namespace detail {

void throw_store_timeout(StoreOp op, const std::vector<std::string>& missing,
                         Deadline::Duration waited) {
  constexpr size_t kMostNamed = 16;
  std::string names;
  for (size_t i = 0; i < missing.size() && i < kMostNamed; ++i) {
    names +=
        fmt::format("{}'{}'", i == 0 ? "" : ", ", to_printable(missing[i]));
  }
  if (missing.size() > kMostNamed) {
    names += fmt::format(" and {} more", missing.size() - kMostNamed);
  }
  if (op == StoreOp::kPop) {
    throw TimeoutError(
        fmt::format("queue {} stayed empty for {}; is the rank "
                    "that pushes to it still running?",
                    names, to_text(waited)));
  }
  throw TimeoutError(fmt::format(
      "{} {} did not appear within {}; is the rank that sets {} still running?",
      missing.size() == 1 ? "key" : "keys", names, to_text(waited),
      missing.size() == 1 ? "it" : "them"));
}

}  // namespace detail
}  // namespace lockstep
