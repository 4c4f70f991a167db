// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/top_k.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hook/largest_values.h"
#include "lockstep/base/error.h"
#include "support/fake_backend.h"
#include "support/message_of.h"
#include "unit/hook/lossy_ranks.h"

namespace lockstep::hooks {
namespace {

using detail::find_largest;
using lockstep::testing::are_same;
using lockstep::testing::are_same_on_all;
using lockstep::testing::BackendKind;
using lockstep::testing::context_for;
using lockstep::testing::FakeScript;
using lockstep::testing::gradients_of_rank;
using lockstep::testing::HookStep;
using lockstep::testing::make_bucket;
using lockstep::testing::message_of;
using lockstep::testing::on_lossy_ranks;
using lockstep::testing::RankTeam;
using lockstep::testing::run_lossy;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinite = std::numeric_limits<float>::infinity();

TopKOptions with_ratio(double ratio, bool error_feedback = true) {
  TopKOptions options;
  options.ratio = ratio;
  options.error_feedback = error_feedback;
  return options;
}

std::vector<uint32_t> largest_in(const std::vector<float>& values,
                                 size_t wanted) {
  std::vector<uint32_t> indices(wanted + 1, 77777);
  find_largest(values.data(), values.size(), wanted, indices.data());
  EXPECT_EQ(indices.back(), 77777U);
  indices.pop_back();
  return indices;
}

// By sorting.
std::vector<uint32_t> largest_by_sorting(const std::vector<float>& values,
                                         size_t wanted) {
  std::vector<uint32_t> indices(values.size());
  std::iota(indices.begin(), indices.end(), 0U);
  std::stable_sort(indices.begin(), indices.end(), [&](uint32_t a, uint32_t b) {
    const float one = std::fabs(values[a]);
    const float other = std::fabs(values[b]);
    return std::isnan(one) ? !std::isnan(other) : one > other;
  });
  indices.resize(wanted);
  std::sort(indices.begin(), indices.end());
  return indices;
}

std::vector<float> floats_in(const at::Tensor& tensor) {
  const float* const data = tensor.data_ptr<float>();
  return {data, data + tensor.numel()};
}

TEST(FindLargest, FindsWhatSortingFinds) {
  for (const int64_t count : {1, 2, 5, 100, 4099}) {
    const at::Tensor normal = gradients_of_rank(0, count);
    const std::vector<at::Tensor> kinds = {normal, normal.round(),
                                           at::zeros({count}), normal * 1e-42,
                                           normal.exp().exp()};
    for (const at::Tensor& kind : kinds) {
      std::vector<float> values = floats_in(kind);
      for (const size_t wanted : {1, 2, 5, 41, 3000, 4099}) {
        if (wanted > values.size()) continue;
        EXPECT_EQ(largest_in(values, wanted),
                  largest_by_sorting(values, wanted))
            << wanted << " of " << count;
      }
    }
  }
}

TEST(FindLargest, TakesTheFirstOfEqualOnes) {
  EXPECT_THAT(largest_in({1, -2, 2, 3, -2}, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(largest_in({0, -0.F, 0, 0}, 2), ElementsAre(0, 1));
}

TEST(FindLargest, NanIsTheLargestAndInfinityTheNext) {
  const std::vector<float> values = {1, -kInfinite, 5, kNotANumber, kInfinite};
  EXPECT_THAT(largest_in(values, 1), ElementsAre(3));
  EXPECT_THAT(largest_in(values, 2), ElementsAre(1, 3));
  EXPECT_THAT(largest_in(values, 4), ElementsAre(1, 2, 3, 4));
  uint32_t indices[4];
  EXPECT_FALSE(find_largest(values.data(), 5, 2, indices));
  EXPECT_TRUE(find_largest(values.data(), 5, 4, indices));
}

// What top_k computes, for all ranks in one place.
class TopKReference {
 public:
  TopKReference(int ranks, int64_t count, const TopKOptions& options)
      : options_(options),
        left_out_(static_cast<size_t>(ranks),
                  std::vector<float>(static_cast<size_t>(count))) {}

  at::Tensor step(uint64_t seed, float divisor) {
    const size_t count = left_out_[0].size();
    const auto wanted =
        static_cast<size_t>(std::ceil(options_.ratio * double(count)));
    std::vector<float> result(count);
    for (size_t rank = 0; rank < left_out_.size(); ++rank) {
      std::vector<float> values = floats_in(gradients_of_rank(
          static_cast<int>(rank), static_cast<int64_t>(count), seed));
      for (size_t i = 0; i < count; ++i) values[i] += left_out_[rank][i];
      for (const uint32_t i : largest_by_sorting(values, wanted)) {
        result[i] += values[i] * (1 / divisor);
        values[i] = 0;
      }
      if (options_.error_feedback) left_out_[rank] = values;
    }
    return at::tensor(result);
  }

 private:
  const TopKOptions options_;
  std::vector<std::vector<float>> left_out_;
};

class TopKOnBackends : public ::testing::TestWithParam<BackendKind> {};
INSTANTIATE_TEST_SUITE_P(Backends, TopKOnBackends,
                         ::testing::ValuesIn(parity_kinds()),
                         [](const auto& one) { return one.param.name; });

TEST_P(TopKOnBackends, IsTheReferenceBitByBit) {
  for (const int ranks : {2, 3, 4}) {
    RankTeam team(GetParam(), ranks, parity_options());
    for (const int64_t count : {1, 3, 100, 2000}) {
      for (const double ratio : {0.01, 0.3, 1.}) {
        for (const bool error_feedback : {true, false}) {
          const TopKOptions options = with_ratio(ratio, error_feedback);
          const auto results = on_lossy_ranks(team, [&](ProcessGroup& group) {
            const CommHook hook = top_k(options);
            TopKReference reference(ranks, count, options);
            at::Tensor result;
            for (uint64_t seed = 0; seed < 4; ++seed) {
              HookStep step;
              step.divisor = seed == 3 ? 7 : ranks;
              result =
                  run_lossy(hook, group,
                            gradients_of_rank(group.rank(), count, seed), step);
              const at::Tensor expected =
                  reference.step(seed, static_cast<float>(step.divisor));
              EXPECT_TRUE(are_same(result, expected))
                  << ratio << " of " << count << ", step " << seed;
            }
            return result;
          });
          EXPECT_TRUE(are_same_on_all(results));
        }
      }
    }
  }
}

// One gradient is 1 and the others are a hundredth: only the largest of all is
// sent in a step.
TEST(TopK, FeedbackSendsSmallGradientsInTheEnd) {
  const auto sum_of = [](bool error_feedback) {
    return on_lossy_ranks(2, [&](ProcessGroup& group) {
      const CommHook hook = top_k(with_ratio(0.25, error_feedback));
      at::Tensor sum = at::zeros({4});
      for (int i = 0; i < 400; ++i) {
        sum += run_lossy(hook, group, at::tensor({0.01F, 1.F, 0.01F, 0.01F}));
      }
      return sum;
    })[0];
  };
  const at::Tensor without = sum_of(false);
  EXPECT_TRUE(at::equal(without, at::tensor({0.F, 400.F, 0.F, 0.F})));
  const at::Tensor with = sum_of(true);
  EXPECT_NEAR(with[1].item<double>(), 400, 5);
  for (const int i : {0, 2, 3}) EXPECT_NEAR(with[i].item<double>(), 4, 1.1);
}

TEST(TopK, FeedbackStaysWithParametersWhenBucketsAreRebuilt) {
  const auto results = on_lossy_ranks(2, [](ProcessGroup& group) {
    const CommHook hook = top_k(with_ratio(0.25));
    const auto run = [&](const GradBucket& bucket) {
      return hook(bucket, context_for(group, {}))
          .get(Deadline::in(std::chrono::seconds(30)))
          .clone();
    };
    const GradBucket before = make_bucket(0, 1, {{0, 2}, {1, 2}});
    before.buffer().copy_(at::tensor({5.F, 1.F, 2.F, 3.F}));
    EXPECT_TRUE(at::equal(run(before), at::tensor({5.F, 0.F, 0.F, 0.F})));
    return run(make_bucket(0, 1, {{1, 2}, {0, 2}}));
  });
  EXPECT_TRUE(at::equal(results[0], at::tensor({0.F, 3.F, 0.F, 0.F})));
}

TEST(TopK, NumbersThatAreNotFiniteAreSentAndForgotten) {
  for (const float bad : {kNotANumber, kInfinite}) {
    for (const int64_t bad_count : {1, 6}) {  // of which 2 can be sent
      const auto results = on_lossy_ranks(2, [&](ProcessGroup& group) {
        const CommHook hook = top_k(with_ratio(0.2));
        at::Tensor gradients = at::ones({10});
        if (group.rank() == 1) gradients.narrow(0, 3, bad_count).fill_(bad);
        const at::Tensor spoilt = run_lossy(hook, group, gradients);
        for (int i = 0; i < 10; ++i) {
          const at::Tensor next = run_lossy(hook, group, at::ones({10}));
          EXPECT_TRUE(at::all(at::isfinite(next)).item<bool>());
        }
        return spoilt;
      });
      EXPECT_TRUE(are_same_on_all(results));
      EXPECT_EQ((~at::isfinite(results[0])).sum().item<int64_t>(),
                std::min<int64_t>(bad_count, 2));
    }
  }
}

TEST(TopK, OtherBucketsAndOneRankAreExact) {
  on_lossy_ranks(2, [](ProcessGroup& group) {
    const CommHook hook = top_k();
    const at::Tensor numbers = at::arange(100, at::kDouble) / 7;
    EXPECT_TRUE(at::equal(run_lossy(hook, group, numbers), numbers));
    EXPECT_EQ(run_lossy(hook, group, at::zeros({0})).numel(), 0);
    GradBucket sparse = make_bucket(1, 3, {{1, 100}});
    const at::Tensor row = at::full({1, 1}, group.rank() * 9, at::kLong);
    sparse.set_buffer(at::sparse_coo_tensor(row, at::full({1}, 0.1F), {100}));
    const at::Tensor sum = hook(sparse, context_for(group, {}))
                               .get(Deadline::in(std::chrono::seconds(30)))
                               .to_dense();
    EXPECT_EQ(sum[0].item<float>(), 0.05F);
    return at::Tensor();
  });
  const auto results = on_lossy_ranks(1, [](ProcessGroup& group) {
    return run_lossy(top_k(), group, gradients_of_rank(0, 1000));
  });
  EXPECT_TRUE(are_same(results[0], gradients_of_rank(0, 1000)));
}

TEST(TopK, SendsEightBytesPerElement) {
  const auto script = std::make_shared<FakeScript>();
  const auto group = lockstep::testing::make_fake_group(script, 2, 8);
  run_lossy(top_k(), *group, gradients_of_rank(0, 12345));
  ASSERT_EQ(script->op_count(), 1);
  EXPECT_EQ(script->ops()[0].kind, OpKind::kAllGather);
  EXPECT_EQ(script->ops()[0].in.bytes(), 124U * 8);  // 1 %, rounded up
}

TEST(TopK, RefusesWrongRatios) {
  for (const double ratio : {0., -0.1, 1.01, std::nan("")}) {
    EXPECT_THAT(message_of<UsageError>([&] { top_k(with_ratio(ratio)); }),
                HasSubstr("; expected a number above 0 and at most 1"));
  }
  EXPECT_EQ(top_k(with_ratio(1)).name(), "top_k");
}

TEST(TopK, RanksWithDifferentRatiosHearOfIt) {
  on_lossy_ranks(2, [](ProcessGroup& group) {
    EXPECT_THROW(run_lossy(top_k(with_ratio(group.rank() == 0 ? 0.1 : 0.2)),
                           group, at::ones({100})),
                 MismatchError);
    return at::Tensor();
  });
}

}  // namespace
}  // namespace lockstep::hooks
