// SPDX-License-Identifier: Apache-2.0
// Every error a user of a Reducer meets: what it says, and what works after it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace testing;

ReducerOptions named(std::vector<std::string> names) {
  ReducerOptions options;
  options.names = std::move(names);
  return options;
}

// One step on a new Reducer: the parameters are as good as before.
void expect_fresh_start(const Tensors& parameters, const SharedGroup& group) {
  clear_gradients(parameters);
  Reducer again(parameters, group);
  step(again, parameters, group->rank());
  for (const auto& one : parameters) {
    EXPECT_TRUE(is_all(one.grad(), mean_of(group->size())));
  }
}

TEST(ReducerErrors, WhatCannotBeReducedIsRefused) {
  on_ranks(1, [](const SharedGroup& group) {
    const auto text = [&](const Tensors& parameters,
                          const ReducerOptions& options = {}) {
      return message_of<UsageError>(
          [&] { const Reducer reducer(parameters, group, options); });
    };
    const at::Tensor good = parameter({2});
    EXPECT_THAT(text({}), HasSubstr("no parameters"));
    EXPECT_THAT(text({good, at::Tensor()}),
                HasSubstr("parameter 1 is an undefined tensor"));
    EXPECT_THAT(text({at::ones({2})}), HasSubstr("does not require"));
    EXPECT_THAT(text({good * 2}), HasSubstr("result of an operation"));
    EXPECT_THAT(text({at::ones({2}).to_sparse().set_requires_grad(true)}),
                HasSubstr("itself sparse"));
    EXPECT_THAT(text({good, good}, named({"a", "b"})),
                AllOf(HasSubstr("0 ('a')"), HasSubstr("1 ('b')"),
                      HasSubstr("same tensor")));
    EXPECT_THAT(text({good}, named({"a", "b"})), HasSubstr("2 names for 1"));
    ReducerOptions options;
    options.expect_sparse = {false, true};
    EXPECT_THAT(text({good}, options), HasSubstr("expect_sparse has 2"));
    options = {};
    options.bucket_caps_bytes = {};
    EXPECT_THAT(text({good}, options), HasSubstr("bucket_caps_bytes"));
    options = {};
    options.backwards_per_forward = 0;
    EXPECT_THAT(text({good}, options), HasSubstr("backwards_per_forward is 0"));
    options = {};
    options.bucket_plan.emplace();
    options.bucket_plan->buckets = {{{0}, 1}, {{0}, 1}};
    EXPECT_THAT(text({good}, options), HasSubstr("2 indices for 1"));
    EXPECT_THAT(
        message_of<UsageError>([&] { const Reducer reducer({good}, nullptr); }),
        HasSubstr("group is null"));
    expect_fresh_start({good}, group);
  });
}

TEST(ReducerErrors, AParameterWithoutGradientIsNamedByThatBackward) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    Reducer reducer(parameters, group, named({"first", "lost", "last"}));
    reducer.prepare_for_forward();
    const at::Tensor loss = loss_of(pick(parameters, {0, 2}), 1);
    reducer.prepare_for_backward({loss});
    EXPECT_THAT(
        message_of<UsageError>([&] { loss.backward(); }),
        AllOf(HasSubstr("Expected to have finished reduction"),
              HasSubstr("1 of 3 parameters"), HasSubstr("1 ('lost')"),
              HasSubstr(group->rank() == 0 ? "rank 0" : "rank 1"),
              HasSubstr("find_unused_parameters"), HasSubstr("static_graph"),
              HasSubstr("backwards_per_forward"), Not(HasSubstr("'first'"))));
    // It is kept, told on demand, and said by whoever goes on.
    EXPECT_NE(reducer.error(), nullptr);
    EXPECT_THAT(message_of<UsageError>([&] { reducer.check_finalized(); }),
                HasSubstr("'lost'"));
    EXPECT_THAT(
        message_of<AbortedError>([&] { reducer.prepare_for_forward(); }),
        AllOf(HasSubstr("reset_state()"), HasSubstr("'lost'")));
    group->barrier()->wait();
    reducer.reset_state();
    clear_gradients(parameters);
    step(reducer, parameters, group->rank());
    for (const auto& one : parameters) EXPECT_TRUE(is_all(one.grad(), 1.5));
    reducer.check_finalized();
    expect_fresh_start(parameters, group);
  });
}

// On one rank only: the other is told why, and does not wait for its timeout.
TEST(ReducerErrors, OtherRanksHearWhyTheirBackwardEnds) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    {
      Reducer reducer(parameters, group, named({"a", "b"}));
      const bool odd = group->rank() == 1;
      const at::Tensor loss =
          loss_of(odd ? pick(parameters, {1}) : parameters, 1);
      reducer.prepare_for_backward({loss});
      if (odd) {
        message_of<UsageError>([&] { loss.backward(); });
      } else {
        EXPECT_THAT(message_of<AbortedError>([&] { loss.backward(); }),
                    AllOf(HasSubstr("rank 1"), HasSubstr("Expected to have "),
                          HasSubstr("0 ('a')")));
      }
    }
    expect_fresh_start(parameters, group);
  });
}

