// SPDX-License-Identifier: Apache-2.0
// The hooks that send codes: quantize() and sign().
#include "lockstep/hook/quantize.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hook/lossy.h"
#include "lockstep/base/error.h"
#include "lockstep/ddp/reducer.h"
#include "lockstep/hook/sign.h"
#include "support/fake_backend.h"
#include "support/message_of.h"
#include "unit/hook/lossy_ranks.h"

namespace lockstep::hooks {
namespace {

using lockstep::testing::are_same;
using lockstep::testing::are_same_on_all;
using lockstep::testing::BackendKind;
using lockstep::testing::context_for;
using lockstep::testing::FakeScript;
using lockstep::testing::gradients_of_rank;
using lockstep::testing::HookStep;
using lockstep::testing::largest_of;
using lockstep::testing::make_bucket;
using lockstep::testing::message_of;
using lockstep::testing::on_lossy_ranks;
using lockstep::testing::RankTeam;
using lockstep::testing::run_lossy;
using lockstep::testing::true_average;
using ::testing::HasSubstr;

constexpr int64_t kBlock = 64;

QuantizeOptions with_bits(int bits, bool error_feedback = true) {
  QuantizeOptions options;
  options.bits = bits;
  options.block = kBlock;
  options.error_feedback = error_feedback;
  return options;
}

SignOptions sign_options(bool error_feedback = true) {
  SignOptions options;
  options.block = kBlock;
  options.error_feedback = error_feedback;
  return options;
}

// The hook by its bits: 8, 4, or 1 for signs.
CommHook coded(int bits, bool error_feedback = true) {
  return bits == 1 ? sign(sign_options(error_feedback))
                   : quantize(with_bits(bits, error_feedback));
}

// By element, the largest absolute value of its block.
at::Tensor block_sizes(const at::Tensor& values) {
  at::Tensor sizes = values.abs().to(at::kDouble);
  for (int64_t first = 0; first < sizes.numel(); first += kBlock) {
    at::Tensor block =
        sizes.narrow(0, first, std::min(kBlock, sizes.numel() - first));
    block.fill_(block.max().item<double>());
  }
  return sizes;
}

// By element, how far a result may be from the average in one step.
at::Tensor error_bound(int bits, int ranks, int64_t count) {
  at::Tensor of_ranks = at::zeros({count}, at::kDouble);
  for (int rank = 0; rank < ranks; ++rank) {
    of_ranks += block_sizes(gradients_of_rank(rank, count)) / ranks;
  }
  if (bits == 1) return of_ranks * 2;
  const double top = bits == 8 ? 127 : 7;
  const at::Tensor averages = block_sizes(true_average(ranks, count));
  // What is rounded the second time is the average plus the first error.
  return of_ranks / top + (averages + of_ranks / top) / top;
}

class BlockHooksOnBackends : public ::testing::TestWithParam<BackendKind> {};
INSTANTIATE_TEST_SUITE_P(Backends, BlockHooksOnBackends,
                         ::testing::ValuesIn(parity_kinds()),
                         [](const auto& one) { return one.param.name; });

TEST_P(BlockHooksOnBackends, GiveAllRanksTheSameAverageWithinTheBound) {
  for (const int ranks : {2, 3, 4}) {
    RankTeam team(GetParam(), ranks, parity_options());
    for (const int bits : {8, 4, 1}) {
      for (const int64_t count : {1, 63, 64, 65, 200, 5000}) {
        SCOPED_TRACE(::testing::Message() << ranks << " ranks, " << bits
                                          << " bits, " << count << " elements");
        const auto results = on_lossy_ranks(team, [&](ProcessGroup& group) {
          return run_lossy(coded(bits), group,
                           gradients_of_rank(group.rank(), count));
        });
        EXPECT_TRUE(are_same_on_all(results));
        const at::Tensor error =
            (results[0].to(at::kDouble) - true_average(ranks, count)).abs();
        const at::Tensor bound = error_bound(bits, ranks, count);
        EXPECT_TRUE(at::all(error <= bound * 1.001).item<bool>());
        // And not by chance exact: codes were sent.
        EXPECT_TRUE(count <= 64 || error.max().item<double>() > 0);
      }
    }
  }
}

TEST_P(BlockHooksOnBackends, GiveTheSameBitsOnAllBackends) {
  RankTeam team(GetParam(), 3, parity_options());
  for (const int bits : {8, 4, 1}) {
    const auto run = [&](ProcessGroup& group) {
      const CommHook hook = coded(bits);
      at::Tensor all;
      for (int64_t i = 0; i < 3; ++i) {
        const at::Tensor result = run_lossy(
            hook, group, gradients_of_rank(group.rank(), 1000), HookStep{i});
        all = all.defined() ? at::cat({all, result}) : result;
      }
      return all;
    };
    const auto here = on_lossy_ranks(team, run);
    const auto local = on_lossy_ranks(3, run);
    EXPECT_TRUE(are_same_on_all(here));
    EXPECT_TRUE(are_same(here[0], local[0]));
  }
}

TEST(BlockHooks, OneRankGetsItsGradientsExactly) {
  for (const int bits : {8, 4, 1}) {
    const auto results = on_lossy_ranks(1, [&](ProcessGroup& group) {
      return run_lossy(coded(bits), group, gradients_of_rank(0, 1000));
    });
    EXPECT_TRUE(are_same(results[0], gradients_of_rank(0, 1000)));
  }
}

TEST(BlockHooks, DivideAsTheContextSays) {
  for (const int bits : {8, 4, 1}) {
    for (const int divisor : {1, 2, 6}) {
      const auto results = on_lossy_ranks(3, [&](ProcessGroup& group) {
        HookStep step;
        step.divisor = divisor;
        return run_lossy(coded(bits), group,
                         at::full({500}, group.rank() + 1.F), step);
      });
      const at::Tensor expected = at::full({500}, 6.F / float(divisor));
      EXPECT_TRUE(at::allclose(results[0], expected)) << bits;
    }
  }
}

// ---- Feedback.

// The sum of `steps` results with gradients that stay the same.
at::Tensor sum_of_steps(const CommHook& hook, ProcessGroup& group,
                        const at::Tensor& gradients, int steps,
                        int divisor = 0) {
  at::Tensor sum = at::zeros({gradients.numel()}, at::kDouble);
  for (int64_t i = 0; i < steps; ++i) {
    HookStep step;
    step.iteration = i;
    step.divisor = divisor;
    sum += run_lossy(hook, group, gradients, step);
  }
  return sum;
}

// What is missing in the sum after all steps, in scales of one step.
double error_of_sum(int bits, bool error_feedback, int steps, int divisor) {
  constexpr int kRanks = 3;
  constexpr int64_t kCount = 500;
  const auto sums = on_lossy_ranks(kRanks, [&](ProcessGroup& group) {
    return sum_of_steps(coded(bits, error_feedback), group,
                        gradients_of_rank(group.rank(), kCount), steps,
                        divisor);
  });
  const at::Tensor expected =
      true_average(kRanks, kCount) * kRanks / divisor * steps;
  const double scale = error_bound(bits, kRanks, kCount).max().item<double>();
  return largest_of(sums[0] - expected) / scale * divisor / kRanks;
}

// What a rank keeps is the error of one rounding, however many steps there
// were; without it errors are a random walk.
TEST(Quantize, FeedbackMakesUpForRounding) {
  for (const int bits : {8, 4}) {
    for (const int divisor : {3, 1}) {
      EXPECT_LT(error_of_sum(bits, true, 400, divisor), 2) << bits;
      EXPECT_GT(error_of_sum(bits, false, 400, divisor), 5) << bits;
    }
  }
}

TEST(Sign, FeedbackMakesUpForSigns) {
  const auto error_after = [](int steps, bool error_feedback) {
    // From -1 to 1 in each block, and a little different by rank.
    const auto sums = on_lossy_ranks(2, [&](ProcessGroup& group) {
      const at::Tensor slope = at::linspace(-1, 1, kBlock);
      return sum_of_steps(sign(sign_options(error_feedback)), group,
                          (slope + 0.1 * group.rank()).repeat({4}), steps);
    });
    const at::Tensor expected =
        (at::linspace(-1, 1, kBlock) + 0.05).repeat({4});
    return largest_of(sums[0] / steps - expected);
  };
  EXPECT_GT(error_after(400, false), 0.4);
  EXPECT_LT(error_after(400, true), 0.07);
  EXPECT_LT(error_after(3200, true), 0.01);  // what is kept has an end
}

// Gradients are whole numbers up to 7, which 4 bits hold exactly: without
// feedback the averages alone are rounded.
TEST(Quantize, FeedbackMakesUpForTheSecondRounding) {
  const auto whole_numbers = [](int rank) {
    return ((at::arange(kBlock) * 7 + rank * 4) % 15 - 7).to(at::kFloat);
  };
  const auto error_after = [&](int steps, bool error_feedback) {
    const auto sums = on_lossy_ranks(2, [&](ProcessGroup& group) {
      return sum_of_steps(coded(4, error_feedback), group,
                          whole_numbers(group.rank()), steps);
    });
    const at::Tensor expected = (whole_numbers(0) + whole_numbers(1)) / 2;
    return largest_of(sums[0] / steps - expected);
  };
  EXPECT_GT(error_after(300, false), 0.03);
  EXPECT_LT(error_after(300, true), 0.015);
}

TEST(Quantize, FeedbackStaysWithParametersWhenBucketsAreRebuilt) {
  const auto results = on_lossy_ranks(2, [](ProcessGroup& group) {
    const CommHook hook = sign(sign_options());
    const auto run = [&](const GradBucket& bucket, int64_t iteration) {
      HookStep step;
      step.iteration = iteration;
      return hook(bucket, context_for(group, step))
          .get(Deadline::in(std::chrono::seconds(30)))
          .clone();
    };
    // Parameter 0 is short of 2 - 1 = 1, parameter 1 of 0 - 1.
    const GradBucket before = make_bucket(0, 1, {{0, 32}, {1, 32}});
    before.buffer().narrow(0, 0, 32).fill_(2);
    EXPECT_TRUE(at::equal(run(before, 0), at::ones({64})));
    const GradBucket after = make_bucket(0, 1, {{1, 32}, {0, 32}});
    return run(after, 1);
  });
  const at::Tensor expected = at::cat({at::full({32}, -1.F), at::ones({32})});
  EXPECT_TRUE(at::equal(results[0], expected));
}

// ---- Numbers that are not finite.

TEST(BlockHooks, ANanOfOneRankIsSeenByAllAndForgottenAfterwards) {
  for (const int bits : {8, 4, 1}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity()}) {
      const auto results = on_lossy_ranks(3, [&](ProcessGroup& group) {
        const CommHook hook = coded(bits);
        at::Tensor gradients = gradients_of_rank(group.rank(), 300);
        if (group.rank() == 1) gradients[70] = bad;
        const at::Tensor spoilt = run_lossy(hook, group, gradients);
        const at::Tensor next =
            run_lossy(hook, group, gradients_of_rank(group.rank(), 300));
        EXPECT_TRUE(at::all(at::isfinite(next)).item<bool>());
        return spoilt;
      });
      EXPECT_TRUE(are_same_on_all(results));
      const at::Tensor is_nan = at::isnan(results[0]);
      EXPECT_EQ(is_nan.sum().item<int64_t>(), kBlock);
      EXPECT_EQ(is_nan.narrow(0, kBlock, kBlock).sum().item<int64_t>(), kBlock);
    }
  }
}

