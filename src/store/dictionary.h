// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/store/request.h"

namespace lockstep::detail {

// The contents of a store, and what each request means to them: the one place
// where that is written. It never waits; HashStore, FileStore and the TCP
// server put their own ways of waiting around it.
//
// It is deterministic: the same requests in the same order give the same
// contents, which is what lets FileStore replay a log of requests.
//
// Threads: one at a time.
class Dictionary {
 public:
  struct Outcome {
    StoreReply reply;
    bool changed = false;  // keys or queues are not what they were
  };

  // Carries out `request`; nullopt when it has to wait first. Errors:
  // UsageError as Store says, and then nothing has changed.
  std::optional<Outcome> apply(const StoreRequest& request);

  // What a request has to wait for: keys, or a queue. Empty when nothing.
  std::vector<std::string> missing(const StoreRequest& request) const;
  // The first of them.
  std::optional<std::string> first_missing(const StoreRequest& request) const;

  void clear();

 private:
  Outcome set(const StoreRequest& request);
  Outcome get(const StoreRequest& request) const;
  Outcome add(const StoreRequest& request);
  Outcome compare_set(const StoreRequest& request);
  Outcome append(const StoreRequest& request);
  Outcome pop(const StoreRequest& request);
  int64_t count(const std::string& prefix) const;
  bool is_missing(StoreOp op, const std::string& key) const;

  std::unordered_map<std::string, ByteVector> values_;
  std::unordered_map<std::string, std::deque<ByteVector>> queues_;  // not empty
};

}  // namespace lockstep::detail
