// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/comm/process_group.h"
#include "support/message_of.h"
#include "support/rank_team.h"
#include "support/support.h"

// The contract of every backend, as users of a group see it: what collectives
// compute, in which order things happen, and how they fail. Its tests are in
// the files backend_*_test.cc; backend_kinds_test.cc says which backends there
// are.
namespace lockstep {

class BackendContract : public ::testing::TestWithParam<testing::BackendKind> {
 protected:
  // Runs `body` on `size` ranks of a new group.
  void run_ranks(int size, const testing::RankTeam::Body& body,
                 const GroupOptions& options = {}) {
    testing::run_ranks(GetParam(), size, body, options);
  }
};

// For calls that should be waited for on the spot.
inline CallOptions in_sync() {
  CallOptions options;
  options.sync = true;
  return options;
}

inline CallOptions with_timeout(Deadline::Duration timeout) {
  CallOptions options;
  options.timeout = timeout;
  return options;
}

// The kind of the error that ended `group`.
inline ErrorKind failure_kind(const ProcessGroup& group) {
  try {
    if (auto error = group.failure()) std::rethrow_exception(error);
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "the group has not failed";
  return ErrorKind::kInternal;
}

// Whether all elements have one value; quicker than Each() for many.
template <class T>
bool all_are(const std::vector<T>& values, T value) {
  return std::all_of(values.begin(), values.end(),
                     [&](const T& one) { return one == value; });
}

constexpr int64_t kLastTag = (int64_t{1} << 31) - 1;

// Nothing in this contract may take longer, however it fails: ten times what
// a loaded machine needs.
constexpr auto kAtOnce = std::chrono::seconds(10);

// Fails the test when it lives longer than that.
class Quickly {
 public:
  ~Quickly() { EXPECT_LT(Deadline::Clock::now() - start_, kAtOnce); }

 private:
  const Deadline::Clock::time_point start_ = Deadline::Clock::now();
};

// A group of its own for what ends it, made on all ranks when this returns:
// whoever breaks it at once would otherwise fail those still making it.
inline std::shared_ptr<ProcessGroup> short_group(ProcessGroup& world) {
  auto group = world.duplicate("short");
  world.barrier()->wait();
  return group;
}

}  // namespace lockstep