// ---- Which buckets.

TEST(BlockHooks, OtherBucketsAreExact) {
  for (const int bits : {8, 1}) {
    on_lossy_ranks(2, [&](ProcessGroup& group) {
      const CommHook hook = coded(bits);
      const at::Tensor numbers = at::arange(100, at::kDouble) / 7;
      EXPECT_TRUE(at::equal(run_lossy(hook, group, numbers + group.rank()),
                            (numbers + (numbers + 1)) / 2));
      const at::Tensor empty = at::zeros({0});
      EXPECT_EQ(run_lossy(hook, group, empty).numel(), 0);

      GradBucket sparse = make_bucket(1, 3, {{1, 100}});
      const at::Tensor row = at::full({1, 1}, group.rank() * 9, at::kLong);
      sparse.set_buffer(at::sparse_coo_tensor(row, at::full({1}, 0.1F), {100}));
      const at::Tensor sum = hook(sparse, context_for(group, {}))
                                 .get(Deadline::in(std::chrono::seconds(30)))
                                 .to_dense();
      EXPECT_EQ(sum[9].item<float>(), 0.05F);
      return at::Tensor();
    });
  }
}

// Rows that came with metadata are others in every step: nothing may be kept.
TEST(BlockHooks, RowsOfSparseGradientsAreExact) {
  on_lossy_ranks(2, [](ProcessGroup& group) {
    const CommHook hook = coded(4);
    for (const int64_t rows : {3, 5}) {
      const GradBucket whole = make_bucket(0, 1, {{0, 80}});
      auto contents = std::make_shared<GradBucket::Contents>();
      contents->members = whole.members();
      const at::Tensor values = at::arange(rows * 8).to(at::kFloat);
      const GradBucket bucket(0, 1, values.clone(), contents, at::arange(rows));
      EXPECT_TRUE(at::equal(hook(bucket, context_for(group, {}))
                                .get(Deadline::in(std::chrono::seconds(30))),
                            values));
    }
    return at::Tensor();
  });
}

