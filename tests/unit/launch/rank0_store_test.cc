// SPDX-License-Identifier: Apache-2.0
#include "launch/rank0_store.h"

#include <atomic>
#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/net/listener.h"
#include "lockstep/store/tcp_store.h"
#include "lockstep/store/tcp_store_server.h"
#include "support/support.h"
#include "unit/launch/launch_support.h"

namespace lockstep::detail {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

uint16_t free_port() { return TcpStoreServer("127.0.0.1", 0, "").port(); }

class Rank0Store : public ::testing::Test {
 protected:
  Rank0Store() { options_.timeout = 30s; }

  Place place(int rank, int master_port) const {
    Place place;
    place.starter = Starter::kTorchrun;
    place.rank = rank;
    place.size = 2;
    place.local_size = 2;
    place.job_id = "job";
    place.master_port = master_port;
    return place;
  }

  std::shared_ptr<Store> open(int rank, int master_port) const {
    return open_rank0_store(place(rank, master_port), options_);
  }

  std::string complaint(const Place& place) const {
    try {
      open_rank0_store(place, options_);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  }

  static void expect_same(Store& one, Store& other) {
    one.set("k", "v");
    EXPECT_EQ(to_string(other.get("k", Deadline::in(20s))), "v");
  }

  testing::CleanEnvironment env_;
  StoreUrlOptions options_;
};

TEST_F(Rank0Store, IsServedByRank0) {
  const int master = free_port();
  const auto zero = open(0, master);
  const auto one = open(1, master);
  expect_same(*zero, *one);
}

TEST_F(Rank0Store, MayBeLookedForBeforeItIsThere) {
  const int master = free_port();
  std::shared_ptr<Store> stores[2];
  std::atomic<bool> looking{false};
  testing::run_threads(2, [&](int rank) {
    if (rank == 0) {
      EXPECT_TRUE(testing::eventually([&] { return looking.load(); }));
    }
    looking = true;
    stores[rank] = open(rank, master);
  });
  expect_same(*stores[0], *stores[1]);
  stores[1].reset();  // before rank 0, which waits for it
}

TEST_F(Rank0Store, MovesOnFromAPortThatIsTaken) {
  // Somebody else listens beside the master port, and does not answer.
  const Listener taken(resolve({"127.0.0.1", 0}, Deadline::in(20s)).at(0));
  const int master = taken.address().port() - 1;
  const auto zero = open(0, master);
  const auto one = open(1, master);
  expect_same(*zero, *one);
}

TEST_F(Rank0Store, IsNotTheStoreOfAnotherJob) {
  const TcpStoreServer taken("127.0.0.1", 0, "");
  TcpStore("127.0.0.1", taken.port(), "").set("job", "another");
  const int master = taken.port() - 1;
  const auto zero = open(0, master);
  const auto one = open(1, master);
  expect_same(*zero, *one);
  EXPECT_EQ(TcpStore("127.0.0.1", taken.port(), "").num_keys(), 1);
}

TEST_F(Rank0Store, IsWhereLockstepPortSays) {
  for (int tries = 0;; ++tries) {
    const uint16_t port = free_port();
    env_.set("LOCKSTEP_PORT", std::to_string(port));
    try {
      const auto zero = open(0, 1);
      const auto one = open(1, 1);
      expect_same(*zero, *one);
      TcpStore there("127.0.0.1", port, "");
      expect_same(*zero, there);
      return;
    } catch (const SystemError& error) {
      if (error.error_number() != EADDRINUSE || tries == 20) throw;
    }
  }
}

TEST_F(Rank0Store, SaysWhereItWasLookedFor) {
  options_.timeout = 1ms;
  const int master = free_port();
  try {
    open(1, master);
    FAIL();
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("127.0.0.1:" + std::to_string(master + 1)),
                      HasSubstr("LOCKSTEP_PORT")));
  }
}

TEST_F(Rank0Store, NeedsAnAddressAndASecretOverSeveralHosts) {
  Place far = place(1, 29500);
  far.local_size = 1;
  EXPECT_THAT(complaint(far),
              AllOf(HasSubstr("MASTER_ADDR"), HasSubstr("torchrun")));
  far.master_host = "127.0.0.1";
  EXPECT_THAT(complaint(far), HasSubstr("LOCKSTEP_SECRET_FILE"));
}

TEST_F(Rank0Store, ComplainsOfAPortOutOfRange) {
  EXPECT_THAT(complaint(place(1, 65535)),
              AllOf(HasSubstr("65536"), HasSubstr("LOCKSTEP_PORT")));
  env_.set("LOCKSTEP_PORT", "65536");
  EXPECT_THAT(complaint(place(1, 1)), HasSubstr("65536"));
  env_.set("LOCKSTEP_PORT", "0");
  EXPECT_THAT(complaint(place(1, 1)), HasSubstr("port 0"));
}

// There are fewer ports after it to move on to, but some.
TEST_F(Rank0Store, MayBeAmongTheLastPorts) {
  options_.timeout = 1ms;
  EXPECT_THROW(open(1, 65533), TimeoutError);
}

}  // namespace
}  // namespace lockstep::detail
