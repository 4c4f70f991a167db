// SPDX-License-Identifier: Apache-2.0
// Buckets are launched in order, whatever comes when.
#include <algorithm>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_backend.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep {
namespace {

using namespace testing;

// The numbers of elements that the backend was asked to reduce, from the
// `from`th operation on.
std::vector<size_t> reduced(const FakeScript& script, int from) {
  std::vector<size_t> counts;
  const auto ops = script.ops();
  for (size_t i = static_cast<size_t>(from); i < ops.size(); ++i) {
    if (ops[i].kind == OpKind::kAllReduce) counts.push_back(ops[i].in.count);
  }
  return counts;
}

TEST(LaunchOrder, IsThatOfThePlanForAnyArrival) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const auto script = std::make_shared<FakeScript>();
    const auto group = make_fake_group(script);
    const size_t count = 1 + random() % 20;
    Tensors parameters;
    for (size_t i = 0; i < count; ++i) {
      parameters.push_back(parameter({static_cast<int64_t>(1 + random() % 9)}));
      parameters.back().mutable_grad() = at::ones_like(parameters.back());
    }
    ReducerOptions options;
    options.bucket_caps_bytes = {1 + random() % 40, 1 + random() % 80};
    options.small_bucket_last = random() % 2 == 0;
    options.find_unused_parameters = random() % 2 == 0;
    Reducer reducer(parameters, group, options);

    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    for (int backward = 0; backward < 3; ++backward) {
      std::shuffle(order.begin(), order.end(), random);
      reducer.prepare_for_forward();
      reducer.prepare_for_backward({});  // with new buckets, perhaps
      std::vector<size_t> expected;
      for (const auto& bucket : reducer.bucket_plan().buckets) {
        size_t elements = 0;
        for (const size_t one : bucket.items) {
          elements += static_cast<size_t>(parameters[one].numel());
        }
        expected.push_back(elements);
      }
      if (options.find_unused_parameters) expected.push_back(count);
      const int before = script->op_count();
      // Several threads bring gradients, as autograd's may.
      std::atomic<size_t> next{0};
      run_threads(1 + static_cast<int>(random() % 3), [&](int) {
        for (size_t i = next++; i < count; i = next++) {
          reducer.mark_ready(order[i]);
        }
      });
      reducer.finish_backward();
      reducer.group()->barrier()->wait();
      EXPECT_EQ(reduced(*script, before), expected);
    }
  }
}

// The lock is free while a hook runs: another thread can bring a gradient.
TEST(LaunchOrder, AHookDoesNotHoldUpOtherGradients) {
  const auto group = std::move(make_local_groups(1)[0]);
  const Tensors parameters = some_parameters(3);
  ReducerOptions options;
  options.bucket_caps_bytes = {16};
  Reducer reducer(parameters, group, options);
  std::vector<size_t> order;
  reducer.register_comm_hook([&](const GradBucket& bucket) {
    order.push_back(bucket.index());
    if (bucket.index() == 0) {
      std::thread([&] { reducer.mark_ready(0); }).join();
    }
    return make_future([buffer = bucket.buffer()] { return buffer; });
  });
  reducer.prepare_for_backward({});
  reducer.mark_ready(2);
  reducer.mark_ready(1);
  reducer.finish_backward();
  EXPECT_THAT(order, ::testing::ElementsAre(0, 1, 2));
}

TEST(LaunchOrder, OverlapsFromTheFirstBackward) {
  const auto script = std::make_shared<FakeScript>();
  const auto group = make_fake_group(script);
  const Tensors parameters = some_parameters(4);
  ReducerOptions options;
  options.bucket_caps_bytes = {16};
  Reducer reducer(parameters, group, options);
  const int before = script->op_count();
  int launched = -1;
  // The gradient of the first parameter comes last.
  const at::Tensor first = parameters[0] * 1.0;
  first.register_hook([&](const at::Tensor& grad) {
    EXPECT_TRUE(script->wait_for_ops(before + 3));
    launched = script->op_count() - before;
    return grad;
  });
  at::Tensor x = first;
  for (size_t i = 1; i < 4; ++i) x = x * parameters[i];
  const at::Tensor loss = x.sum();
  reducer.prepare_for_backward({loss});
  loss.backward();
  EXPECT_EQ(launched, 3);
}

}  // namespace
}  // namespace lockstep
