// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/compress.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::compress {
namespace {

using ::testing::HasSubstr;
using namespace lockstep::testing;

// One step in which every gradient of rank r is `value(r)`; the result of the
// first parameter.
at::Tensor reduce_values(const SharedGroup& group, const CommHook& hook,
                         const std::function<double(int)>& value,
                         at::ScalarType type = at::kFloat, int divisor = 0) {
  const Tensors parameters = {parameter({3, 5}, type), parameter({4}, type)};
  Reducer reducer(parameters, group);
  reducer.register_comm_hook(hook);
  if (divisor > 0) reducer.set_divisor(divisor);
  reducer.prepare_for_forward();
  const at::Tensor loss = loss_of(parameters, value(group->rank()));
  reducer.prepare_for_backward({loss});
  loss.backward();
  return parameters[0].grad();
}

TEST(Compress, AveragesExactlyWhatSixteenBitsCanSay) {
  on_ranks(2, [](const SharedGroup& group) {
    for (const auto& hook : {hooks::fp16_compress(), hooks::bf16_compress(),
                             hooks::fp16_compress(hooks::all_reduce()),
                             hooks::bf16_compress(hooks::all_reduce())}) {
      for (const auto type : {at::kFloat, at::kDouble}) {
        const at::Tensor result = reduce_values(
            group, hook, [](int rank) { return rank + 1; }, type);
        EXPECT_TRUE(is_all(result, 1.5)) << hook.name();
      }
    }
  });
}

TEST(Compress, RoundsToTheTypeOnTheWire) {
  on_ranks(1, [](const SharedGroup& group) {
    const double third = 1.0 / 3;
    const auto value = [&](int) { return third; };
    const auto expect = [&](const CommHook& hook, at::ScalarType type) {
      const at::Tensor rounded = at::full({}, third).to(type).to(at::kFloat);
      EXPECT_TRUE(
          is_all(reduce_values(group, hook, value), rounded.item<double>()))
          << hook.name();
    };
    expect(hooks::fp16_compress(), at::kHalf);
    expect(hooks::bf16_compress(), at::kBFloat16);
  });
}

// 100 000 is no float16, half of it is.
TEST(Compress, DividesBeforeItRounds) {
  on_ranks(2, [](const SharedGroup& group) {
    const auto value = [](int rank) { return rank == 0 ? 1e5 : 0; };
    const auto result = reduce_values(group, hooks::fp16_compress(), value);
    EXPECT_NEAR(result[0][0].item<double>(), 5e4, 32);
  });
}

TEST(Compress, HonoursTheDivisor) {
  on_ranks(2, [](const SharedGroup& group) {
    const auto value = [](int rank) { return rank + 1; };
    for (const auto& hook :
         {hooks::fp16_compress(), hooks::bf16_compress(hooks::all_reduce())}) {
      EXPECT_TRUE(is_all(reduce_values(group, hook, value, at::kFloat, 1), 3));
    }
  });
}

TEST(Compress, LeavesSixteenBitGradientsAsTheyAre) {
  on_ranks(2, [](const SharedGroup& group) {
    const auto value = [](int rank) { return rank + 1; };
    const auto result =
        reduce_values(group, hooks::fp16_compress(), value, at::kBFloat16);
    EXPECT_EQ(result.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(is_all(result, 1.5));
  });
}

TEST(Compress, AnInnerHookSeesSixteenBitsUndivided) {
  on_ranks(2, [](const SharedGroup& group) {
    const auto look = [&](const GradBucket& bucket,
                          const HookContext& context) {
      EXPECT_EQ(bucket.buffer().scalar_type(), at::kHalf);
      EXPECT_TRUE(is_all(bucket.buffer(), group->rank() + 1));
      return hooks::all_reduce()(bucket, context);
    };
    const auto result =
        reduce_values(group, hooks::fp16_compress(CommHook(look)),
                      [](int rank) { return rank + 1; });
    EXPECT_TRUE(is_all(result, 1.5));
  });
}

TEST(Compress, RefusesAnInnerHookThatIsEmpty) {
  EXPECT_THAT(message_of<UsageError>([] { hooks::fp16_compress(CommHook()); }),
              HasSubstr("empty"));
}

TEST(Compress, AnInnerResultOfAnotherSizeNamesBucketAndHook) {
  on_ranks(1, [](const SharedGroup& group) {
    const auto wrong = [](const GradBucket&) {
      return make_future([] { return at::ones({3}, at::kHalf); });
    };
    const CommHook hook = hooks::fp16_compress(CommHook(wrong).named("wrong"));
    const auto text = message_of<UsageError>(
        [&] { reduce_values(group, hook, [](int) { return 1; }); });
    EXPECT_THAT(text, HasSubstr("bucket 0 of 1"));
    EXPECT_THAT(text, HasSubstr("hook 'fp16_compress(wrong)'"));
    EXPECT_THAT(text, HasSubstr("3 elements, and the bucket 19"));
  });
}

}  // namespace
}  // namespace lockstep::compress
