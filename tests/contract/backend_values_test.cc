// SPDX-License-Identifier: Apache-2.0
// What every backend promises about the values of collectives, beyond the
// matrix: one sentence each.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "contract/backend_contract.h"
#include "support/collective_case.h"

namespace lockstep {
namespace {

using testing::CaseRun;
using testing::Collective;
using testing::CollectiveCase;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

TEST_P(BackendContract, AllReduceSumsOverRanks) {
  run_ranks(3, [](ProcessGroup& group) {
    std::vector<float> x = {static_cast<float>(group.rank()), 1};
    group.all_reduce(buffer_of(x))->wait();
    EXPECT_THAT(x, ElementsAre(3.0F, 3.0F));
  });
}

TEST_P(BackendContract, ReduceScatterHonoursMinMaxProductAndAverage) {
  run_ranks(3, [](ProcessGroup& group) {
    const int r = group.rank();
    const auto result_of = [&](ReduceOp op) {
      std::vector<int32_t> in = {r + 1, r + 10, r - 5};
      std::vector<int32_t> out(1);
      group.reduce_scatter(buffer_of(in), buffer_of(out), op)->wait();
      return out[0];
    };
    EXPECT_EQ(result_of(ReduceOp::kMin), (std::vector{1, 10, -5}[size_t(r)]));
    EXPECT_EQ(result_of(ReduceOp::kMax), (std::vector{3, 12, -3}[size_t(r)]));
    EXPECT_EQ(result_of(ReduceOp::kProduct),
              (std::vector{6, 10 * 11 * 12, -5 * -4 * -3}[size_t(r)]));
    EXPECT_EQ(result_of(ReduceOp::kAverage),
              (std::vector{2, 11, -4}[size_t(r)]));
  });
}

TEST_P(BackendContract, TheAverageOfIntegersDividesTowardZero) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<int32_t> x = {group.rank() == 0 ? -3 : 0,
                              group.rank() == 0 ? 3 : 0};
    group.all_reduce(buffer_of(x), ReduceOp::kAverage)->wait();
    EXPECT_THAT(x, ElementsAre(-1, 1));
    std::vector<uint8_t> large = {255};  // its sum needs more than 8 bits
    group.all_reduce(buffer_of(large), ReduceOp::kAverage)->wait();
    EXPECT_THAT(large, ElementsAre(255));
  });
}

// Whatever its size and the way it takes through the backend.
TEST_P(BackendContract, TheAverageIsTakenOfEveryElementOfEveryBuffer) {
  run_ranks(4, [](ProcessGroup& group) {
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{300'000}}) {
      std::vector<float> x(count, static_cast<float>(group.rank()));
      group.all_reduce(buffer_of(x), ReduceOp::kAverage)->wait();
      EXPECT_TRUE(all_are(x, 1.5F)) << count;
      std::vector<float> y(count, 2);
      std::vector<float> z(count, static_cast<float>(group.rank() * 4));
      group
          .all_reduce_coalesced({buffer_of(y), buffer_of(z)},
                                ReduceOp::kAverage)
          ->wait();
      EXPECT_TRUE(all_are(y, 2.0F)) << count;
      EXPECT_TRUE(all_are(z, 6.0F)) << count;
    }
  });
}

TEST_P(BackendContract, PremulSumTakesEachRanksOwnFactor) {
  run_ranks(3, [](ProcessGroup& group) {
    std::vector<double> x = {10};
    const double factor = group.rank() + 0.5;
    group.all_reduce(buffer_of(x), ReduceOp::premul_sum(factor))->wait();
    EXPECT_THAT(x, ElementsAre(45.0));
    std::vector<float> y = {2};
    std::vector<float> own = {static_cast<float>(group.rank())};
    group.all_reduce(buffer_of(y), ReduceOp::premul_sum(buffer_of(own)))
        ->wait();
    EXPECT_THAT(y, ElementsAre(6.0F));
  });
}

TEST_P(BackendContract, BitwiseOperationsOnFloatsAreRefused) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<float> x = {1};
    const auto text = message_of<UsageError>(
        [&] { group.all_reduce(buffer_of(x), ReduceOp::kBxor); });
    EXPECT_THAT(text, HasSubstr("bxor"));
    EXPECT_THAT(text, HasSubstr("float32"));
    group.all_reduce(buffer_of(x))->wait();  // nothing has happened
    EXPECT_THAT(x, ElementsAre(2.0F));
  });
}

