// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/check_parameters.h"

#include <algorithm>
#include <functional>

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "support/scoped_env.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::detail {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::parameter;
using testing::ScopedEnv;
using testing::some_parameters;
using testing::Tensors;

std::string refusal_of(const at::Tensor& second) {
  ReducerOptions options;
  options.names = {"fine", "wrong"};
  return message_of<UsageError>([&] {
    check_reducible({parameter({2}), second}, options);
  });
}

TEST(CheckParameters, NamesTheParameterThatCannotBeReduced) {
  const at::Tensor sparse =
      at::sparse_coo_tensor(at::zeros({1, 1}, at::kLong), at::ones({1}), {4});
  EXPECT_THAT(refusal_of({}),
              AllOf(HasSubstr("1 ('wrong')"), HasSubstr("undefined")));
  EXPECT_THAT(refusal_of(sparse),
              AllOf(HasSubstr("1 ('wrong')"), HasSubstr("sparse")));
  EXPECT_THAT(refusal_of(at::ones({2})), HasSubstr("not require a gradient"));
  EXPECT_THAT(refusal_of(parameter({2}) * 2), HasSubstr("the leaf"));
  EXPECT_THAT(message_of<UsageError>([] { check_reducible({}, {}); }),
              HasSubstr("no parameters"));
}

TEST(CheckParameters, NamesTheOptionThatDoesNotFit) {
  const auto refusal = [](const std::function<void(ReducerOptions&)>& change) {
    ReducerOptions options;
    change(options);
    return message_of<UsageError>(
        [&] { check_reducible(some_parameters(2), options); });
  };
  using Options = ReducerOptions;
  EXPECT_THAT(refusal([](Options& o) { o.names = {"a"}; }),
              HasSubstr("1 names for 2 parameters"));
  EXPECT_THAT(refusal([](Options& o) { o.expect_sparse = {true}; }),
              HasSubstr("expect_sparse has 1 entries"));
  EXPECT_THAT(refusal([](Options& o) { o.bucket_caps_bytes.clear(); }),
              HasSubstr("bucket_caps_bytes is empty"));
  EXPECT_THAT(refusal([](Options& o) { o.rebuild_every = -1; }),
              HasSubstr("rebuild_every is -1"));
  EXPECT_THAT(refusal([](Options& o) { o.backwards_per_forward = 0; }),
              HasSubstr("backwards_per_forward is 0"));
  EXPECT_THAT(refusal([](Options& o) { o.skip_unused = true; }),
              HasSubstr("find_unused_parameters"));
  EXPECT_THAT(refusal([](Options& o) { o.bucket_plan = BucketPlan{{{{0}}}}; }),
              HasSubstr("1"));  // which no bucket has
}

TEST(ParameterSet, HasNamesAndWhatPlanningNeeds) {
  ReducerOptions options;
  options.expect_sparse = {false, false, true};
  const Tensors tensors = {parameter({2, 3}), parameter({2}, at::kDouble),
                           parameter({5})};
  const ParameterSet set = make_parameter_set(tensors, options);
  EXPECT_EQ(set.size(), 3U);
  EXPECT_TRUE(set.tensors[1].is_same(tensors[1]));
  EXPECT_THAT(set.names,
              ElementsAre("parameter 0", "parameter 1", "parameter 2"));
  EXPECT_EQ(set.items[0].bytes, 24U);
  EXPECT_EQ(set.items[1].bytes, 16U);
  EXPECT_NE(set.items[0].key, set.items[1].key);
  EXPECT_EQ(set.items[0].key, set.items[2].key);
  EXPECT_FALSE(set.items[0].sparse);
  EXPECT_TRUE(set.items[2].sparse);
  options.names = {"a", "b", "c"};
  EXPECT_THAT(make_parameter_set(tensors, options).names,
              ElementsAre("a", "b", "c"));
}

TEST(CheckParameters, TheEnvironmentChoosesTheSmallBucket) {
  ReducerOptions last;
  last.small_bucket_last = true;
  EXPECT_TRUE(with_environment(last).small_bucket_last);
  {
    const ScopedEnv on("LOCKSTEP_SMALL_LAST_BUCKET", "1");
    EXPECT_TRUE(with_environment({}).small_bucket_last);
  }
  const ScopedEnv off("LOCKSTEP_SMALL_LAST_BUCKET", "0");
  EXPECT_FALSE(with_environment(last).small_bucket_last);
}

// Ranks compare these lines, so a setting that is not in them may differ.
TEST(CheckParameters, EverySettingThatRanksShareHasALine) {
  using Options = ReducerOptions;
  const std::vector<std::function<void(Options&)>> changes = {
      [](Options& o) { o.bucket_caps_bytes = {7}; },
      [](Options& o) { o.small_bucket_last = true; },
      [](Options& o) { o.gradient_as_bucket_view = false; },
      [](Options& o) { o.find_unused_parameters = true; },
      [](Options& o) { o.static_graph = true; },
      [](Options& o) { o.skip_unused = true; },
      [](Options& o) { o.rebuild_every = 3; },
      [](Options& o) { o.backwards_per_forward = 2; },
      [](Options& o) {
        o.expect_sparse = {false, true};
      },
      [](Options& o) {
        o.bucket_plan = BucketPlan{{{{1}}, {{0}}}};
      }};
  const std::vector<std::string> plain = settings_text({});
  for (size_t i = 0; i < changes.size(); ++i) {
    Options options;
    changes[i](options);
    const std::vector<std::string> lines = settings_text(options);
    ASSERT_EQ(lines.size(), plain.size());
    size_t changed = 0;
    for (size_t line = 0; line < lines.size(); ++line) {
      changed += lines[line] == plain[line] ? 0 : 1;
    }
    EXPECT_EQ(changed, 1U) << "change " << i;
  }
}

}  // namespace
}  // namespace lockstep::detail
