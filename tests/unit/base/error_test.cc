// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"

#include <cerrno>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(Error, SaysOnlyTheMessageWithoutContext) {
  const UsageError error("the list is empty");
  EXPECT_STREQ(error.what(), "the list is empty");
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
}

TEST(Error, PutsTheContextInFront) {
  TimeoutError error("timed out after 30 s waiting for rank 0");
  error.add_context({2, "all_reduce", 41, "ddp", 0});
  EXPECT_STREQ(error.what(),
               "rank 2: all_reduce #41 on group 'ddp': timed out after 30 s "
               "waiting for rank 0");
  EXPECT_EQ(error.message(), "timed out after 30 s waiting for rank 0");
  EXPECT_EQ(error.context().peer, 0);
}

TEST(Error, LeavesOutWhatIsNotKnown) {
  PeerError error("gone", 3);
  EXPECT_STREQ(error.what(), "gone");
  EXPECT_EQ(error.context().peer, 3);
  error.add_context({1, "", -1, "", -1});
  EXPECT_STREQ(error.what(), "rank 1: gone");
  error.add_context({-1, "", -1, "world", -1});
  EXPECT_STREQ(error.what(), "rank 1: group 'world': gone");
}

TEST(Error, KeepsTheFirstContextAndTheType) {
  try {
    try {
      MismatchError error("sizes differ");
      error.add_context({0, "broadcast", 7, "", -1});
      throw error;
    } catch (Error& error) {
      error.add_context({5, "something else", 8, "outer", 2});
      throw;
    }
  } catch (const MismatchError& error) {
    EXPECT_STREQ(error.what(),
                 "rank 0: broadcast #7 on group 'outer': sizes differ");
    EXPECT_EQ(error.context().peer, 2);
  }
}

TEST(SystemError, NamesTheErrno) {
  const SystemError error("cannot write 'x'", ENOSPC);
  EXPECT_STREQ(error.what(),
               "cannot write 'x': No space left on device (ENOSPC)");
  EXPECT_EQ(error.error_number(), ENOSPC);
  EXPECT_THAT(SystemError("odd", 9999).what(), HasSubstr("error 9999"));
}

TEST(AbortedError, CarriesItsCause) {
  const auto cause = std::make_exception_ptr(PeerError("rank 1 died", 1));
  const AbortedError error("the group has failed", cause);
  EXPECT_STREQ(error.what(), "the group has failed; cause: rank 1 died");
  EXPECT_THROW(std::rethrow_exception(error.cause()), PeerError);
  EXPECT_EQ(AbortedError("closed").cause(), nullptr);
}

TEST(Error, EveryTypeIsAnErrorOfItsKind) {
  const auto kind_of = [](auto thrown) {
    try {
      throw thrown;
    } catch (const Error& error) {
      return error.kind();
    }
  };
  EXPECT_EQ(kind_of(UsageError("")), ErrorKind::kUsage);
  EXPECT_EQ(kind_of(MismatchError("")), ErrorKind::kMismatch);
  EXPECT_EQ(kind_of(TimeoutError("")), ErrorKind::kTimeout);
  EXPECT_EQ(kind_of(PeerError("")), ErrorKind::kPeer);
  EXPECT_EQ(kind_of(SystemError("", EIO)), ErrorKind::kSystem);
  EXPECT_EQ(kind_of(AbortedError("")), ErrorKind::kAborted);
  EXPECT_EQ(kind_of(InternalError("")), ErrorKind::kInternal);
  EXPECT_STREQ(to_text(ErrorKind::kPeer), "peer error");
}

TEST(Check, FormatsItsMessage) {
  const auto check = [](int n) {
    LOCKSTEP_CHECK(n > 0, UsageError, "{} is not above 0", n);
  };
  EXPECT_NO_THROW(check(1));
  try {
    check(-3);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "-3 is not above 0");
  }
}

TEST(Assert, AsksForAReport) {
  try {
    LOCKSTEP_ASSERT(1 + 1 == 3);
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("1 + 1 == 3"));
    EXPECT_THAT(error.what(), HasSubstr("report"));
  }
}

TEST(Describe, TellsAnyException) {
  EXPECT_EQ(describe(nullptr), "no error");
  EXPECT_EQ(describe(std::make_exception_ptr(std::runtime_error("x"))), "x");
  EXPECT_THAT(describe(std::make_exception_ptr(5)), HasSubstr("unknown"));
}

TEST(Error, ACopyWithContextKeepsTheTypeAndLeavesTheOriginal) {
  ErrorContext context;
  context.rank = 2;
  const SystemError original("no file", ENOENT);
  try {
    rethrow_with_context(original, context);
  } catch (const SystemError& copy) {
    EXPECT_EQ(copy.error_number(), ENOENT);
    EXPECT_EQ(copy.context().rank, 2);
  }
  EXPECT_EQ(original.context().rank, -1);
  EXPECT_THROW(rethrow_with_context(UsageError("x"), context), UsageError);
  EXPECT_THROW(rethrow_with_context(MismatchError("x"), context),
               MismatchError);
  EXPECT_THROW(rethrow_with_context(TimeoutError("x"), context), TimeoutError);
  EXPECT_THROW(rethrow_with_context(PeerError("x"), context), PeerError);
  EXPECT_THROW(rethrow_with_context(AbortedError("x"), context), AbortedError);
  EXPECT_THROW(rethrow_with_context(InternalError("x"), context),
               InternalError);
}

template <class Thrown>
std::string text_with_part(const Thrown& error) {
  try {
    try {
      throw error;
    } catch (...) {
      rethrow_with_part("bucket 1 of 4");
    }
  } catch (const Error& named) {
    return std::string(to_text(named.kind())) + ": " + named.what();
  }
}

TEST(Error, NamesThePartOfAnOperation) {
  EXPECT_EQ(text_with_part(TimeoutError("oops")),
            "timeout: bucket 1 of 4: oops");
  EXPECT_EQ(text_with_part(std::runtime_error("oops")),
            "usage error: bucket 1 of 4: oops");
  PeerError lost("gone", 2);
  lost.add_context({1, "all_reduce", 7, "ddp", -1, "bucket 0"});
  EXPECT_STREQ(lost.what(),
               "rank 1: all_reduce #7 on group 'ddp': bucket 0: gone");
}

TEST(Error, AScopeNamesThePartForWhatIsQueuedInIt) {
  EXPECT_EQ(ErrorPartScope::current(), "");
  {
    const ErrorPartScope outer("outer");
    {
      const ErrorPartScope inner("inner");
      EXPECT_EQ(ErrorPartScope::current(), "inner");
    }
    EXPECT_EQ(ErrorPartScope::current(), "outer");
  }
  EXPECT_EQ(ErrorPartScope::current(), "");
}

}  // namespace
}  // namespace lockstep