template <class T>
std::vector<T> random_floats(size_t count, int rank) {
  std::mt19937 random(static_cast<uint32_t>(rank) * 7919 + 1);
  std::vector<T> values(count);
  std::uniform_real_distribution<double> exponent(-12, 12);
  for (T& value : values) {
    value = static_cast<T>(std::exp2(exponent(random)) *
                           (random() % 2 == 0 ? 1 : -1));
  }
  const auto nan = std::numeric_limits<T>::quiet_NaN();
  const auto infinity = std::numeric_limits<T>::infinity();
  for (size_t i = 0; i < count; i += 17) {
    const T special[] = {nan, infinity, -infinity, T{0}, -T{0}};
    values[i] = special[(i / 17 + static_cast<size_t>(rank)) % 5];
  }
  return values;
}

template <class T>
void expect_same_bits_everywhere(ProcessGroup& group, size_t count,
                                 ReduceOp op) {
  const std::vector<T> mine = random_floats<T>(count, group.rank());
  std::vector<T> in = mine;
  std::vector<T> reduced(count);
  group.all_reduce(buffer_of(in), buffer_of(reduced), op, {})->wait();
  EXPECT_EQ(std::memcmp(in.data(), mine.data(), count * sizeof(T)), 0);
  std::vector<T> all(count * static_cast<size_t>(group.size()));
  group.all_gather(buffer_of(reduced), buffer_of(all))->wait();
  for (int rank = 0; rank < group.size(); ++rank) {
    EXPECT_EQ(std::memcmp(all.data() + static_cast<size_t>(rank) * count,
                          reduced.data(), count * sizeof(T)),
              0)
        << to_text(op.kind()) << " of " << count << " differs on rank " << rank;
  }
  // The same call again, in place, on all ranks: the same bits again.
  group.all_reduce(buffer_of(in), op)->wait();
  EXPECT_EQ(std::memcmp(in.data(), reduced.data(), count * sizeof(T)), 0);
}

