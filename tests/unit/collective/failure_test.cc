// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/failure.h"

#include <gmock/gmock.h>

#include "support/message_of.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

template <class E>
Failure failure_from(E error, int by) {
  return failure_of(std::make_exception_ptr(error), by);
}

template <class E>
std::string thrown(const Failure& failure, int rank) {
  return message_of<E>(
      [&] { std::rethrow_exception(error_of(failure, rank)); });
}

TEST(Failure, KeepsKindTextAndPeerOfAnError) {
  PeerError error("it hung up", 3);
  ErrorContext context;
  context.rank = 1;
  context.operation = "all_reduce";
  error.add_context(context);
  const Failure failure = failure_from(error, 1);
  EXPECT_EQ(failure.kind, ErrorKind::kPeer);
  EXPECT_EQ(failure.by, 1);
  EXPECT_EQ(failure.peer, 3);
  EXPECT_EQ(failure.text, "it hung up");  // without the context
}

TEST(Failure, TakesForeignErrorsToo) {
  const Failure failure = failure_from(std::runtime_error("odd"), 2);
  EXPECT_EQ(failure.kind, ErrorKind::kInternal);
  EXPECT_EQ(failure.text, "odd");
  EXPECT_EQ(failure_of(std::make_exception_ptr(5), 0).kind,
            ErrorKind::kInternal);
}

TEST(Failure, OfOneKindIsTheSameNewsForAll) {
  EXPECT_THAT(thrown<TimeoutError>({ErrorKind::kTimeout, 1, 2, "late"}, 0),
              HasSubstr("late (noticed by rank 1)"));
  EXPECT_EQ(thrown<PeerError>({ErrorKind::kPeer, 1, 2, "gone"}, 0), "gone");
  EXPECT_EQ(thrown<MismatchError>({ErrorKind::kMismatch, 1, -1, "differ"}, 0),
            "differ");
}

TEST(Failure, CarriesItsPeer) {
  try {
    std::rethrow_exception(error_of({ErrorKind::kTimeout, 1, 2, "late"}, 0));
  } catch (const Error& error) {
    EXPECT_EQ(error.context().peer, 2);
  }
}

TEST(Failure, IsAnAbortForTheRankItIsAbout) {
  EXPECT_THAT(thrown<AbortedError>({ErrorKind::kTimeout, 1, 2, "late"}, 2),
              HasSubstr("rank 1 ended the group: late"));
  EXPECT_THAT(thrown<AbortedError>({ErrorKind::kPeer, 2, 2, "gone"}, 2),
              HasSubstr("gone"));
}

TEST(Failure, OfAnyOtherKindIsAnAbort) {
  for (const auto kind : {ErrorKind::kUsage, ErrorKind::kSystem,
                          ErrorKind::kAborted, ErrorKind::kInternal}) {
    EXPECT_THAT(thrown<AbortedError>({kind, 4, -1, "no disk"}, 0),
                HasSubstr("rank 4 ended the group: no disk"));
  }
}

}  // namespace
}  // namespace lockstep
