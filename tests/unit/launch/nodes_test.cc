// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes.h"

#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/round.h"
#include "lockstep/base/error.h"
#include "lockstep/store/hash_store.h"
#include "lockstep/store/tcp_store.h"
#include "lockstep/store/tcp_store_server.h"
#include "support/support.h"
#include "unit/launch/launch_support.h"

namespace lockstep::detail {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::is_readable;
using testing::run_threads;
using testing::soon;

bool never() { return false; }

// One rank per host.
const Nodes::Host kHost{1, 0, "job", 4000};

// `body(nodes, i)` for each launcher of a job, at once, over one store.
void run_nodes(int count, const std::function<void(Nodes&, int)>& body) {
  const auto store = std::make_shared<HashStore>();
  run_threads(count, [&](int i) {
    Nodes nodes(store, i, count, never);
    body(nodes, i);
  });
}

TEST(Nodes, CountRanksOverTheHosts) {
  run_nodes(3, [](Nodes& nodes, int i) {
    const int ranks[] = {2, 3, 4};
    const int first[] = {0, 2, 5};
    const auto layout =
        nodes.join({ranks[i], 1, "job-" + std::to_string(i), 4000 + i}, soon());
    EXPECT_EQ(layout.first_rank, first[i]);
    EXPECT_EQ(layout.world_size, 9);
    // The job is named by node 0, and its master is there.
    EXPECT_EQ(layout.job_id, "job-0");
    EXPECT_EQ(layout.master_port, 4000);
  });
}

// What node `node` says when it waits for the others in vain.
std::string complaint_of(const std::shared_ptr<Store>& store, int node,
                         int nodes) {
  try {
    Nodes(store, node, nodes, never).join(kHost, Deadline::in(20ms));
  } catch (const TimeoutError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Nodes, NameTheHostsThatAreMissing) {
  const auto store = std::make_shared<HashStore>();
  EXPECT_THAT(complaint_of(store, 0, 4), HasSubstr("1, 2, 3 of 4"));
  EXPECT_THAT(
      complaint_of(store, 2, 4),
      AllOf(HasSubstr("20 ms"), HasSubstr("launchers with node rank 1, 3 of 4"),
            HasSubstr("--rendezvous")));
}

TEST(Nodes, NameOneHostThatIsMissing) {
  const auto store = std::make_shared<HashStore>();
  for (int node = 0; node < 9; ++node) complaint_of(store, node, 11);
  EXPECT_THAT(complaint_of(store, 9, 11),
              HasSubstr("the launcher with node rank 10 of 11"));
}

TEST(Nodes, FindTwoLaunchersWithOneNodeRank) {
  const auto store = std::make_shared<HashStore>();
  Nodes first(store, 0, 2, never);
  EXPECT_THROW(first.join(kHost, Deadline::in(1ms)), TimeoutError);
  Nodes second(store, 0, 2, never);
  try {
    second.join({1, 0, "other job", 1}, soon());
    FAIL();
  } catch (const MismatchError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--node-rank 0"));
  }
  // The first is not disturbed.
  EXPECT_EQ(to_string(store->get("job id")), "job");
}

TEST(Nodes, FindNumbersOfHostsThatDiffer) {
  const auto store = std::make_shared<HashStore>();
  Nodes first(store, 0, 2, never);
  EXPECT_THROW(first.join(kHost, Deadline::in(1ms)), TimeoutError);
  Nodes second(store, 1, 3, never);
  try {
    second.join(kHost, soon());
    FAIL();
  } catch (const MismatchError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("--nnodes 3"), HasSubstr("--nnodes 2")));
  }
}

TEST(Nodes, FindNumbersOfRestartsThatDiffer) {
  const auto store = std::make_shared<HashStore>();
  Nodes first(store, 0, 2, never);
  EXPECT_THROW(first.join({1, 3, "job", 1}, Deadline::in(1ms)), TimeoutError);
  Nodes second(store, 1, 2, never);
  try {
    second.join({1, 2, "job", 1}, soon());
    FAIL();
  } catch (const MismatchError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("--max-restarts 2"),
                                    HasSubstr("--max-restarts 3")));
  }
}