TEST_P(BackendContract, EveryRankGetsTheSameBits) {
  run_ranks(3, [](ProcessGroup& group) {
    for (const size_t count : {size_t{1}, size_t{501}, size_t{70'001}}) {
      for (const auto kind :
           {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kProduct,
            ReduceOp::kMin, ReduceOp::kMax}) {
        expect_same_bits_everywhere<float>(group, count, kind);
        expect_same_bits_everywhere<double>(group, count, kind);
      }
    }
  });
}

TEST_P(BackendContract, ANanOnAnyRankIsANanInTheResult) {
  run_ranks(3, [](ProcessGroup& group) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (int where = 0; where < group.size(); ++where) {
      for (const auto kind : {ReduceOp::kSum, ReduceOp::kAverage,
                              ReduceOp::kMin, ReduceOp::kMax}) {
        std::vector<float> x = {group.rank() == where ? nan : 1.0F, 1.0F};
        group.all_reduce(buffer_of(x), kind)->wait();
        EXPECT_TRUE(std::isnan(x[0])) << to_text(kind) << where;
        EXPECT_FALSE(std::isnan(x[1])) << to_text(kind) << where;
      }
    }
  });
}

TEST_P(BackendContract, BroadcastWorksFromEveryRoot) {
  run_ranks(4, [](ProcessGroup& group) {
    for (int root = 0; root < group.size(); ++root) {
      std::vector<int32_t> x(5000, group.rank() == root ? 70 + root : -1);
      group.broadcast(buffer_of(x), root)->wait();
      EXPECT_THAT(x, Each(70 + root));
    }
  });
}

// Some of them zero, and the largest on another rank each time.
TEST_P(BackendContract, PartsMayBeUnequal) {
  run_ranks(4, [](ProcessGroup& group) {
    for (const auto collective :
         {Collective::kAllGather, Collective::kGather, Collective::kScatter,
          Collective::kReduceScatter, Collective::kAllToAll}) {
      for (const bool in_place : {false, true}) {
        for (uint32_t seed = 0; seed < 3; ++seed) {
          CollectiveCase one;
          one.collective = collective;
          one.count = 600;
          one.in_place = in_place;
          one.unequal = true;
          one.root = static_cast<int>(seed);
          one.seed = seed;
          CaseRun run(one, group.rank(), group.size());
          run.start(group)->wait();
          EXPECT_EQ(run.problem(), "");
        }
      }
    }
  });
}

TEST_P(BackendContract, AllPartsMayBeEmpty) {
  run_ranks(3, [](ProcessGroup& group) {
    std::vector<float> nothing;
    const std::vector<size_t> none = {0, 0, 0};
    const Buffer empty = buffer_of(nothing);
    group.all_gather(empty, empty, none)->wait();
    group.gather(empty, empty, 1, none)->wait();
    group.scatter(empty, empty, 2, none)->wait();
    group.reduce_scatter(empty, empty, ReduceOp::kSum, none)->wait();
    group.all_to_all(empty, empty, none, none)->wait();
    EXPECT_EQ(group.sequence_number(), 5);
  });
}

TEST_P(BackendContract, AllToAllTakesSplits) {
  run_ranks(2, [](ProcessGroup& group) {
    const bool first = group.rank() == 0;
    std::vector<int32_t> in =
        first ? std::vector<int32_t>{1, 2, 3} : std::vector<int32_t>{4};
    std::vector<int32_t> out(first ? 1 : 3);
    if (first) {
      group.all_to_all(buffer_of(in), buffer_of(out), {1, 2}, {1, 0})->wait();
      EXPECT_THAT(out, ElementsAre(1));
    } else {
      group.all_to_all(buffer_of(in), buffer_of(out), {0, 1}, {2, 1})->wait();
      EXPECT_THAT(out, ElementsAre(2, 3, 4));
    }
  });
}

TEST_P(BackendContract, AllToAllRefusesSplitsThatDoNotFit) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<float> in(4);
    std::vector<float> out(4);
    const auto text_of = [&](const std::vector<size_t>& in_counts,
                             const std::vector<size_t>& out_counts) {
      return message_of<UsageError>([&] {
        group.all_to_all(buffer_of(in), buffer_of(out), in_counts, out_counts);
      });
    };
    EXPECT_THAT(text_of({1, 2, 1}, {2, 2}), HasSubstr("3 entries for 2 ranks"));
    EXPECT_THAT(text_of({2, 2}, {4}), HasSubstr("1 entries for 2 ranks"));
    EXPECT_THAT(text_of({2, 1}, {2, 2}), HasSubstr("add up to 3"));
    EXPECT_THAT(text_of({2, 2}, {2, 3}), HasSubstr("add up to 5"));
    EXPECT_THAT(text_of({2, 2}, {}), HasSubstr("both"));
    std::vector<float> odd(3);
    message_of<UsageError>(
        [&] { group.all_to_all(buffer_of(odd), buffer_of(odd)); });
    EXPECT_EQ(group.sequence_number(), 0);
    group.barrier()->wait();  // and nothing is broken
  });
}

TEST_P(BackendContract, SplitsThatDoNotMatchAreAMismatchOnAllRanks) {
  run_ranks(3, [](ProcessGroup& group) {
    const Quickly quickly;
    // Rank 1 has two for rank 2, which expects one.
    std::vector<float> in(group.rank() == 1 ? 4 : 3, 1.0F);
    std::vector<float> out(3, -1.0F);
    const std::vector<size_t> in_counts = {1, 1, group.rank() == 1 ? 2U : 1U};
    const auto text = message_of<MismatchError>([&] {
      group.all_to_all(buffer_of(in), buffer_of(out), in_counts, {1, 1, 1})
          ->wait();
    });
    EXPECT_THAT(text, HasSubstr("rank 1 has 2 elements for rank 2"));
    EXPECT_THAT(out, Each(-1.0F));
  });
}

