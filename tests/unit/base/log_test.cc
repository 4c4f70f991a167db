// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/log.h"

#include <thread>

#include <gtest/gtest.h>

#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

TEST(Log, GoesToTheSinkAndBack) {
  {
    testing::LogCapture outer;
    {
      testing::LogCapture inner;
      log_warn("to inner");
      EXPECT_EQ(inner.count("to inner"), 1);
    }
    log_error("to outer");
    EXPECT_EQ(outer.lines(), std::vector<std::string>{"to outer"});
  }
}

TEST(Log, GoesToStandardErrorFromItsLevelOn) {
  ::testing::internal::CaptureStderr();
  set_log_level(LogLevel::kWarn);
  log_info("quiet {}");
  log_warn("loud {}");
  set_log_level(LogLevel::kInfo);
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("quiet"), std::string::npos);
  EXPECT_NE(text.find("lockstep warning: loud {}\n"), std::string::npos);
}

TEST(LogLimiter, LetsOneThroughAndCountsTheRest) {
  LogLimiter limiter(1h);
  EXPECT_EQ(limiter.admit(), 0);
  EXPECT_FALSE(limiter.admit());
  EXPECT_FALSE(limiter.admit());
  LogLimiter brief(1ms);
  EXPECT_EQ(brief.admit(), 0);
  brief.admit();
  EXPECT_TRUE(testing::eventually([&] { return brief.admit().has_value(); }));
}

}  // namespace
}  // namespace lockstep
