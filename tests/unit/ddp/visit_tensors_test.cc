// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/visit_tensors.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace theirs {
struct Box {
  at::Tensor inside;
};
}  // namespace theirs

template <>
struct lockstep::VisitTensors<theirs::Box> {
  template <class F>
  static void visit(theirs::Box& box, F&& f) {
    lockstep::visit_tensors(box.inside, f);
  }
};

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

enum class Color { kRed };

struct Output {
  std::vector<at::Tensor> many;
  theirs::Box box;
  template <class F>
  void visit_tensors(F&& f) {
    f(many), f(box);
  }
};

at::Tensor number(double value) { return at::full({}, value); }

template <class T>
std::vector<double> numbers_in(T value) {
  std::vector<double> found;
  visit_tensors(value, [&](at::Tensor& one) {
    found.push_back(one.defined() ? one.item<double>() : -1);
  });
  return found;
}

TEST(VisitTensors, FindsThemInOrder) {
  EXPECT_THAT(numbers_in(number(1)), ElementsAre(1));
  EXPECT_THAT(numbers_in(std::make_pair(number(1), number(2))),
              ElementsAre(1, 2));
  EXPECT_THAT(numbers_in(std::vector<at::Tensor>{number(3), at::Tensor()}),
              ElementsAre(3, -1));
  EXPECT_THAT(numbers_in(std::array<at::Tensor, 2>{number(4), number(5)}),
              ElementsAre(4, 5));
  EXPECT_THAT(
      numbers_in(std::map<int, at::Tensor>{{2, number(2)}, {1, number(1)}}),
      ElementsAre(1, 2));
  EXPECT_THAT(numbers_in(std::unordered_map<int, at::Tensor>{{1, number(6)}}),
              ElementsAre(6));
  EXPECT_THAT(numbers_in(std::optional<at::Tensor>(number(7))), ElementsAre(7));
  EXPECT_THAT(numbers_in(c10::optional<at::Tensor>(number(7))), ElementsAre(7));
  EXPECT_THAT(numbers_in(std::variant<int, at::Tensor>(number(8))),
              ElementsAre(8));
}

TEST(VisitTensors, GoesAsDeepAsNeeded) {
  std::tuple<int, std::vector<std::pair<std::string, at::Tensor>>,
             std::optional<std::map<int, at::Tensor>>>
      value{3, {{"a", number(1)}, {"b", number(2)}}, {{{0, number(3)}}}};
  EXPECT_THAT(numbers_in(value), ElementsAre(1, 2, 3));
}

TEST(VisitTensors, PassesOverWhatHasNone) {
  EXPECT_THAT(numbers_in(3), IsEmpty());
  EXPECT_THAT(numbers_in(std::string("x")), IsEmpty());
  EXPECT_THAT(numbers_in(Color::kRed), IsEmpty());
  EXPECT_THAT(numbers_in(std::vector<bool>{true, false}), IsEmpty());
  EXPECT_THAT(numbers_in(std::optional<at::Tensor>()), IsEmpty());
  EXPECT_THAT(numbers_in(std::variant<int, at::Tensor>(3)), IsEmpty());
}

TEST(VisitTensors, AsksStructsAndTheirTraits) {
  EXPECT_THAT(numbers_in(Output{{number(1), number(2)}, {number(3)}}),
              ElementsAre(1, 2, 3));
}

TEST(VisitTensors, MayReplaceThem) {
  std::vector<Output> value{{{number(1)}, {number(2)}}};
  visit_tensors(value, [](at::Tensor& one) { one = one + 10; });
  EXPECT_THAT(numbers_in(value), ElementsAre(11, 12));
}

}  // namespace
}  // namespace lockstep
