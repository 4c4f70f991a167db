// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/backend/local.h"
#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "support/support.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::run_threads;

// Gathers `mine` of every rank, whose sizes nobody knows before.
std::shared_ptr<Work> gather_all(ProcessGroup& group, std::vector<int>& mine,
                                 std::vector<int>& all) {
  const int size = group.size();
  return group.compose(
      OpKind::kAllGather, [&mine, &all, size](LaneCalls& lane) {
        int64_t length = static_cast<int64_t>(mine.size());
        std::vector<int64_t> lengths(static_cast<size_t>(size));
        lane.all_gather(buffer_of(&length, 1), buffer_of(lengths), {});
        const std::vector<size_t> counts(lengths.begin(), lengths.end());
        size_t total = 0;
        for (const size_t count : counts) total += count;
        all.resize(total);
        lane.all_gather(buffer_of(mine), buffer_of(all), counts);
      });
}

TEST(Compose, LaterCallsMayDependOnEarlierOnes) {
  auto groups = make_local_groups(3);
  run_threads(3, [&](int rank) {
    auto& group = *groups[static_cast<size_t>(rank)];
    std::vector<int> mine(static_cast<size_t>(rank), rank);
    std::vector<int> all;
    const auto work = gather_all(group, mine, all);
    EXPECT_EQ(work->op(), OpKind::kAllGather);
    EXPECT_EQ(work->sequence_number(), 0);
    EXPECT_EQ(group.sequence_number(), 1);
    work->wait();
    EXPECT_THAT(all, ElementsAre(1, 2, 2));
    // And the lane goes on as usual.
    float x = 1;
    group.all_reduce(buffer_of(&x, 1))->wait();
    EXPECT_EQ(x, 3);
  });
}

TEST(Compose, AStepThatThrowsEndsTheGroupForAll) {
  auto groups = make_local_groups(2);
  run_threads(2, [&](int rank) {
    auto& group = *groups[static_cast<size_t>(rank)];
    const auto work = group.compose(OpKind::kAllReduce, [&](LaneCalls& lane) {
      float x = 1;
      lane.all_reduce(buffer_of(&x, 1), ReduceOp::kSum);
      if (rank == 1) throw std::runtime_error("no more");
      lane.all_reduce(buffer_of(&x, 1), ReduceOp::kSum);
    });
    if (rank == 1) {
      EXPECT_THROW(work->wait(), std::runtime_error);
      return;
    }
    EXPECT_THAT(message_of<AbortedError>([&] { work->wait(); }),
                HasSubstr("rank 1 ended the group: no more"));
  });
}

TEST(Compose, DifferentStepsAreAMismatch) {
  auto groups = make_local_groups(2);
  run_threads(2, [&](int rank) {
    auto& group = *groups[static_cast<size_t>(rank)];
    const auto work = group.compose(OpKind::kAllReduce, [&](LaneCalls& lane) {
      std::vector<float> x(static_cast<size_t>(rank + 1));
      lane.all_reduce(buffer_of(x), ReduceOp::kSum);
    });
    EXPECT_THAT(message_of<MismatchError>([&] { work->wait(); }),
                HasSubstr("rank 1 called all_reduce #0 (sum) of float32 [2]"));
  });
}

}  // namespace
}  // namespace lockstep
