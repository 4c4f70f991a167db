// SPDX-License-Identifier: Apache-2.0
// Communication hooks, from the Reducer's side.
#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/collectives.h"
#include "support/fake_backend.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;

ReducerOptions small_buckets(bool views = true) {
  ReducerOptions options;
  options.bucket_caps_bytes = {16};
  options.gradient_as_bucket_view = views;
  return options;
}

TEST(CommHook, GetsEachBucketInOrderWithUndividedGradients) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    Reducer reducer(parameters, group, small_buckets());
    std::vector<size_t> indices;
    const auto plain = hooks::all_reduce(reducer.group());
    reducer.register_comm_hook([&](const GradBucket& bucket) {
      indices.push_back(bucket.index());
      EXPECT_EQ(bucket.count(), 3u);
      EXPECT_EQ(bucket.is_last(), bucket.index() == 2);
      EXPECT_EQ(bucket.parameters().size(), 1u);
      EXPECT_EQ(bucket.gradients()[0].sizes(), bucket.parameters()[0].sizes());
      EXPECT_TRUE(is_all(bucket.buffer(), group->rank() + 1));
      EXPECT_FALSE(bucket.sparse_indices().has_value());
      return plain(bucket);
    });
    step(reducer, parameters, group->rank());
    EXPECT_THAT(indices, ElementsAre(0, 1, 2));
    for (const auto& one : parameters) EXPECT_TRUE(is_all(one.grad(), 1.5));
  });
}

class CommHookResult : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Views, CommHookResult, ::testing::Bool());

TEST_P(CommHookResult, MayLieElsewhere) {
  on_ranks(2, [&](const SharedGroup& group) {
    const Tensors parameters = {parameter({2, 3}), parameter({5})};
    ReducerOptions options;
    options.gradient_as_bucket_view = GetParam();
    Reducer reducer(parameters, group, options);
    reducer.register_comm_hook([](const GradBucket& bucket) {
      const at::Tensor other = at::arange(bucket.buffer().numel(), at::kFloat);
      return make_future([other] { return other; });
    });
    step(reducer, parameters, group->rank());
    // Parameter 1 comes first in the bucket.
    EXPECT_TRUE(at::equal(parameters[1].grad(), at::arange(5, at::kFloat)));
    EXPECT_TRUE(at::equal(parameters[0].grad(),
                          at::arange(5, 11, at::kFloat).view({2, 3})));
  });
}

TEST(CommHook, NoopLeavesEachRankItsOwn) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    reducer.register_comm_hook(hooks::noop(), "noop");
    step(reducer, parameters, group->rank());
    EXPECT_TRUE(is_all(parameters[0].grad(), group->rank() + 1));
  });
}

TEST(CommHook, IsRegisteredOnce) {
  on_ranks(1, [](const SharedGroup& group) {
    Reducer reducer(some_parameters(1), group);
    reducer.register_comm_hook(hooks::noop(), "first");
    EXPECT_THAT(message_of<UsageError>([&] {
                  reducer.register_comm_hook(hooks::noop(), "second");
                }),
                AllOf(HasSubstr("'first'"), HasSubstr("'second'")));
    EXPECT_THAT(message_of<UsageError>([] { hooks::all_reduce(nullptr); }),
                HasSubstr("null"));
  });
}

// Whatever a hook does wrong comes out of backward on its rank, and the others
// hear of it.
void expect_hook_error(const CommHook& wrong, const std::string& text) {
  on_ranks(2, [&](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    {
      Reducer reducer(parameters, group, small_buckets());
      const bool bad = group->rank() == 1;
      reducer.register_comm_hook(
          bad ? wrong : hooks::all_reduce(reducer.group()), "mine");
      const auto message = describe([&] {
        try {
          step(reducer, parameters, group->rank());
        } catch (...) {
          return std::current_exception();
        }
        return std::exception_ptr();
      }());
      EXPECT_THAT(message, HasSubstr(text)) << group->rank();
    }
    clear_gradients(parameters);
    Reducer again(parameters, group);
    step(again, parameters, group->rank());
    EXPECT_TRUE(is_all(parameters[0].grad(), 1.5));
  });
}