TEST(Nodes, StopWaitingWhenInterrupted) {
  const auto store = std::make_shared<HashStore>();
  int asked = 0;
  const auto soon_interrupted = [&] { return ++asked % 3 == 0; };
  Nodes one(store, 1, 2, soon_interrupted);
  EXPECT_THROW(one.join(kHost, Deadline::in(1h)), AbortedError);
  EXPECT_EQ(asked, 3);
  EXPECT_THROW(one.begin_round(0, "job.0", Deadline::in(1h)), AbortedError);
  EXPECT_EQ(asked, 6);
  EXPECT_EQ(one.end_round(0, "failed", 1, 1h).exit_code, 1);
  EXPECT_EQ(asked, 9);
}

TEST(Nodes, WaitAfterAFailureUntilAllHaveEnded) {
  std::atomic<bool> failed{false};
  std::atomic<bool> ended{false};
  run_nodes(3, [&](Nodes& nodes, int i) {
    nodes.begin_round(0, "job.0", soon());
    if (i == 1) failed = true;
    if (i == 2) {
      EXPECT_TRUE(is_readable(nodes.stop_fd(), soon()));
      EXPECT_TRUE(failed);
      ended = true;
    }
    EXPECT_EQ(nodes.end_round(0, "failed", i == 1 ? 5 : 0, 30s).exit_code, 5);
    EXPECT_TRUE(ended) << "node " << i << " did not wait";
    nodes.leave();
  });
}

TEST(Nodes, EndARoundTogether) {
  std::atomic<int> ended{0};
  run_nodes(3, [&](Nodes& nodes, int i) {
    nodes.begin_round(0, "job.0", soon());
    if (i == 2) {  // the last waits until the others are at it, or about to be
      EXPECT_TRUE(testing::eventually([&] { return ended == 2; }));
    }
    ++ended;
    const auto verdict = nodes.end_round(0, "", 0, 30s);
    EXPECT_EQ(ended, 3) << "it did not wait for all";
    EXPECT_EQ(verdict.exit_code, 0);
    EXPECT_EQ(verdict.report, "");
    EXPECT_FALSE(is_readable(nodes.stop_fd(), Deadline::in(0s)));
    nodes.leave();
  });
}

TEST(Nodes, StopEverywhereWhenOneFails) {
  run_nodes(3, [](Nodes& nodes, int i) {
    nodes.begin_round(0, "job.0", soon());
    if (i == 1) {
      const auto verdict =
          nodes.end_round(0, "rank 3 failed\nits lines\n", 7, 30s);
      EXPECT_EQ(verdict.exit_code, 7);
      EXPECT_EQ(verdict.report, "rank 3 failed\nits lines\n");
    } else {
      EXPECT_TRUE(is_readable(nodes.stop_fd(), soon()));
      const auto verdict = nodes.end_round(0, "", 0, 30s);
      EXPECT_EQ(verdict.exit_code, 7);
      EXPECT_EQ(verdict.report, "rank 3 failed\nits lines\n");
      EXPECT_FALSE(verdict.is_last);
    }
    nodes.leave();
  });
}

TEST(Nodes, AgreeOnTheFailureThatCameFirst) {
  std::atomic<bool> said{false};
  run_nodes(3, [&](Nodes& nodes, int i) {
    nodes.begin_round(0, "job.0", soon());
    if (i != 2) {  // told by the others, these fail as well
      EXPECT_TRUE(is_readable(nodes.stop_fd(), soon()));
      EXPECT_TRUE(said);
    }
    said = true;
    const auto verdict =
        nodes.end_round(0, "report of " + std::to_string(i), 10 + i, 30s);
    EXPECT_EQ(verdict.exit_code, 12);
    EXPECT_EQ(verdict.report, "report of 2");
    nodes.leave();
  });
}

TEST(Nodes, WaitUntilNode0HasBegunTheRound) {
  const auto store = std::make_shared<HashStore>();
  Nodes one(store, 1, 2, never);
  EXPECT_THROW(one.begin_round(0, "job.0", Deadline::in(20ms)), TimeoutError);
  Nodes zero(store, 0, 2, never);
  zero.begin_round(0, "job.0", soon());
  one.begin_round(0, "job.0", soon());
  EXPECT_NO_THROW(check_round(*store, "job.0"));
  EXPECT_THROW(one.begin_round(1, "job.1", Deadline::in(20ms)), TimeoutError);
}

