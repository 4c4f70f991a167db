// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/messages.h"

#include <gmock/gmock.h>

namespace lockstep::detail {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Messages, ParametersAreListedUpToTwenty) {
  EXPECT_EQ(parameters_text({2, 0}, {"a", "b", "c"}), "2 ('c'), 0 ('a')");
  std::vector<size_t> indices;
  std::vector<std::string> names;
  for (size_t i = 0; i < 23; ++i) {
    indices.push_back(i);
    names.push_back("p" + std::to_string(i));
  }
  EXPECT_THAT(parameters_text(indices, names),
              AllOf(HasSubstr("19 ('p19') and 3 more"), Not(HasSubstr("p20"))));
}

// The remedy depends on what is turned on already.
TEST(Messages, AnUnfinishedReductionComesWithTheRemedyThatIsLeft) {
  ReducerOptions options;
  const auto text = [&](size_t frozen) {
    return unfinished_text(3, {1}, frozen, {"a", "b"}, options);
  };
  EXPECT_THAT(text(0), AllOf(HasSubstr("Expected to have finished reduction"),
                             HasSubstr("1 of 2 parameters"),
                             HasSubstr("rank 3"), HasSubstr("1 ('b')"),
                             HasSubstr("turn on find_unused_parameters"),
                             HasSubstr("backwards_per_forward (it is 1)")));
  options.find_unused_parameters = true;
  EXPECT_THAT(text(0), AllOf(HasSubstr("find_unused_parameters is on"),
                             Not(HasSubstr("turn on find_unused"))));
  options.static_graph = true;
  EXPECT_THAT(text(0), HasSubstr("Turn static_graph off"));
  EXPECT_THAT(text(1), AllOf(HasSubstr("1 of them were frozen"),
                             Not(HasSubstr("static_graph"))));
}

TEST(Messages, NameRankParameterAndCause) {
  EXPECT_THAT(twice_text(2, 7, "fc.bias", false),
              AllOf(HasSubstr("mark a variable ready only once"),
                    HasSubstr("7 ('fc.bias')"), HasSubstr("rank 2"),
                    Not(HasSubstr("search"))));
  EXPECT_THAT(twice_text(2, 7, "fc.bias", true), HasSubstr("search"));
  EXPECT_THAT(changed_text(2, 7, "fc.bias"),
              AllOf(HasSubstr("training graph has changed"),
                    HasSubstr("7 ('fc.bias')"), HasSubstr("rank 2")));
  EXPECT_THAT(again_text(2), AllOf(HasSubstr("passed again, on rank 2"),
                                   HasSubstr("backwards_per_forward")));
  EXPECT_THAT(not_in_map_text(7, "fc.bias"),
              AllOf(HasSubstr("GradientMap"), HasSubstr("7 ('fc.bias')"),
                    HasSubstr("mark_ready()")));
  EXPECT_EQ(hook_text(1, 4, "sign"), "bucket 1 of 4, hook 'sign'");
}

}  // namespace
}  // namespace lockstep::detail