TEST(CommHook, WhatItThrowsComesOutOfBackward) {
  expect_hook_error(
      [](const GradBucket&) -> Future<at::Tensor> {
        throw std::runtime_error("no more paper");
      },
      "no more paper");
}

TEST(CommHook, AFailedFutureComesOutOfBackward) {
  expect_hook_error(
      [](const GradBucket&) {
        return make_failed_future<at::Tensor>(
            std::make_exception_ptr(std::runtime_error("no more ink")));
      },
      "no more ink");
}

// A rank dies; the sum of used parameters, launched after that, is refused. The
// error is that of the bucket.
TEST(CommHook, TheFirstFailureIsWhatBackwardThrows) {
  const auto script = std::make_shared<FakeScript>();
  const auto group = make_fake_group(script);
  const Tensors parameters = some_parameters(1);
  ReducerOptions options;
  options.find_unused_parameters = true;
  Reducer reducer(parameters, group, options);
  const auto plain = hooks::all_reduce(reducer.group());
  reducer.register_comm_hook([&](const GradBucket& bucket) {
    auto result = plain(bucket);
    result.wait(Deadline::in(std::chrono::seconds(9)));
    return result;
  });
  script->fail_at(script->op_count(),
                  std::make_exception_ptr(PeerError("rank 0 died", 0)));
  EXPECT_THAT(message_of<PeerError>([&] { step(reducer, parameters, 0); }),
              HasSubstr("rank 0 died"));
}

TEST(CommHook, AnEmptyFutureIsAnError) {
  expect_hook_error([](const GradBucket&) { return Future<at::Tensor>(); },
                    "'mine' returned an empty Future for bucket 0");
}

TEST(CommHook, WaitsForAGroupWithoutATimeout) {
  GroupOptions options;
  options.timeout = Deadline::Duration::max();
  const auto group = std::move(make_local_groups(1, options)[0]);
  const Tensors parameters = some_parameters(1);
  Reducer reducer(parameters, group);
  step(reducer, parameters, 0);
  EXPECT_TRUE(is_all(parameters[0].grad(), 1));
}

TEST(CommHook, AResultOfAnotherSizeIsAnError) {
  expect_hook_error(
      [](const GradBucket&) {
        return make_future([] { return at::ones({3}); });
      },
      "3 elements of type Float, and the bucket 4");
}

TEST(CommHook, AFutureThatNeverCompletesIsAnErrorInTheEnd) {
  GroupOptions options;
  options.timeout = std::chrono::milliseconds(100);
  const auto group = std::move(make_local_groups(1, options)[0]);
  Promise<at::Tensor> never;
  Reducer reducer(some_parameters(1), group);
  reducer.register_comm_hook([&](const GradBucket&) { return never.future(); },
                             "sleepy");
  reducer.prepare_for_backward({});
  reducer.mark_ready(0);
  EXPECT_THAT(message_of<TimeoutError>([&] { reducer.finish_backward(); }),
              AllOf(HasSubstr("'sleepy'"), HasSubstr("bucket 0 of 1")));
}

TEST(InstallFutures, TheEndOfBackwardWaitsForThem) {
  on_ranks(1, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(1);
    Reducer reducer(parameters, group);
    const auto lane = group->duplicate("other");
    bool done[2] = {false, false};
    for (bool& one : done) {
      reducer.install_futures({lane->post([&one] { one = true; })->future()});
    }
    step(reducer, parameters, 0);
    EXPECT_TRUE(done[0] && done[1]);
    const auto bad = std::make_exception_ptr(UsageError("not today"));
    reducer.install_futures({make_failed_future<void>(bad)});
    EXPECT_THAT(message_of<UsageError>([&] { step(reducer, parameters, 0); }),
                HasSubstr("not today"));
  });
}

