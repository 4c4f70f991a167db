// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/unused_parameters.h"

#include <functional>

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::detail {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LogCapture;
using testing::message_of;
using testing::some_parameters;
using testing::Tensors;

// Calls a function at each gradient.
class EachGradient : public BackwardListener {
 public:
  explicit EachGradient(std::function<void()> f) : f_(std::move(f)) {}
  void on_gradient(size_t /*parameter*/) override { f_(); }
  void on_output(uint64_t /*graph*/) override {}

 private:
  const std::function<void()> f_;
};

class UnusedParametersTest : public ::testing::Test {
 protected:
  // What is found in a backward to these parameters.
  std::vector<size_t> search(const Tensors& used) {
    testing::loss_of(used, 1).backward();
    return found_;
  }

  const Tensors parameters_ = some_parameters(3);
  const std::vector<std::string> names_ = {"a", "b", "c"};
  UnusedParameters unused_{1, names_};
  std::vector<size_t> found_;
  const std::shared_ptr<EachGradient> listener_ =
      std::make_shared<EachGradient>(
          [this] { found_ = unused_.find(hooks_, parameters_); });
  const GradHooks hooks_{parameters_, names_, listener_};
};

TEST_F(UnusedParametersTest, AreThoseThatBackwardWillNotComeTo) {
  const LogCapture quiet;
  EXPECT_FALSE(unused_.last().has_value());
  EXPECT_THAT(search({parameters_[1]}), ElementsAre(0, 2));
  EXPECT_THAT(search({parameters_[1]}), ElementsAre(0, 2));
  EXPECT_FALSE(unused_.have_changed());
  EXPECT_THAT(search(parameters_), IsEmpty());
  EXPECT_TRUE(unused_.have_changed());
  EXPECT_THAT(*unused_.last(), IsEmpty());
}

TEST_F(UnusedParametersTest, ASearchThatFindsNoneIsWarnedOfOnce) {
  const LogCapture log;
  search({parameters_[0]});
  EXPECT_EQ(log.count("find_unused_parameters is on"), 0);
  search(parameters_);
  search(parameters_);
  EXPECT_EQ(log.count("rank 1: find_unused_parameters is on"), 1);
}

TEST_F(UnusedParametersTest, AStaticGraphLogsThemByName) {
  const LogCapture log;
  unused_.note({2}, true);
  EXPECT_EQ(log.count("in this static graph: 2 ('c')"), 1);
  EXPECT_THAT(*unused_.last(), ElementsAre(2));
}

TEST_F(UnusedParametersTest, AConvertedParameterIsAnErrorAndAFrozenOneIsNot) {
  const auto check = [&] {
    check_hooks_are_on(hooks_, parameters_, {0, 1, 2}, names_);
  };
  check();
  parameters_[0].set_requires_grad(false);
  check();
  parameters_[2].set_data(at::ones({4}, at::kDouble));
  EXPECT_THAT(message_of<UsageError>(check),
              AllOf(HasSubstr("2 ('c')"), HasSubstr("to(dtype)")));
  check_hook_is_on(hooks_, parameters_, 1, names_);
}

}  // namespace
}  // namespace lockstep::detail