TEST(Nodes, BeginAnotherRoundAfresh) {
  run_nodes(2, [](Nodes& nodes, int i) {
    nodes.begin_round(0, "job.0", soon());
    if (i == 0) {
      EXPECT_TRUE(is_readable(nodes.stop_fd(), soon()));
    }
    EXPECT_EQ(nodes.end_round(0, "failed", i, 30s).exit_code, 1);
    nodes.begin_round(1, "job.1", soon());
    EXPECT_FALSE(is_readable(nodes.stop_fd(), Deadline::in(0s)));
    const auto verdict = nodes.end_round(1, "", 0, 30s);
    EXPECT_EQ(verdict.exit_code, 0);
    EXPECT_EQ(verdict.report, "");
    nodes.leave();
  });
}

TEST(Nodes, DoNotWaitForeverOnceOneHasFailed) {
  const auto store = std::make_shared<HashStore>();
  Nodes nodes(store, 0, 2, never);  // the other never ends its round
  nodes.begin_round(0, "job.0", soon());
  const auto verdict = nodes.end_round(0, "failed", 3, 50ms);
  EXPECT_EQ(verdict.exit_code, 3);
}

TEST(Nodes, ServeUntilAllHaveHeard) {
  std::atomic<int> left{0};
  run_nodes(3, [&](Nodes& nodes, int i) {
    if (i != 0) ++left;
    nodes.leave();
    if (i == 0) {
      EXPECT_EQ(left, 2);
    }
  });
}

TEST(Nodes, StopWhenTheStoreIsGone) {
  auto server = std::make_optional<TcpStoreServer>("127.0.0.1", 0, "");
  const auto connect = [&] {
    return std::make_shared<TcpStore>("127.0.0.1", server->port(), "");
  };
  Nodes zero(connect(), 0, 2, never);
  zero.begin_round(0, "job.0", soon());
  Nodes nodes(connect(), 1, 2, never);
  nodes.begin_round(0, "job.0", soon());
  EXPECT_FALSE(is_readable(nodes.stop_fd(), Deadline::in(0s)));
  server.reset();
  EXPECT_TRUE(is_readable(nodes.stop_fd(), soon()));
  const auto verdict = nodes.end_round(0, "", 0, 30s);
  EXPECT_EQ(verdict.exit_code, 1);
  EXPECT_THAT(verdict.report, HasSubstr("lost the launcher of node 0"));
  EXPECT_TRUE(verdict.is_last);
  nodes.leave();  // there is nobody to tell
}

// Takes the ten seconds after which a launcher counts as dead.
TEST(Nodes, SayWhoHasFallenSilent) {
  const auto store = std::make_shared<HashStore>();
  Nodes nodes(store, 0, 2, never);  // nothing is ever heard of node 1
  nodes.begin_round(0, "job.0", soon());
  EXPECT_TRUE(is_readable(nodes.stop_fd(), Deadline::in(60s)));
  const auto verdict = nodes.end_round(0, "", 0, 0s);
  EXPECT_EQ(verdict.exit_code, 1);
  EXPECT_TRUE(verdict.is_last);
  EXPECT_THAT(verdict.report, HasSubstr("node 1 has not been heard of"));
}

TEST(Nodes, AnswerAtOnceForASingleHost) {
  const auto store = std::make_shared<HashStore>();
  Nodes nodes(store, 0, 1, never);
  const auto layout = nodes.join({4, 0, "job", 4000}, Deadline::in(0s));
  EXPECT_EQ(layout.first_rank, 0);
  EXPECT_EQ(layout.world_size, 4);
  EXPECT_EQ(layout.job_id, "job");
  EXPECT_EQ(layout.master_port, 4000);
  nodes.begin_round(0, "job.0", Deadline::in(0s));
  EXPECT_NO_THROW(check_round(*store, "job.0"));
  EXPECT_THROW(check_round(*store, "job.1"), MismatchError);
  EXPECT_FALSE(is_readable(nodes.stop_fd(), Deadline::in(0s)));
  const auto verdict = nodes.end_round(0, "rank 1 failed", 9, 0s);
  EXPECT_EQ(verdict.exit_code, 9);
  EXPECT_EQ(verdict.report, "rank 1 failed");
  EXPECT_FALSE(verdict.is_last);
  nodes.leave();
}

}  // namespace
}  // namespace lockstep::detail