// ---- Randomness.

TEST(Quantize, RoundsByTheSeedTheIterationAndTheBucket) {
  const auto run = [](uint64_t seed, int64_t iteration, size_t bucket) {
    return on_lossy_ranks(2, [&](ProcessGroup& group) {
      QuantizeOptions options = with_bits(4);
      options.seed = seed;
      HookStep step;
      step.iteration = iteration;
      step.bucket = bucket;
      return run_lossy(quantize(options), group,
                       gradients_of_rank(group.rank(), 1000), step);
    })[0];
  };
  const at::Tensor first = run(1, 0, 0);
  EXPECT_TRUE(are_same(first, run(1, 0, 0)));
  EXPECT_FALSE(are_same(first, run(2, 0, 0)));
  EXPECT_FALSE(are_same(first, run(1, 1, 0)));
  EXPECT_FALSE(are_same(first, run(1, 0, 1)));
}

// Ranks with equal gradients round them differently, else the average would be
// no better than one of them.
TEST(Quantize, RanksRoundIndependently) {
  const auto error_with = [](int ranks) {
    const auto results = on_lossy_ranks(ranks, [](ProcessGroup& group) {
      at::Tensor gradients = at::full({64 * kBlock}, 0.5F);
      // The scale of each rank is 1; that of the averages is small, because
      // the large numbers cancel.
      const double large = group.rank() % 2 == 0 ? 127 : -127;
      gradients.view({-1, kBlock}).select(1, 0).fill_(large);
      return run_lossy(quantize(with_bits(8)), group, gradients);
    });
    const at::Tensor rows = results[0].view({-1, kBlock});
    return (rows.narrow(1, 1, kBlock - 1) - 0.5).norm().item<double>();
  };
  EXPECT_NEAR(error_with(8) / error_with(2), 0.5, 0.05);
}

