// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/thread.h"

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <stdexcept>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Thread, HasItsNameAndIsJoined) {
  std::string name;
  bool ran = false;
  {
    Thread thread("a-long-thread-name", [&] {
      char text[16];
      ::pthread_getname_np(::pthread_self(), text, sizeof text);
      name = text;
      ran = true;
    });
    EXPECT_FALSE(thread.is_current());
  }
  EXPECT_TRUE(ran);
  EXPECT_EQ(name, "a-long-thread-n");
}

TEST(Thread, BlocksSignalsInItselfOnly) {
  sigset_t inside;
  Thread thread("signals",
                [&] { ::pthread_sigmask(SIG_SETMASK, nullptr, &inside); });
  thread.join();
  EXPECT_EQ(sigismember(&inside, SIGINT), 1);
  sigset_t outside;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &outside);
  EXPECT_EQ(sigismember(&outside, SIGINT), 0);
}

TEST(Thread, AssigningJoinsTheOldOne) {
  std::atomic<int> ended{0};
  Thread thread("one", [&] { ++ended; });
  thread = Thread("two", [&] { ++ended; });
  EXPECT_GE(ended, 1);
  thread.join();
  EXPECT_EQ(ended, 2);
  thread.join();  // again: nothing to do
}

TEST(ThreadDeathTest, AnEscapingExceptionNamesTheThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(Thread("lane-7", [] { throw std::runtime_error("escaped"); }),
               "lane-7.*escaped");
}

}  // namespace
}  // namespace lockstep