// Also without outputs, and for a backward that was asked for some gradients
// only.
TEST(ReducerErrors, WithoutOutputsAMissingGradientIsNamedTheSameWay) {
  for (const bool with_inputs : {false, true}) {
    on_ranks(2, [&](const SharedGroup& group) {
      const Tensors parameters = some_parameters(2);
      Reducer reducer(parameters, group, named({"a", "b"}));
      reducer.check_finalized();
      const Tensors some = pick(parameters, {1});
      const at::Tensor loss = loss_of(with_inputs ? parameters : some, 1);
      reducer.prepare_for_backward(with_inputs ? Tensors{loss} : Tensors{});
      EXPECT_THAT(message_of<UsageError>([&] {
                    with_inputs ? loss.backward({}, {}, false, some)
                                : loss.backward();
                  }),
                  HasSubstr("0 ('a')"));
      EXPECT_THAT(message_of<UsageError>([&] { reducer.check_finalized(); }),
                  HasSubstr("0 ('a')"));
      group->barrier()->wait();
      expect_fresh_start(parameters, group);
    });
  }
}

TEST(ReducerErrors, ABackwardThatNeverEndedIsFoundByTheNextStep) {
  on_ranks(1, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group, named({"a", "b"}));
    reducer.prepare_for_backward({});
    reducer.mark_ready(1);
    EXPECT_THAT(message_of<UsageError>([&] { reducer.check_finalized(); }),
                HasSubstr("0 ('a')"));
    EXPECT_THAT(
        message_of<UsageError>([&] { reducer.prepare_for_backward({}); }),
        HasSubstr("Expected to have finished reduction"));
    expect_fresh_start(parameters, group);
  });
}

TEST(ReducerErrors, WhatWasFrozenMeanwhileIsCalledSo) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    Reducer reducer(parameters, group, named({"a", "b", "c"}));
    parameters[1].set_requires_grad(false);
    EXPECT_THAT(
        message_of<Error>([&] { step(reducer, parameters, group->rank()); }),
        AllOf(HasSubstr("1 of 3 parameters"), HasSubstr("1 ('b')"),
              HasSubstr("1 of them were frozen after wrapping")));
    parameters[1].set_requires_grad(true);
    group->barrier()->wait();
    expect_fresh_start(parameters, group);
  });
}

// A backward that threw before any gradient may be tried again.
TEST(ReducerErrors, ABackwardThatThrewAtOnceMayBeRunAgain) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    bool broken = true;
    const at::Tensor sum = loss_of(parameters, group->rank() + 1);
    sum.register_hook([&](const at::Tensor& grad) {
      if (broken) throw std::runtime_error("not yet");
      return grad;
    });
    const at::Tensor loss = sum * 1.0;
    reducer.prepare_for_backward({loss});
    EXPECT_THROW(loss.backward({}, true), std::runtime_error);
    broken = false;
    loss.backward();
    EXPECT_TRUE(is_all(parameters[0].grad(), 1.5));
  });
}

TEST(ReducerErrors, AGradientTooManyIsNamed) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group, named({"a", "b"}));
    reducer.prepare_for_backward({});
    reducer.mark_ready(0);
    EXPECT_THAT(
        message_of<UsageError>([&] { reducer.mark_ready(0); }),
        AllOf(HasSubstr("mark a variable ready only once"),
              HasSubstr("parameter 0 ('a')"),
              HasSubstr("outside of the forward"), HasSubstr("checkpointing"),
              HasSubstr("static_graph"), Not(HasSubstr("misjudged"))));
    expect_fresh_start(parameters, group);
  });
}

TEST(ReducerErrors, ASecondBackwardThroughReducedOutputsIsRefused) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    const at::Tensor loss = loss_of(parameters, group->rank() + 1);
    reducer.prepare_for_backward({loss});
    loss.backward({}, true);
    EXPECT_THAT(message_of<UsageError>([&] { loss.backward(); }),
                HasSubstr("backwards_per_forward"));
    // Nothing was lost: the Reducer goes on. And a new loss may well flow
    // through the old output.
    clear_gradients(parameters);
    step(reducer, parameters, group->rank());
    EXPECT_TRUE(is_all(parameters[0].grad(), 1.5));
    clear_gradients(parameters);
    const at::Tensor first = loss_of(parameters, group->rank() + 1);
    reducer.prepare_for_backward({first});
    first.backward({}, true);
    clear_gradients(parameters);
    const at::Tensor second = first + loss_of(parameters, group->rank() + 1);
    reducer.prepare_for_backward({second});
    second.backward();
    EXPECT_TRUE(is_all(parameters[0].grad(), 3));
  });
}