// ---- What is sent.

// The bytes that a rank of `ranks` sends to others.
size_t bytes_sent(const CommHook& hook, int ranks, int64_t count) {
  const auto script = std::make_shared<FakeScript>();
  const auto group = lockstep::testing::make_fake_group(script, 1, ranks);
  run_lossy(hook, *group, gradients_of_rank(0, count));
  size_t bytes = 0;
  for (const CollectiveOp& op : script->ops()) {
    EXPECT_TRUE(op.kind == OpKind::kAllToAll || op.kind == OpKind::kAllGather);
    if (op.kind == OpKind::kAllToAll) {
      bytes += op.in.bytes() - 4 * op.in_counts[1];
    } else {
      bytes += op.in.bytes() * static_cast<size_t>(ranks - 1);
    }
  }
  return bytes;
}

TEST(BlockHooks, SendAsManyBytesAsTheirHeadersSay) {
  for (const int ranks : {2, 4, 8}) {
    const size_t count = 8 * 512 * 10;
    const size_t shares = 2 * size_t(ranks - 1);  // of which `ranks` are all
    const auto expected = [&](size_t bits) {
      return (count * bits / 8 + count / 512 * 4) * shares / size_t(ranks);
    };
    const auto n = static_cast<int64_t>(count);
    EXPECT_EQ(bytes_sent(quantize(), ranks, n), expected(8));
    QuantizeOptions four;
    four.bits = 4;
    EXPECT_EQ(bytes_sent(quantize(four), ranks, n), expected(4));
    EXPECT_EQ(bytes_sent(sign(), ranks, n), expected(1));
  }
}

