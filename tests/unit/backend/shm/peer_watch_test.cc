// SPDX-License-Identifier: Apache-2.0
#include "backend/shm/peer_watch.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

#include "lockstep/base/error.h"
#include "support/child.h"
#include "support/support.h"

namespace lockstep::detail {
namespace {

using testing::eventually;

TEST(PeerWatch, TellsOnceThatAProcessHasEnded) {
  testing::Child quick({"/bin/sleep", "1000"});
  testing::Child slow({"/bin/sleep", "1000"});
  PeerWatch watch;
  std::atomic<int> ends{0};
  std::atomic<int> others{0};
  const auto one = watch.watch(quick.pid(), [&] { ++ends; });
  const auto other = watch.watch(slow.pid(), [&] { ++others; });
  ::kill(quick.pid(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return ends == 1; }));
  ::kill(slow.pid(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return others == 1; }));
  EXPECT_EQ(ends, 1);
}

TEST(PeerWatch, IsSilentOnceTheSubscriptionIsGone) {
  testing::Child child({"/bin/sleep", "1000"});
  PeerWatch watch;
  std::atomic<int> ends{0};
  auto first = watch.watch(child.pid(), [&] { ++ends; });
  const auto second = watch.watch(child.pid(), [&] { ends += 10; });
  first.reset();
  ::kill(child.pid(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return ends >= 10; }));
  EXPECT_EQ(ends, 10);
}

TEST(PeerWatch, SaysWhenThereIsNoSuchProcess) {
  pid_t gone = 0;
  {
    testing::Child child({"/bin/true"});
    gone = child.pid();
    child.wait();
  }
  PeerWatch watch;
  try {
    watch.watch(gone, [] {});
    ADD_FAILURE() << "no error";
  } catch (const SystemError& error) {
    EXPECT_EQ(error.error_number(), ESRCH);
  }
}

}  // namespace
}  // namespace lockstep::detail
