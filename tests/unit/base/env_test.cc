// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/env.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr const char* kName = "LOCKSTEP_ENV_TEST";

class Env : public ::testing::Test {
 protected:
  ~Env() override { ::unsetenv(kName); }
  static void set(const char* value) { ::setenv(kName, value, 1); }
};

TEST_F(Env, AbsentAndEmptyAreTheSame) {
  EXPECT_FALSE(env::text(kName));
  set("");
  EXPECT_FALSE(env::text(kName));
  EXPECT_FALSE(env::integer(kName));
  EXPECT_FALSE(env::boolean(kName));
}

TEST_F(Env, ReadsNumbers) {
  set("-12");
  EXPECT_EQ(env::integer(kName), -12);
}

TEST_F(Env, NamesTheVariableThatDoesNotParse) {
  for (const char* bad : {"12x", "x", "1.5", "99999999999999999999"}) {
    set(bad);
    try {
      env::integer(kName);
      FAIL() << bad;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(kName));
      EXPECT_THAT(error.what(), ::testing::HasSubstr(bad));
    }
  }
  EXPECT_THROW(env::boolean(kName), UsageError);
}

TEST_F(Env, ReadsTruth) {
  for (const char* yes : {"1", "true", "YES", "On"}) {
    set(yes);
    EXPECT_EQ(env::boolean(kName), true) << yes;
  }
  for (const char* no : {"0", "False", "no", "OFF"}) {
    set(no);
    EXPECT_EQ(env::boolean(kName), false) << no;
  }
}

}  // namespace
}  // namespace lockstep
