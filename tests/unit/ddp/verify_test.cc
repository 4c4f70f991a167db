// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/verify.h"

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

struct Given {
  Tensors parameters = {parameter({2, 3}), parameter({4})};
  std::vector<std::string> names = {"fc.weight", "fc.bias"};
  std::vector<std::string> settings = {"static_graph = false"};
};

// What all ranks say when rank 1 of 3 has changed something.
std::string difference(const std::function<void(Given&)>& change) {
  std::mutex mutex;
  std::string text;
  on_ranks(3, [&](const SharedGroup& group) {
    Given given;
    if (group->rank() == 1) change(given);
    const auto mine = message_of<MismatchError>([&] {
      verify_parameters(*group, given.parameters, given.names, given.settings);
    });
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (group->rank() == 0) text = mine;
    }
    EXPECT_THAT(mine, HasSubstr("on rank 1"));
    group->barrier()->wait();  // as usable as before
  });
  EXPECT_THAT(text, AllOf(HasSubstr("expects same model across all ranks"),
                          HasSubstr("on rank 1"), Not(HasSubstr("rank 2"))));
  return text;
}

TEST(VerifyParameters, EqualOnesPass) {
  on_ranks(3, [](const SharedGroup& group) {
    const Given given;
    verify_parameters(*group, given.parameters, given.names, given.settings);
    EXPECT_EQ(group->sequence_number(), 1);
  });
}

TEST(VerifyParameters, NamesEveryKindOfDifference) {
  EXPECT_THAT(difference([](Given& one) {
                one.parameters.pop_back();
                one.names.pop_back();
              }),
              AllOf(HasSubstr("rank 0 has 2 parameters and rank 1 has 1"),
                    HasSubstr("'fc.bias'")));
  EXPECT_THAT(difference([](Given& one) { one.names[1] = "fc.b"; }),
              AllOf(HasSubstr("parameter 1"), HasSubstr("'fc.b'")));
  EXPECT_THAT(difference([](Given& one) {
                one.parameters[0] = parameter({3, 2});
              }),
              AllOf(HasSubstr("sizes [2, 3]"), HasSubstr("sizes [3, 2]")));
  EXPECT_THAT(
      difference([](Given& one) { one.parameters[0] = parameter({6}); }),
      AllOf(HasSubstr("parameter 0"), HasSubstr("sizes [6]")));
  EXPECT_THAT(
      difference([](Given& one) {
        one.parameters[0] = at::ones({3, 2}).t().set_requires_grad(true);
      }),
      AllOf(HasSubstr("strides [3, 1]"), HasSubstr("strides [1, 2]")));
  EXPECT_THAT(difference([](Given& one) {
                one.parameters[1] = parameter({4}, at::kDouble);
              }),
              AllOf(HasSubstr("Float"), HasSubstr("Double")));
  EXPECT_THAT(difference([](Given& one) {
                one.parameters[1].set_requires_grad(false);
              }),
              HasSubstr("is frozen"));
  EXPECT_THAT(
      difference([](Given& one) { one.settings[0] = "static_graph = true"; }),
      AllOf(HasSubstr("a setting is "), HasSubstr("static_graph = true")));
}

TEST(VerifyParameters, AReducerDoesItAtTheStart) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    ReducerOptions options;
    options.find_unused_parameters = group->rank() == 1;
    EXPECT_THAT(message_of<MismatchError>(
                    [&] { const Reducer reducer(parameters, group, options); }),
                HasSubstr("find_unused_parameters = true"));
    group->barrier()->wait();
    Reducer reducer(parameters, group);
    step(reducer, parameters, group->rank());
    EXPECT_TRUE(is_all(parameters[0].grad(), 1.5));
  });
}

}  // namespace
}  // namespace lockstep
