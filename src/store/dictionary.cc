// SPDX-License-Identifier: Apache-2.0
#include "store/dictionary.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

Dictionary::Outcome number(int64_t value, bool changed = false) {
  Dictionary::Outcome outcome;
  outcome.reply.number = value;
  outcome.changed = changed;
  return outcome;
}

int64_t parse_counter(const std::string& key, const ByteVector& value) {
  const auto* begin = reinterpret_cast<const char*>(value.data());
  const auto* end = begin + value.size();
  int64_t counter = 0;
  const auto [parsed, error] = std::from_chars(begin, end, counter);
  LOCKSTEP_CHECK(error == std::errc() && parsed == end, UsageError,
                 "key '{}' holds '{}', which is no number to add to",
                 to_printable(key), to_printable(value, 40));
  return counter;
}

}  // namespace

std::optional<Dictionary::Outcome> Dictionary::apply(
    const StoreRequest& request) {
  if (first_missing(request)) return std::nullopt;
  switch (request.op) {
    case StoreOp::kSet:
      return set(request);
    case StoreOp::kGet:
      return get(request);
    case StoreOp::kAdd:
      return add(request);
    case StoreOp::kCompareSet:
      return compare_set(request);
    case StoreOp::kDelete: {
      const bool erased = values_.erase(request.keys[0]) > 0;
      return number(erased ? 1 : 0, erased);
    }
    case StoreOp::kCheck: {
      const auto exists = [&](const auto& key) { return values_.count(key); };
      return number(
          std::all_of(request.keys.begin(), request.keys.end(), exists));
    }
    case StoreOp::kWait:
      return number(0);
    case StoreOp::kAppend:
      return append(request);
    case StoreOp::kNumKeys:
      return number(count(request.keys[0]));
    case StoreOp::kPush:
      queues_[request.keys[0]].push_back(request.values[0]);
      return number(0, true);
    case StoreOp::kPop:
      return pop(request);
    case StoreOp::kLength: {
      const auto queue = queues_.find(request.keys[0]);
      return number(queue == queues_.end()
                        ? 0
                        : static_cast<int64_t>(queue->second.size()));
    }
  }
  throw UsageError("this store does not know that operation");
}

bool Dictionary::is_missing(StoreOp op, const std::string& key) const {
  return op == StoreOp::kPop ? queues_.count(key) == 0
                             : values_.count(key) == 0;
}

std::vector<std::string> Dictionary::missing(
    const StoreRequest& request) const {
  std::vector<std::string> missing;
  if (!is_waiting(request.op)) return missing;
  for (const auto& key : request.keys) {
    if (is_missing(request.op, key)) missing.push_back(key);
  }
  return missing;
}

std::optional<std::string> Dictionary::first_missing(
    const StoreRequest& request) const {
  if (!is_waiting(request.op)) return std::nullopt;
  for (const auto& key : request.keys) {
    if (is_missing(request.op, key)) return key;
  }
  return std::nullopt;
}

void Dictionary::clear() {
  values_.clear();
  queues_.clear();
}

Dictionary::Outcome Dictionary::set(const StoreRequest& request) {
  for (size_t i = 0; i < request.keys.size(); ++i) {
    values_[request.keys[i]] = request.values[i];
  }
  return number(0, !request.keys.empty());
}

Dictionary::Outcome Dictionary::get(const StoreRequest& request) const {
  Outcome outcome;
  size_t total = 0;
  for (const auto& key : request.keys) {
    const ByteVector& value = values_.at(key);
    total += value.size();
    LOCKSTEP_CHECK(total <= kMostRequestBytes, UsageError,
                   "the values of these {} keys together exceed {} bytes; ask "
                   "for fewer at a time",
                   request.keys.size(), kMostRequestBytes);
    outcome.reply.values.push_back(value);
  }
  return outcome;
}

Dictionary::Outcome Dictionary::add(const StoreRequest& request) {
  const std::string& key = request.keys[0];
  const auto found = values_.find(key);
  const int64_t before =
      found == values_.end() ? 0 : parse_counter(key, found->second);
  int64_t sum = 0;
  LOCKSTEP_CHECK(!__builtin_add_overflow(before, request.delta, &sum),
                 UsageError,
                 "adding {} to counter '{}' at {} overflows 64 bits",
                 request.delta, to_printable(key), before);
  // Adding 0 to a counter that is there reads it; to one that is not, makes it.
  const bool changed = found == values_.end() || sum != before;
  if (changed) values_[key] = to_vector(fmt::format("{}", sum));
  return number(sum, changed);
}

Dictionary::Outcome Dictionary::compare_set(const StoreRequest& request) {
  const auto found = values_.find(request.keys[0]);
  const bool expects_absent = request.values.size() == 1;
  const bool matches =
      found == values_.end()
          ? expects_absent
          : !expects_absent && found->second == request.values[1];
  Outcome outcome = number(matches ? 1 : 0, matches);
  if (matches) {
    values_[request.keys[0]] = request.values[0];
    outcome.reply.values.push_back(request.values[0]);
  } else if (found != values_.end()) {
    outcome.reply.values.push_back(found->second);
  }
  return outcome;
}

Dictionary::Outcome Dictionary::append(const StoreRequest& request) {
  const ByteVector& more = request.values[0];
  const auto found = values_.find(request.keys[0]);
  const size_t before = found == values_.end() ? 0 : found->second.size();
  LOCKSTEP_CHECK(before + more.size() <= kMostValueBytes, UsageError,
                 "key '{}' has {} bytes; {} more pass the limit of {}",
                 to_printable(request.keys[0]), before, more.size(),
                 kMostValueBytes);
  ByteVector& value = values_[request.keys[0]];
  value.insert(value.end(), more.begin(), more.end());
  return number(0, true);
}

Dictionary::Outcome Dictionary::pop(const StoreRequest& request) {
  const auto queue = queues_.find(request.keys[0]);
  Outcome outcome;
  outcome.changed = true;
  outcome.reply.values.push_back(std::move(queue->second.front()));
  queue->second.pop_front();
  if (queue->second.empty()) queues_.erase(queue);
  return outcome;
}

int64_t Dictionary::count(const std::string& prefix) const {
  if (prefix.empty()) return static_cast<int64_t>(values_.size());
  return std::count_if(values_.begin(), values_.end(), [&](const auto& entry) {
    return entry.first.compare(0, prefix.size(), prefix) == 0;
  });
}

}  // namespace lockstep::detail
