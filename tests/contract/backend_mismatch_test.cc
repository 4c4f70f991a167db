// SPDX-License-Identifier: Apache-2.0
// Nothing lies: ranks that do not make the same call are all told so, before
// any result is touched.
#include "contract/backend_contract.h"
#include "support/collective_case.h"

namespace lockstep {
namespace {

using testing::CaseRun;
using testing::Collective;
using testing::CollectiveCase;
using ::testing::HasSubstr;
using testing::message_of;

// What the ranks of a team call, the odd one something else; and what the
// error must say about both.
struct Disagreement {
  std::string name;
  CollectiveCase usual;
  CollectiveCase odd;
  std::string usual_words;
  std::string odd_words;
};

CollectiveCase call_of(Collective collective, size_t count = 6) {
  CollectiveCase one;
  one.collective = collective;
  one.count = count;
  return one;
}

std::vector<Disagreement> disagreements() {
  std::vector<Disagreement> all;
  const auto usual = call_of(Collective::kAllReduce);
  const auto add = [&](const char* name, CollectiveCase a, CollectiveCase b,
                       const char* a_words, const char* b_words) {
    all.push_back({name, a, b, a_words, b_words});
  };
  add("collective", usual, call_of(Collective::kAllGather), "all_reduce #0",
      "all_gather #0");
  add("count", usual, call_of(Collective::kAllReduce, 7), "float32 [6]",
      "float32 [7]");
  add("zero count", usual, call_of(Collective::kAllReduce, 0), "float32 [6]",
      "float32 [0]");
  auto doubles = usual;
  doubles.dtype = DType::kFloat64;
  add("dtype", usual, doubles, "float32", "float64");
  auto max = usual;
  max.reduce = ReduceOp::kMax;
  add("reduce op", usual, max, "(sum)", "(max)");
  const auto broadcast = call_of(Collective::kBroadcast);
  auto other_root = broadcast;
  other_root.root = 2;
  add("root", broadcast, other_root, "root 0", "root 2");
  auto gather = call_of(Collective::kGather);
  auto gather_at_2 = gather;
  gather_at_2.root = 2;
  add("root of gather", gather, gather_at_2, "root 0", "root 2");
  // Parts of other sizes: the lists differ, or only one rank has one.
  auto parts = call_of(Collective::kReduceScatter);
  auto given = parts;
  given.unequal = true;
  add("parts", parts, given, "[6]", "given parts");
  auto other_parts = given;
  other_parts.seed = 1;
  add("lists of parts", given, other_parts, "given parts", "given parts");
  auto all_to_all = call_of(Collective::kAllToAll);
  auto with_splits = all_to_all;
  with_splits.unequal = true;
  add("splits", all_to_all, with_splits, "all_to_all", "given parts");
  return all;
}

void expect_mismatch(const testing::BackendKind& kind, const Disagreement& one,
                     size_t scale, bool sync, int odd_rank) {
  SCOPED_TRACE(one.name);
  testing::run_ranks(kind, 3, [&](ProcessGroup& group) {
    const Quickly quickly;
    CollectiveCase mine = group.rank() == odd_rank ? one.odd : one.usual;
    mine.count *= scale;
    CaseRun run(mine, group.rank(), group.size());
    CallOptions options;
    options.sync = sync;
    const auto text =
        message_of<MismatchError>([&] { run.start(group, options)->wait(); });
    if (scale == 1) {
      EXPECT_THAT(text, HasSubstr(one.usual_words));
      EXPECT_THAT(text, HasSubstr(one.odd_words));
    }
    EXPECT_THAT(text,
                HasSubstr("rank " + std::to_string(odd_rank) + " called"));
    EXPECT_TRUE(run.is_untouched()) << one.name << " rank " << group.rank();
    EXPECT_NE(group.failure(), nullptr);
    std::vector<float> x(1);
    EXPECT_THAT(
        message_of<AbortedError>([&] { group.all_reduce(buffer_of(x)); }),
        HasSubstr("the same call"));
  });
}

TEST_P(BackendContract, AnyDisagreementIsAMismatchOnAllRanks) {
  int odd_rank = 0;
  for (const Disagreement& one : disagreements()) {
    for (const size_t scale : {size_t{1}, size_t{20'000}}) {
      expect_mismatch(GetParam(), one, scale, scale == 1, odd_rank);
      odd_rank = (odd_rank + 1) % 3;
    }
  }
}

TEST_P(BackendContract, AnotherShapeOfTheSameSizeIsAMismatch) {
  run_ranks(3, [](ProcessGroup& group) {
    const Quickly quickly;
    std::vector<float> x(6, 1.0F);
    CallOptions options;
    options.shape = group.rank() == 1 ? std::vector<int64_t>{3, 2}
                                      : std::vector<int64_t>{2, 3};
    const auto text = message_of<MismatchError>([&] {
      group.all_reduce(buffer_of(x), ReduceOp::kSum, options)->wait();
    });
    EXPECT_THAT(text, HasSubstr("ranks 0, 2 called all_reduce #0 (sum) of "
                                "float32 [2, 3]"));
    EXPECT_THAT(text, HasSubstr("rank 1 called all_reduce #0 (sum) of "
                                "float32 [3, 2]"));
    EXPECT_TRUE(all_are(x, 1.0F));
  });
}

TEST_P(BackendContract, CallsInAnotherOrderAreAMismatch) {
  run_ranks(2, [](ProcessGroup& group) {
    const Quickly quickly;
    std::vector<float> a(3, 1.0F);
    std::vector<float> b(4, 1.0F);
    const bool first = group.rank() == 0;
    auto work = group.all_reduce(buffer_of(first ? a : b));
    // The next one is queued before that is noticed, or refused after.
    EXPECT_THAT(message_of<AbortedError>([&] {
                  group.all_reduce(buffer_of(first ? b : a))->wait();
                }),
                HasSubstr("in the same order"));
    EXPECT_THAT(message_of<MismatchError>([&] { work->wait(); }),
                HasSubstr("in the same order"));
    EXPECT_TRUE(all_are(a, 1.0F));
    EXPECT_TRUE(all_are(b, 1.0F));
  });
}

TEST_P(BackendContract, ARankThatSkipsACallIsFoundAtTheNext) {
  run_ranks(3, [](ProcessGroup& group) {
    const Quickly quickly;
    std::vector<float> x(5, 1.0F);
    group.barrier()->wait();
    // The same call but for its number.
    if (group.rank() != 2) group.broadcast(buffer_of(x), 0);
    try {
      group.all_reduce(buffer_of(x))->wait();
      ADD_FAILURE() << "nobody noticed";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("broadcast #1"));
      EXPECT_THAT(error.what(), HasSubstr("rank 2 called all_reduce #1"));
    }
    EXPECT_EQ(failure_kind(group), ErrorKind::kMismatch);
    EXPECT_TRUE(all_are(x, 1.0F));
  });
}

TEST_P(BackendContract, ADisagreementBetweenManyNamesThemAll) {
  run_ranks(4, [](ProcessGroup& group) {
    const Quickly quickly;
    std::vector<int64_t> x(static_cast<size_t>(group.rank() / 2) + 1);
    const auto text = message_of<MismatchError>([&] {
      group.rank() == 3 ? group.barrier()->wait()
                        : group.all_reduce(buffer_of(x))->wait();
    });
    EXPECT_THAT(text, HasSubstr("ranks 0, 1 called all_reduce #0 (sum) of "
                                "int64 [1]"));
    EXPECT_THAT(text, HasSubstr("rank 2 called all_reduce #0 (sum) of "
                                "int64 [2]"));
    EXPECT_THAT(text, HasSubstr("rank 3 called barrier #0"));
  });
}

}  // namespace
}  // namespace lockstep