TEST_P(BackendContract, CoalescedCallsAreOneOperation) {
  run_ranks(2, [](ProcessGroup& group) {
    const auto r = static_cast<float>(group.rank());
    std::vector<float> a = {r, r};
    std::vector<float> b = {10 + r};
    std::vector<float> none;
    group
        .all_reduce_coalesced({buffer_of(a), buffer_of(none), buffer_of(b)},
                              ReduceOp::kSum)
        ->wait();
    EXPECT_THAT(a, ElementsAre(1.0F, 1.0F));
    EXPECT_THAT(b, ElementsAre(21.0F));
    std::vector<float> all_a(4);
    std::vector<float> all_b(2);
    b = {r};
    group
        .all_gather_coalesced({buffer_of(a), buffer_of(b)},
                              {buffer_of(all_a), buffer_of(all_b)})
        ->wait();
    EXPECT_THAT(all_b, ElementsAre(0.0F, 1.0F));
    std::vector<float> part_a(2);
    std::vector<float> part_b(1);
    group
        .reduce_scatter_coalesced({buffer_of(all_a), buffer_of(all_b)},
                                  {buffer_of(part_a), buffer_of(part_b)},
                                  ReduceOp::kMax)
        ->wait();
    EXPECT_THAT(part_a, ElementsAre(1.0F, 1.0F));
    EXPECT_THAT(part_b, ElementsAre(r));
    EXPECT_EQ(group.sequence_number(), 3);
  });
}

TEST_P(BackendContract, CoalescedCallsRefuseListsThatDoNotFit) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<float> x(2);
    std::vector<float> y(3);
    std::vector<double> other(2);
    EXPECT_THAT(message_of<UsageError>(
                    [&] { group.all_reduce_coalesced({}, ReduceOp::kSum); }),
                HasSubstr("empty"));
    EXPECT_THAT(message_of<UsageError>([&] {
                  group.all_reduce_coalesced({buffer_of(x), buffer_of(other)},
                                             ReduceOp::kSum);
                }),
                HasSubstr("float64"));
    message_of<UsageError>(
        [&] { group.all_gather_coalesced({buffer_of(x)}, {buffer_of(y)}); });
    message_of<UsageError>([&] {
      group.reduce_scatter_coalesced({buffer_of(x)}, {}, ReduceOp::kSum);
    });
    EXPECT_EQ(group.sequence_number(), 0);
  });
}

TEST_P(BackendContract, ArgumentsAreCheckedAtTheCall) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<float> x(4);
    std::vector<float> y(3);
    std::vector<double> z(4);
    const Buffer bad{nullptr, 3, DType::kFloat32};
    const auto refused = [&](const char* words, const auto& call) {
      EXPECT_THAT(message_of<UsageError>(call), HasSubstr(words));
    };
    refused("no memory", [&] { group.all_reduce(bad); });
    refused("root is 2", [&] { group.broadcast(buffer_of(x), 2); });
    refused("root is -1", [&] { group.broadcast(buffer_of(x), -1); });
    refused("one type", [&] {
      group.all_reduce(buffer_of(x), buffer_of(z), ReduceOp::kSum, {});
    });
    refused("4 elements and out has 3", [&] {
      group.all_reduce(buffer_of(x), buffer_of(y), ReduceOp::kSum, {});
    });
    refused("overlap", [&] {
      group.all_reduce(buffer_of(x).slice(0, 2), buffer_of(x).slice(1, 2),
                       ReduceOp::kSum, {});
    });
    refused("2 ranks' parts",
            [&] { group.all_gather(buffer_of(x), buffer_of(y)); });
    refused("counts[", [&] {
      group.all_gather(buffer_of(x), buffer_of(y), {1, 2});
    });
    refused("without being this rank's part", [&] {
      group.all_gather(buffer_of(x).slice(group.rank() == 0 ? 2 : 0, 2),
                       buffer_of(x));
    });
    EXPECT_EQ(group.sequence_number(), 0);
    group.barrier()->wait();
  });
}

// The shape stands for the number of elements when ranks are compared, so it
// has to be that of the data.
TEST_P(BackendContract, AShapeThatIsNotThatOfTheDataIsRefused) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<float> x(7);
    CallOptions options;
    options.shape = {2, 3};
    EXPECT_THAT(message_of<UsageError>([&] {
                  group.all_reduce(buffer_of(x), ReduceOp::kSum, options);
                }),
                HasSubstr("[2, 3]"));
    EXPECT_EQ(group.sequence_number(), 0);
    options.shape = {1, 7, 1};
    group.all_reduce(buffer_of(x), ReduceOp::kSum, options)->wait();
  });
}

}  // namespace
}  // namespace lockstep