// ---- Wrong options.

TEST(BlockHooks, RefuseWrongOptions) {
  const auto message_for =
      [](const std::function<void(QuantizeOptions&)>& set) {
        QuantizeOptions options;
        set(options);
        return message_of<UsageError>([&] { quantize(options); });
      };
  EXPECT_THAT(message_for([](auto& options) { options.bits = 3; }),
              HasSubstr("bits is 3; expected 8 or 4"));
  for (const int block : {0, -64, 100, 65536 + 64}) {
    const auto text = "block is " + std::to_string(block) +
                      "; expected a multiple of 64 from 64 to 65536";
    EXPECT_THAT(message_for([&](auto& options) { options.block = block; }),
                HasSubstr(text));
    SignOptions options;
    options.block = block;
    EXPECT_THAT(message_of<UsageError>([&] { sign(options); }),
                HasSubstr(text));
  }
  EXPECT_EQ(quantize().name(), "quantize");
  EXPECT_EQ(sign().name(), "sign");
}

TEST(BlockHooks, RanksWithDifferentOptionsHearOfIt) {
  const auto expect_mismatch = [](const CommHook& one, const CommHook& other) {
    on_lossy_ranks(2, [&](ProcessGroup& group) {
      EXPECT_THROW(
          run_lossy(group.rank() == 0 ? one : other, group, at::ones({1024})),
          MismatchError);
      return at::Tensor();
    });
  };
  QuantizeOptions long_blocks;
  long_blocks.block = 1024;
  expect_mismatch(coded(8), coded(4));
  expect_mismatch(coded(8), quantize(long_blocks));
}

// The group fails between two launches: the next one is refused, and the error
// is that of the one that failed.
TEST(LaunchAll, TellsWhatFailedFirst) {
  const auto script = std::make_shared<FakeScript>();
  const auto group = lockstep::testing::make_fake_group(script, 0, 2);
  script->fail_at(0, std::make_exception_ptr(PeerError("rank 1 died", 1)));
  std::shared_ptr<Work> first;
  const auto result =
      detail::launch_all({[&] { return first = group->barrier(); },
                          [&] {
                            EXPECT_THROW(first->wait(), PeerError);
                            return group->post([] {});  // throws
                          },
                          []() -> std::shared_ptr<Work> {
                            ADD_FAILURE() << "launched after a failure";
                            return nullptr;
                          }},
                         at::ones({1}));
  EXPECT_THAT(message_of<PeerError>(
                  [&] { result.get(Deadline::in(std::chrono::seconds(30))); }),
              HasSubstr("rank 1 died"));
}

TEST(BlockHooks, ABufferWithGapsIsAnError) {
  on_lossy_ranks(2, [](ProcessGroup& group) {
    GradBucket bucket = make_bucket(0, 1, {{0, 10}});
    bucket.set_buffer(at::zeros({20}).slice(0, 0, 20, 2));
    EXPECT_THAT(message_of<UsageError>(
                    [&] { coded(8)(bucket, context_for(group, {})); }),
                HasSubstr("bucket 0 has gaps"));
    return at::Tensor();
  });
}

}  // namespace
}  // namespace lockstep::hooks