TEST(ReducerErrors, AnExceptionInBackwardLeavesAReducerThatCanBeReset) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    ReducerOptions options;
    options.bucket_caps_bytes = {16};
    Reducer reducer(parameters, group, options);
    const at::Tensor x = parameters[0] * 1.0;
    x.register_hook([](const at::Tensor& grad) {
      throw std::runtime_error("the disk is full");
      return grad;
    });
    const at::Tensor loss = (x * parameters[1]).sum();
    reducer.prepare_for_backward({loss});
    EXPECT_THROW(loss.backward(), std::runtime_error);
    group->barrier()->wait();
    reducer.reset_state();
    clear_gradients(parameters);
    step(reducer, parameters, group->rank());
    EXPECT_TRUE(is_all(parameters[0].grad(), 1.5));
  });
}

TEST(ReducerErrors, AConvertedParameterIsNoticed) {
  for (const bool find_unused : {false, true}) {
    on_ranks(1, [&](const SharedGroup& group) {
      const Tensors parameters = some_parameters(2);
      ReducerOptions options = named({"a", "b"});
      options.find_unused_parameters = find_unused;
      Reducer reducer(parameters, group, options);
      parameters[0].set_data(at::ones({4}, at::kDouble));
      const at::Tensor loss = loss_of(parameters, 1);
      reducer.prepare_for_backward({loss});
      EXPECT_THAT(message_of<UsageError>([&] { loss.backward(); }),
                  AllOf(HasSubstr("0 ('a')"), HasSubstr("to(dtype)")));
      expect_fresh_start(parameters, group);
    });
  }
}

TEST(ReducerErrors, AGradientThatIsReplacedMeanwhileIsNamed) {
  on_ranks(1, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group, named({"a", "b"}));
    reducer.prepare_for_backward({});
    reducer.mark_ready(1);
    reducer.mark_ready(0);
    parameters[0].mutable_grad() = at::ones({4});
    EXPECT_THAT(message_of<UsageError>([&] { reducer.finish_backward(); }),
                HasSubstr("0 ('a')"));
  });
}

TEST(ReducerErrors, AFailedRebuildIsTheFailureOfAllRanks) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    ReducerOptions options;
    options.bucket_caps_bytes = {16};
    Reducer reducer(parameters, group, options);
    const auto forward = [&] {
      return (at::ones({4}) * parameters[1] * parameters[2] * parameters[0])
          .sum();
    };
    const at::Tensor loss = forward();
    reducer.prepare_for_backward({loss});
    loss.backward();
    ASSERT_TRUE(reducer.should_rebuild_buckets());
    reducer.prepare_for_forward();
    const at::Tensor next = forward();
    const auto prepare = [&] { reducer.prepare_for_backward({next}); };
    if (group->rank() == 1) {
      reducer.on_plan_change(
          [](const BucketPlan&) { throw UsageError("no plan for me"); });
      EXPECT_THAT(message_of<UsageError>(prepare), HasSubstr("no plan for me"));
      EXPECT_NE(reducer.error(), nullptr);
    } else {
      EXPECT_THAT(message_of<AbortedError>(prepare),
                  HasSubstr("no plan for me"));
    }
    expect_fresh_start(parameters, group);
  });
}

TEST(ReducerErrors, SparseAndDenseAreNotMixedUp) {
  on_ranks(1, [](const SharedGroup& group) {
    const at::Tensor one = parameter({4});
    ReducerOptions options = named({"a"});
    {
      Reducer reducer({one}, group, options);
      one.mutable_grad() = at::ones({4}).to_sparse();
      reducer.prepare_for_backward({});
      EXPECT_THAT(message_of<UsageError>([&] { reducer.mark_ready(0); }),
                  AllOf(HasSubstr("'a'"), HasSubstr("expect_sparse")));
    }
    one.mutable_grad().reset();
    options.expect_sparse = {true};
    Reducer reducer({one}, group, options);
    const at::Tensor loss = one.sum();
    reducer.prepare_for_backward({loss});
    EXPECT_THAT(message_of<UsageError>([&] { loss.backward(); }),
                HasSubstr("got a dense gradient"));
  });
}

TEST(ReducerErrors, CallsAtTheWrongTimeAreRefused) {
  on_ranks(1, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    message_of<UsageError>([&] { reducer.mark_ready(0); });
    message_of<UsageError>([&] { reducer.finish_backward(); });
    message_of<UsageError>([&] { reducer.set_divisor(0); });
    reducer.prepare_for_backward({});
    message_of<UsageError>([&] { reducer.mark_ready(7); });
    reducer.mark_ready(0);
    EXPECT_THAT(
        message_of<UsageError>([&] { reducer.set_gradient_map(nullptr); }),
        HasSubstr("in a backward"));
    reducer.mark_ready(1);
    reducer.finish_backward();
    EXPECT_THAT(message_of<UsageError>([&] { reducer.set_static_graph(); }),
                HasSubstr("before the first"));
  });
}

}  // namespace
}  // namespace lockstep
