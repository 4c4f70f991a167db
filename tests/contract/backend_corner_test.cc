// SPDX-License-Identifier: Apache-2.0
// Corners in which a group once hung, crashed or lied.
#include <thread>

#include "contract/backend_contract.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

TEST_P(BackendContract, AMessageThatMeetsATimeoutIsNeverLost) {
  run_ranks(2, [](ProcessGroup& group) {
    constexpr int kMessages = 3000;
    if (group.rank() == 0) {
      for (int i = 0; i < kMessages; ++i) group.send(buffer_of(&i, 1), 1);
      return group.barrier()->wait();
    }
    // Impatient receives, so that many end just as their message comes.
    int expected = 0;
    const Deadline limit = Deadline::in(60s);
    while (expected < kMessages && !limit.passed()) {
      int got = -1;
      try {
        group.recv(buffer_of(&got, 1), 0, 0, with_timeout(20us))->wait();
        ASSERT_EQ(got, expected++);
      } catch (const TimeoutError&) {
        ASSERT_EQ(got, -1) << "a receive that timed out has written";
      }
    }
    EXPECT_EQ(expected, kMessages);
    group.barrier()->wait();
  });
}

TEST_P(BackendContract, CoalescedPartsThatDifferAreAMismatch) {
  run_ranks(2, [](ProcessGroup& group) {
    const bool first = group.rank() == 0;
    std::vector<float> a(first ? 2 : 4, 1);
    std::vector<float> b(first ? 4 : 2, 2);
    const auto work = group.all_reduce_coalesced({buffer_of(a), buffer_of(b)},
                                                 ReduceOp::kSum);
    message_of<MismatchError>([&] { work->wait(); });
    EXPECT_TRUE(all_are(a, 1.0F));
    EXPECT_TRUE(all_are(b, 2.0F));
  });
}

TEST_P(BackendContract, AFinishMayNotWaitWhereverItRuns) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<float> x = {1};
    std::string refused;
    CallOptions options = in_sync();
    options.finish = [&] {
      refused = message_of<UsageError>([&] { group.barrier(in_sync()); });
    };
    group.all_reduce(buffer_of(x), ReduceOp::kSum, options);
    EXPECT_THAT(refused, HasSubstr("waiting on a lane thread"));
    group.barrier()->wait();
  });
}

TEST_P(BackendContract, ARankZeroThatComesTooLateFailsLikeTheOthers) {
  run_ranks(2, [](ProcessGroup& group) {
    const Quickly quickly;
    if (group.rank() == 0) {
      // Until the other has given up: it says so by a message.
      float gone = 0;
      group.recv(buffer_of(&gone, 1), 1)->wait();
      EXPECT_THAT(
          message_of<TimeoutError>([&] { group.monitored_barrier(100ms); }),
          HasSubstr("given up"));
      return;
    }
    const std::string message =
        message_of<TimeoutError>([&] { group.monitored_barrier(100ms); });
    EXPECT_THAT(message, HasSubstr("monitored_barrier #0"));
    EXPECT_THAT(message, HasSubstr("rank 0 did not come"));
    float x = 0;
    group.send(buffer_of(&x, 1), 0)->wait();
  });
}

TEST_P(BackendContract, AMonitoredBarrierMayHaveAllTheTimeThereIs) {
  run_ranks(2, [](ProcessGroup& group) {
    group.monitored_barrier(Deadline::Duration::max());
  });
}

TEST_P(BackendContract, BuffersThatCannotBeAreRefused) {
  run_ranks(2, [](ProcessGroup& group) {
    float x = 0;
    const Buffer huge{&x, size_t{1} << 62, DType::kFloat32};
    message_of<UsageError>([&] { group.all_reduce(huge); });
    message_of<UsageError>([&] {
      group.all_to_all(buffer_of(&x, 1), buffer_of(&x, 1), {~size_t{0}, 2},
                       {~size_t{0}, 2});
    });
    const Buffer nothing{nullptr, 2, DType::kFloat32};
    message_of<UsageError>(
        [&] { group.all_gather_coalesced({buffer_of(&x, 1)}, {nothing}); });
    message_of<UsageError>([&] {
      group.reduce_scatter_coalesced({nothing}, {buffer_of(&x, 1)},
                                     ReduceOp::kSum);
    });
    message_of<UsageError>([] { ReduceOp::premul_sum({nullptr, 1}); });
    EXPECT_EQ(group.sequence_number(), 0);
  });
}

TEST_P(BackendContract, NamesOfSubGroupsNeverCollide) {
  run_ranks(1, [](ProcessGroup& group) {
    message_of<UsageError>([&] { group.duplicate("a/b"); });
    message_of<UsageError>([&] { group.duplicate("0:1"); });
    EXPECT_NE(group.duplicate("a")->name(), group.duplicate("a")->name());
  });
}

TEST_P(BackendContract, WithoutNoticesNothingIsLogged) {
  const testing::LogCapture log;
  GroupOptions options;
  options.notice_after = 0s;
  run_ranks(
      2,
      [](ProcessGroup& group) {
        if (group.rank() == 0) return;
        float x = 0;
        message_of<TimeoutError>([&] {
          group.recv(buffer_of(&x, 1), 0, 0, with_timeout(50ms))->wait();
        });
      },
      options);
  EXPECT_EQ(log.count("has been waiting"), 0);
}

TEST_P(BackendContract, AnAbortedCallSaysWhatItWasAndNamesTheCauseOnce) {
  run_ranks(1, [](ProcessGroup& group) {
    group.abort("enough");
    const std::string message =
        message_of<AbortedError>([&] { group.barrier(); });
    EXPECT_THAT(message, HasSubstr("barrier on group"));
    EXPECT_EQ(message.find("enough"), message.rfind("enough")) << message;
  });
}

}  // namespace
}  // namespace lockstep