// Each bucket is stepped as soon as it is there; results go nowhere else.
TEST(OptimizerInBackward, StepsInTheHooksContinuation) {
  for (const bool views : {true, false}) {
    on_ranks(2, [&](const SharedGroup& group) {
      const Tensors parameters = some_parameters(3);
      Reducer reducer(parameters, group, small_buckets(views));
      reducer.set_optimizer_in_backward();
      const auto plain = hooks::all_reduce(reducer.group());
      reducer.register_comm_hook([&](const GradBucket& bucket) {
        return plain(bucket).then([bucket](const at::Tensor& sum) {
          const at::NoGradGuard no_grad;
          for (size_t i = 0; i < bucket.parameters().size(); ++i) {
            bucket.parameters()[i].sub_(bucket.gradients()[i], 0.5);
          }
          return sum;
        });
      });
      for (int i = 1; i <= 2; ++i) {
        step(reducer, parameters, group->rank());
        for (const auto& one : parameters) {
          EXPECT_TRUE(is_all(one, 1 - 0.75 * i));
          EXPECT_TRUE(views || is_all(one.grad(), group->rank() + 1));
        }
        clear_gradients(parameters);
      }
    });
  }
}

TEST(Shadow, ARankWithoutDataTakesPartWithZeros) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    Reducer reducer(parameters, group, small_buckets());
    if (group->rank() == 0) {
      step(reducer, parameters, 0);
      for (const auto& one : parameters) EXPECT_TRUE(is_all(one.grad(), 0.5));
    } else {
      for (const GradBucket& bucket : reducer.grad_buckets()) {
        reducer.run_comm_hook(bucket).get(
            Deadline::in(std::chrono::seconds(9)));
      }
      reducer.record_arrival_of_all();
    }
    EXPECT_TRUE(reducer.should_rebuild_buckets());
    reducer.rebuild_buckets();
    clear_gradients(parameters);
    step(reducer, parameters, group->rank());
    for (const auto& one : parameters) EXPECT_TRUE(is_all(one.grad(), 1.5));
  });
}

// The second collective needs what the first has brought: a local step between
// them in one lane.
TEST(CommHook, QueuesCollectivesThatDependOnEachOther) {
  on_ranks(3, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    ReducerOptions options;
    options.bucket_caps_bytes = {16};
    Reducer reducer(parameters, group, options);
    reducer.register_comm_hook(
        [](const GradBucket& bucket, const HookContext& context) {
          const at::Tensor largest = bucket.buffer().max().reshape({1});
          all_reduce(*context.group(), largest, ReduceOp::kMax);
          StepOptions fatal;
          fatal.fatal = true;
          context.group()->post(
              [largest, bucket] { bucket.buffer().div_(largest); }, fatal);
          return hooks::all_reduce()(bucket, context);
        });
    for (int i = 0; i < 20; ++i) {
      clear_gradients(parameters);
      step(reducer, parameters, group->rank());
      for (const at::Tensor& one : parameters) {
        EXPECT_TRUE(at::allclose(one.grad(), at::full({4}, 2. / 3)));
      }
    }
  });
}

TEST(Reducer, NoticesAreListsCalledInOrder) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    std::vector<std::string> heard;
    for (const char* who : {"a", "b"}) {
      reducer.on_first_launch(
          [&heard, who] { heard.push_back(std::string("launch ") + who); });
      reducer.on_backward_end(
          [&heard, who] { heard.push_back(std::string("end ") + who); });
    }
    reducer.on_group_change([&](const SharedGroup& lane) {
      EXPECT_EQ(lane, reducer.group());
      heard.emplace_back("group");
    });
    step(reducer, parameters, group->rank());
    reducer.reset_state();
    EXPECT_THAT(heard,
                ElementsAre("launch a", "launch b", "end a", "end b", "group"));
    EXPECT_THROW(reducer.on_backward_end({}), UsageError);
    EXPECT_EQ(reducer.parameters().size(), 2U);
    EXPECT_THAT(reducer.names(), ElementsAre("parameter 0", "parameter 1"));
  });
}

// A future that another thread installs while the end of backward waits for the
// one before is waited for too.
TEST(Reducer, FuturesMayBeInstalledWhileBackwardEnds) {
  on_ranks(1, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(1);
    Reducer reducer(parameters, group);
    auto first = std::make_shared<Promise<void>>();
    auto second = std::make_shared<Promise<void>>();
    std::atomic<bool> is_done{false};
    std::thread other;
    reducer.on_backward_end([&] {
      reducer.install_futures({first->future()});
      other = std::thread([&] {
        reducer.install_futures({second->future()});
        first->set_value();
        is_done = true;
        second->set_value();
      });
    });
    step(reducer, parameters, 0);
    EXPECT_TRUE(is_done);
    other.join();
  });
}

}  // namespace
}  // namespace lockstep
