// SPDX-License-Identifier: Apache-2.0
// The contract of communication hooks: what every hook of the library does in a
// Reducer, on every backend.
#include <cmath>
#include <random>
#include <tuple>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "contract/hook_kinds.h"
#include "lockstep/base/error.h"
#include "lockstep/ddp/reducer.h"
#include "lockstep/tensor/collectives.h"
#include "parity/agreement.h"
#include "parity/parity_kinds.h"
#include "support/message_of.h"

namespace lockstep::hook_contract {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

constexpr int kRanks = 3;

// Matrices and vectors, in buckets of unequal size.
Tensors make_weights(at::ScalarType type = at::kFloat) {
  Tensors weights;
  for (const auto& sizes : std::vector<std::vector<int64_t>>{
           {12, 30}, {30}, {7, 3, 5}, {1}, {40, 17}}) {
    weights.push_back(at::zeros(sizes, type).set_requires_grad(true));
  }
  return weights;
}

// The gradient of `weight` number `index` on a rank in a step, up to 1 in size.
at::Tensor gradient_of(const at::Tensor& weight, size_t index, int step,
                       int rank) {
  std::mt19937 random(static_cast<unsigned>(index * 1000 +
                                            static_cast<size_t>(step) * 100 +
                                            static_cast<size_t>(rank)));
  std::uniform_real_distribution<float> uniform(-1, 1);
  at::Tensor values = at::empty(weight.sizes(), at::kFloat);
  auto* const floats = values.data_ptr<float>();
  for (int64_t i = 0; i < values.numel(); ++i) floats[i] = uniform(random);
  return values.to(weight.scalar_type());
}

at::Tensor mean_gradient(const at::Tensor& weight, size_t index, int step,
                         int divisor = kRanks) {
  at::Tensor sum = at::zeros(weight.sizes(), at::kDouble);
  for (int rank = 0; rank < kRanks; ++rank) {
    sum += gradient_of(weight, index, step, rank).to(at::kDouble);
  }
  return sum / divisor;
}

at::Tensor loss_of(const Tensors& weights, int step, int rank,
                   size_t used = 1000) {
  at::Tensor loss = at::zeros({});
  for (size_t i = 0; i < std::min(used, weights.size()); ++i) {
    loss = loss + (weights[i] * gradient_of(weights[i], i, step, rank))
                      .to(at::kFloat)
                      .sum();
  }
  return loss;
}

void run_step(Reducer& reducer, const Tensors& weights, int step, int rank,
              size_t used = 1000) {
  reducer.prepare_for_forward();
  const at::Tensor loss = loss_of(weights, step, rank, used);
  reducer.prepare_for_backward({loss});
  loss.backward();
}

void clear(const Tensors& weights) {
  for (const at::Tensor& one : weights) one.mutable_grad().reset();
}

Tensors gradients_of(const Tensors& weights) {
  Tensors all;
  for (const at::Tensor& one : weights) all.push_back(one.grad());
  return all;
}

ReducerOptions small_buckets() {
  ReducerOptions options;
  options.bucket_caps_bytes = {200, 2000};
  return options;
}

class HookContract : public ::testing::TestWithParam<
                         std::tuple<HookKind, testing::BackendKind>> {
 protected:
  const HookKind& kind() const { return std::get<0>(GetParam()); }
  CommHook make() const { return hooks::make(kind().text); }

  void on_ranks(const testing::RankTeam::Body& body) const {
    testing::run_ranks(
        std::get<1>(GetParam()), kRanks,
        [&](ProcessGroup& group) {
          testing::use_one_thread();
          body(group);
        },
        parity_options());
  }

  // Gradients are the same on all ranks, and near the average; `mean` gives the
  // average of a weight by its number.
  void check(ProcessGroup& group, const Tensors& weights,
             const std::function<at::Tensor(size_t)>& mean) const {
    if (kind().is_noop) return;
    EXPECT_TRUE(testing::all_agree(group, gradients_of(weights)));
    for (size_t i = 0; i < weights.size(); ++i) {
      const at::Tensor error =
          (weights[i].grad().to(at::kDouble) - mean(i)).abs();
      // What all_reduce itself rounds.
      const double slack =
          1e-6 + (weights[i].scalar_type() == at::kBFloat16 ? 1.0 / 64 : 0);
      EXPECT_LE(error.max().item<double>(), kind().bound + slack) << i;
      EXPECT_TRUE(at::isfinite(weights[i].grad()).all().item<bool>()) << i;
    }
  }
};

TEST_P(HookContract, AveragesWithinItsBoundTheSameOnAllRanks) {
  on_ranks([&](ProcessGroup& group) {
    for (const bool views : {true, false}) {
      ReducerOptions options = small_buckets();
      options.gradient_as_bucket_view = views;
      const Tensors weights = make_weights();
      Reducer reducer(weights, group.shared_from_this(), options);
      reducer.register_comm_hook(make());
      // Buckets are rebuilt after the first.
      for (int step = 0; step < 2; ++step) {
        clear(weights);
        run_step(reducer, weights, step, group.rank());
        if (step == 0 || kind().bound == 0) {
          check(group, weights,
                [&](size_t i) { return mean_gradient(weights[i], i, step); });
        }
      }
      EXPECT_GT(reducer.bucket_plan().buckets.size(), 1U);
    }
  });
}

// Bit by bit, step after step, where a hook says that it is exact.
TEST_P(HookContract, AnExactHookIsAllReduce) {
  if (kind().bound != 0) return;
  on_ranks([&](ProcessGroup& group) {
    const Tensors weights = make_weights();
    const Tensors plain_weights = make_weights();
    Reducer reducer(weights, group.shared_from_this(), small_buckets());
    Reducer plain(plain_weights, group.shared_from_this(), small_buckets());
    reducer.register_comm_hook(make());
    for (int step = 0; step < 5; ++step) {
      clear(weights);
      clear(plain_weights);
      run_step(reducer, weights, step, group.rank());
      run_step(plain, plain_weights, step, group.rank());
      for (size_t i = 0; i < weights.size(); ++i) {
        EXPECT_TRUE(at::equal(weights[i].grad(), plain_weights[i].grad()));
      }
    }
  });
}

// What a step leaves out comes in later ones: over many steps nothing is lost.
TEST_P(HookContract, StaysNearTheAverageOverManySteps) {
  if (kind().is_noop) return;
  on_ranks([&](ProcessGroup& group) {
    const Tensors weights = make_weights();
    Reducer reducer(weights, group.shared_from_this(), small_buckets());
    reducer.register_comm_hook(make());
    constexpr int kSteps = 30;
    std::vector<at::Tensor> sums;
    for (const auto& one : weights) {
      sums.push_back(at::zeros(one.sizes(), at::kDouble));
    }
    for (int step = 0; step < kSteps; ++step) {
      clear(weights);
      run_step(reducer, weights, 0, group.rank());  // the same in all
      for (size_t i = 0; i < weights.size(); ++i) sums[i] += weights[i].grad();
      ASSERT_TRUE(testing::all_agree(group, gradients_of(weights))) << step;
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      const at::Tensor error =
          sums[i] / kSteps - mean_gradient(weights[i], i, 0);
      const double worst = error.abs().max().item<double>();
      EXPECT_LT(worst, 0.6) << i;
      const double length =
          error.norm().item<double>() /
          mean_gradient(weights[i], i, 0).norm().item<double>();
      EXPECT_LT(length, 0.5) << i;
    }
  });
}

TEST_P(HookContract, IsCalledOncePerBucketInOrderWithUndividedGradients) {
  on_ranks([&](ProcessGroup& group) {
    const Tensors weights = make_weights();
    Reducer reducer(weights, group.shared_from_this(), small_buckets());
    std::vector<size_t> indices;
    reducer.register_comm_hook([&, hook = make()](const GradBucket& bucket,
                                                  const HookContext& context) {
      indices.push_back(bucket.index());
      for (size_t i = 0; i < bucket.members().size(); ++i) {
        const size_t index = bucket.members()[i].index;
        EXPECT_TRUE(
            at::equal(bucket.gradients()[i],
                      gradient_of(weights[index], index, 0, group.rank())));
      }
      const at::Tensor buffer = bucket.buffer();
      return hook(bucket, context).then([buffer](const at::Tensor& result) {
        EXPECT_EQ(result.numel(), buffer.numel());
        EXPECT_EQ(result.scalar_type(), buffer.scalar_type());
        return result;
      });
    });
    run_step(reducer, weights, 0, group.rank());
    ASSERT_EQ(indices.size(), reducer.bucket_plan().buckets.size());
    for (size_t i = 0; i < indices.size(); ++i) EXPECT_EQ(indices[i], i);
  });
}

TEST_P(HookContract, ReducesWhatNoSyncHasAccumulated) {
  on_ranks([&](ProcessGroup& group) {
    const Tensors weights = make_weights();
    Reducer reducer(weights, group.shared_from_this(), small_buckets());
    reducer.register_comm_hook(make());
    {
      const auto guard = reducer.no_sync();
      run_step(reducer, weights, 0, group.rank());
    }
    run_step(reducer, weights, 1, group.rank());
    if (kind().bound > 0.1) {
      if (!kind().is_noop) {
        EXPECT_TRUE(testing::all_agree(group, gradients_of(weights)));
      }
      return;
    }
    // Gradients of up to 2: twice the bound.
    for (size_t i = 0; i < weights.size(); ++i) {
      const at::Tensor error = weights[i].grad() -
                               mean_gradient(weights[i], i, 0) -
                               mean_gradient(weights[i], i, 1);
      EXPECT_LE(error.abs().max().item<double>(), 2 * kind().bound + 1e-6) << i;
    }
    EXPECT_TRUE(testing::all_agree(group, gradients_of(weights)));
  });
}

TEST_P(HookContract, WorksWithAStaticGraphAndSkippedBuckets) {
  on_ranks([&](ProcessGroup& group) {
    for (const bool is_static : {true, false}) {
      ReducerOptions options = small_buckets();
      options.bucket_plan = BucketPlan{{{{4}}, {{3, 2}}, {{1, 0}}}};
      options.static_graph = is_static;
      options.find_unused_parameters = !is_static;
      options.skip_unused = true;
      const Tensors weights = make_weights();
      Reducer reducer(weights, group.shared_from_this(), options);
      reducer.register_comm_hook(make());
      for (int step = 0; step < 4; ++step) {
        clear(weights);
        // Bucket 0 is used by nobody.
        run_step(reducer, weights, step, group.rank(), 4);
        if (step > 0) {
          EXPECT_FALSE(weights[4].grad().defined()) << step;
        }
        if (kind().is_noop) continue;
        const Tensors used(weights.begin(), weights.begin() + 4);
        EXPECT_TRUE(testing::all_agree(group, gradients_of(used))) << step;
      }
    }
  });
}

TEST_P(HookContract, HonoursTheDivisor) {
  if (kind().is_noop) return;
  on_ranks([&](ProcessGroup& group) {
    const Tensors weights = make_weights();
    Reducer reducer(weights, group.shared_from_this(), small_buckets());
    reducer.register_comm_hook(make());
    reducer.set_divisor(1);
    run_step(reducer, weights, 0, group.rank());
    EXPECT_TRUE(testing::all_agree(group, gradients_of(weights)));
    if (kind().bound > 0.1 && kind().bound != kAnything) return;
    for (size_t i = 0; i < weights.size(); ++i) {
      const at::Tensor error =
          weights[i].grad() - mean_gradient(weights[i], i, 0, 1);
      EXPECT_LE(error.abs().max().item<double>(), kRanks * kind().bound + 1e-5)
          << i;
    }
  });
}

TEST_P(HookContract, TakesBucketsOfOtherTypes) {
  on_ranks([&](ProcessGroup& group) {
    for (const auto type : {at::kDouble, at::kBFloat16}) {
      Tensors weights = make_weights(type);
      weights[1] = make_weights()[1];  // float32 beside it
      Reducer reducer(weights, group.shared_from_this(), small_buckets());
      reducer.register_comm_hook(make());
      for (int step = 0; step < 3; ++step) {
        clear(weights);
        run_step(reducer, weights, step, group.rank());
        if (!kind().is_noop) {
          EXPECT_TRUE(testing::all_agree(group, gradients_of(weights)));
        }
        if (step == 0) {
          check(group, weights,
                [&](size_t i) { return mean_gradient(weights[i], i, step); });
        }
      }
    }
  });
}

// Gradients of an embedding are exact whatever the hook.
TEST_P(HookContract, ReducesSparseBucketsAsTheyAre) {
  if (kind().is_noop) return;
  on_ranks([&](ProcessGroup& group) {
    ReducerOptions options = small_buckets();
    options.expect_sparse = {true, false};
    const Tensors weights = {at::zeros({6, 2}).set_requires_grad(true),
                             at::zeros({4}).set_requires_grad(true)};
    Reducer reducer(weights, group.shared_from_this(), options);
    reducer.register_comm_hook(make());
    for (int step = 0; step < 3; ++step) {
      clear(weights);
      reducer.prepare_for_forward();
      const at::Tensor rows = at::tensor({int64_t{group.rank()}, int64_t{5}});
      const at::Tensor loss =
          at::embedding(weights[0], rows, -1, false, true).sum() * 3 +
          weights[1].sum();
      reducer.prepare_for_backward({loss});
      loss.backward();
      at::Tensor expected = at::zeros({6, 2});
      for (int rank = 0; rank < kRanks; ++rank) expected[rank].fill_(1);
      expected[5].fill_(3);
      EXPECT_TRUE(at::allclose(weights[0].grad().to_dense(), expected));
    }
  });
}

TEST_P(HookContract, AnExceptionNamesBucketAndHookOnAllRanksAndAResetHeals) {
  on_ranks([&](ProcessGroup& group) {
    const Tensors weights = make_weights();
    Reducer reducer(weights, group.shared_from_this(), small_buckets());
    const CommHook hook = make();
    bool is_broken = true;
    const auto breaking = [&](const GradBucket& bucket,
                              const HookContext& context) {
      if (is_broken && bucket.index() == 1 && group.rank() == 1) {
        throw std::runtime_error("no more ink");
      }
      return hook(bucket, context);
    };
    reducer.register_comm_hook(breaking, "breaking");
    group.barrier()->wait();  // all Reducers are made
    std::string text;
    try {
      for (int step = 0; step < 2; ++step) {  // who is ahead hears of it later
        run_step(reducer, weights, step, group.rank());
      }
    } catch (const Error& error) {
      text = error.what();
    }
    EXPECT_THAT(text, AllOf(HasSubstr("no more ink"), HasSubstr("bucket 1 of"),
                            HasSubstr("hook 'breaking'")))
        << group.rank();
    is_broken = false;
    reducer.reset_state();
    reducer.register_comm_hook(breaking, "mended");
    for (int step = 0; step < 3; ++step) {
      clear(weights);
      run_step(reducer, weights, step, group.rank());
      if (!kind().is_noop) {
        EXPECT_TRUE(testing::all_agree(group, gradients_of(weights)));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Hooks, HookContract,
    ::testing::Combine(::testing::ValuesIn(hook_kinds()),
                       ::testing::ValuesIn(parity_kinds())),
    [](const auto& kinds) {
      return std::get<0>(kinds.param).name + std::get<1>(kinds.param).name;
    });

}  // namespace
}  // namespace lockstep::hook_contract
