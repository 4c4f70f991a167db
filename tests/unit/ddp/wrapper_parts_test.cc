// SPDX-License-Identifier: Apache-2.0
// What a wrapper consists of, part by part.
#include <gmock/gmock.h>

#include "ddp/wrapper/buffer_sync.h"
#include "ddp/wrapper/model_parts.h"
#include "ddp/wrapper/replica_check.h"
#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/wrapper_models.h"

namespace lockstep::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::is_all;
using testing::message_of;
using testing::Net;
using testing::on_ranks;
using testing::SharedGroup;

TEST(ModelParts, ListsParametersByNameWithoutTheIgnored) {
  const Net net;
  const auto model = wrapped(net.ptr());
  DdpOptions options;
  options.ignored = {"first.bias", "table"};
  options.sparse = {"scale"};
  const ModelParts parts = take_apart(*model, options);
  std::vector<std::string> names;
  for (const auto& one : parts.parameters) {
    names.push_back(one.name);
    EXPECT_EQ(one.requires_grad, one.name != "frozen");
    EXPECT_EQ(one.has_sparse_gradient, one.name == "scale");
  }
  EXPECT_THAT(names, ElementsAre("scale", "frozen", "first.weight",
                                 "second.weight", "second.bias"));
  const NamedTensors buffers = buffers_of(*model, options);
  ASSERT_EQ(buffers.size(), 1U);
  EXPECT_EQ(buffers[0].first, "count");
}

TEST(ModelParts, NoticesAParameterThatWasReplaced) {
  Net net;
  const auto model = wrapped(net.ptr());
  const ModelParts parts = take_apart(*model, {});
  check_unchanged(*model, parts);
  net->first->weight = net->first->register_parameter("other", at::ones({1}));
  EXPECT_THAT(message_of<UsageError>([&] { check_unchanged(*model, parts); }),
              HasSubstr("after the module was wrapped"));
}

TEST(BufferSync, SendsAllAtFirstAndThenWhatHasChangedOnSomeRank) {
  on_ranks(2, [](const SharedGroup& group) {
    const at::Tensor same = at::full({2}, group->rank() + 1.0);
    const at::Tensor changed = at::zeros({2});
    const NamedTensors buffers = {{"same", same}, {"changed", changed}};
    BufferSync sync;
    sync.before_forward(*group, buffers);
    EXPECT_TRUE(is_all(same, 1));
    if (group->rank() == 1) changed.fill_(9);
    const int64_t before = group->sequence_number();
    sync.tell_changes(*group);
    sync.before_forward(*group, buffers);
    EXPECT_TRUE(is_all(changed, 0));
    EXPECT_EQ(group->sequence_number(), before + 2);  // the flags, and one
    sync.tell_changes(*group);
    sync.before_forward(*group, buffers);
    EXPECT_EQ(group->sequence_number(), before + 3);  // the flags alone
  });
}

TEST(ReplicaCheck, NamesWhatDiffersAndWhere) {
  on_ranks(2, [](const SharedGroup& group) {
    std::vector<ModelParameter> parameters;
    parameters.push_back({"a", at::ones({2})});
    parameters.push_back({"b", at::ones({2})});
    check_replicas(*group, parameters, 1);
    if (group->rank() == 1) parameters[1].tensor[0] = 1 + 1e-6F;
    const std::string text = message_of<MismatchError>(
        [&] { check_replicas(*group, parameters, 2); });
    EXPECT_THAT(text, HasSubstr("b"));
    EXPECT_THAT(text, HasSubstr("1"));
  });
}

}  // namespace
}  // namespace lockstep::detail
