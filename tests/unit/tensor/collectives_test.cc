// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/collectives.h"

#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/dtype.h"
#include "support/message_of.h"
#include "unit/tensor/tensor_ranks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::on_ranks;

TEST(TensorCollectives, AllReduceKeepsShapeAndStrides) {
  on_ranks(3, [](ProcessGroup& group) {
    const at::Tensor base =
        at::arange(24, at::kFloat).view({4, 6}) * (group.rank() + 1);
    const at::Tensor turned = base.clone().t();  // not contiguous
    const auto strides = turned.strides().vec();
    all_reduce(group, turned)->wait();
    EXPECT_EQ(turned.strides().vec(), strides);
    EXPECT_TRUE(
        at::equal(turned, at::arange(24, at::kFloat).view({4, 6}).t() * 6));
  });
}

TEST(TensorCollectives, AllReduceWritesOnlyTheElementsOfAView) {
  on_ranks(2, [](ProcessGroup& group) {
    const at::Tensor base = at::ones({4, 4}, at::kDouble);
    all_reduce(group, base.slice(1, 0, 4, 2))->wait();
    EXPECT_TRUE(
        at::equal(base.slice(1, 0, 4, 2), at::full({4, 2}, 2.0, at::kDouble)));
    EXPECT_TRUE(
        at::equal(base.slice(1, 1, 4, 2), at::ones({4, 2}, at::kDouble)));
  });
}

TEST(TensorCollectives, ChannelsLastTensorsStayWhatTheyAre) {
  on_ranks(2, [](ProcessGroup& group) {
    const at::Tensor image = at::arange(48, at::kFloat)
                                 .view({2, 2, 3, 4})
                                 .contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor expected = image.clone() * 2;
    all_reduce(group, image)->wait();
    EXPECT_TRUE(image.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(at::equal(image, expected));
  });
}

TEST(TensorCollectives, EmptyAndDimensionlessTensorsTakePart) {
  on_ranks(3, [](ProcessGroup& group) {
    const at::Tensor nothing = at::empty({0, 3});
    all_reduce(group, nothing)->wait();
    EXPECT_EQ(nothing.numel(), 0);
    const at::Tensor number = at::scalar_tensor(group.rank() + 1, at::kLong);
    all_reduce(group, number)->wait();
    EXPECT_EQ(number.dim(), 0);
    EXPECT_EQ(number.item<int64_t>(), 6);
  });
}

TEST(TensorCollectives, EveryTypeIsReduced) {
  on_ranks(2, [](ProcessGroup& group) {
    for (const auto type :
         {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar,
          at::kByte, at::kShort, at::kInt, at::kLong, at::kBool}) {
      const at::Tensor x = at::ones({5}, type);
      all_reduce(group, x, ReduceOp::kMax)->wait();
      EXPECT_TRUE(at::equal(x, at::ones({5}, type))) << c10::toString(type);
    }
  });
}

TEST(TensorCollectives, ComplexNumbersAreSummedAsPairs) {
  on_ranks(2, [](ProcessGroup& group) {
    const at::Tensor z = at::complex(at::arange(4, at::kFloat), at::ones({4}));
    const at::Tensor expected = z * 2;
    const at::Tensor turned = z.clone().view({2, 2}).t();
    all_reduce(group, turned)->wait();
    EXPECT_TRUE(at::equal(turned, expected.view({2, 2}).t()));
    const at::Tensor conjugate = z.clone().conj();
    all_reduce(group, conjugate)->wait();
    EXPECT_TRUE(
        at::equal(conjugate.resolve_conj(), expected.conj().resolve_conj()));
    const auto message =
        message_of<UsageError>([&] { all_reduce(group, z, ReduceOp::kMax); });
    EXPECT_THAT(message, HasSubstr("'max' is not defined for ComplexFloat"));
  });
}

TEST(TensorCollectives, BroadcastReduceAndScalesWork) {
  on_ranks(3, [](ProcessGroup& group) {
    const at::Tensor x = at::full({3, 2}, group.rank(), at::kFloat);
    broadcast(group, x, 2)->wait();
    EXPECT_TRUE(at::equal(x, at::full({3, 2}, 2.0)));
    const at::Tensor y = at::full({3}, group.rank() + 1, at::kFloat).clone();
    reduce(group, y, 1, ReduceOp::kProduct)->wait();
    EXPECT_TRUE(at::equal(
        y,
        at::full({3}, group.rank() == 1 ? 6 : group.rank() + 1, at::kFloat)));
    const at::Tensor w = at::ones({4});
    all_reduce(group, w, ReduceOp::premul_sum(0.5))->wait();
    EXPECT_TRUE(at::equal(w, at::full({4}, 1.5)));
  });
}

TEST(TensorCollectives, ListsMayHaveTensorsOfDifferentSizes) {
  on_ranks(3, [](ProcessGroup& group) {
    const int rank = group.rank();
    TensorList outputs;
    for (int r = 0; r < 3; ++r) outputs.push_back(at::zeros({r, 2}));
    all_gather(group, outputs, at::full({rank, 2}, rank, at::kFloat))->wait();
    for (int r = 0; r < 3; ++r) {
      EXPECT_TRUE(
          at::equal(outputs[size_t(r)], at::full({r, 2}, r, at::kFloat)));
    }
    TensorList gathered = outputs;
    for (auto& one : gathered) one = at::zeros_like(one);
    gather(group, gathered, at::full({rank, 2}, rank, at::kFloat), 1)->wait();
    const at::Tensor part = at::zeros({rank, 2});
    scatter(group, part, gathered, 1)->wait();
    EXPECT_TRUE(at::equal(part, at::full({rank, 2}, rank, at::kFloat)));
    const at::Tensor mine = at::zeros({rank, 2});
    TensorList inputs;
    for (int r = 0; r < 3; ++r)
      inputs.push_back(at::full({r, 2}, rank, at::kFloat));
    reduce_scatter(group, mine, inputs, ReduceOp::kMax)->wait();
    EXPECT_TRUE(at::equal(mine, at::full({rank, 2}, 2.0)));
  });
}

TEST(TensorCollectives, GatherAndScatterNeedTheListAtTheRootOnly) {
  on_ranks(2, [](ProcessGroup& group) {
    TensorList outputs;
    if (group.rank() == 0) outputs = {at::zeros({2}), at::zeros({2})};
    gather(group, outputs, at::full({2}, group.rank(), at::kFloat), 0)->wait();
    if (group.rank() == 0) {
      EXPECT_TRUE(at::equal(outputs[1], at::ones({2})));
    }
    const at::Tensor part = at::zeros({2});
    scatter(group, part, outputs, 0)->wait();
    EXPECT_TRUE(at::equal(part, at::full({2}, group.rank(), at::kFloat)));
  });
}

TEST(TensorCollectives, AllToAllSwapsRowsByTheirSplits) {
  on_ranks(2, [](ProcessGroup& group) {
    const int rank = group.rank();
    // Rank 0 gives one row to itself and two to rank 1; rank 1 keeps all.
    const std::vector<int64_t> in =
        rank == 0 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{0, 1};
    const std::vector<int64_t> out =
        rank == 0 ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{2, 1};
    const at::Tensor input = at::full({in[0] + in[1], 3}, rank, at::kFloat);
    const at::Tensor output = at::full({out[0] + out[1], 3}, 9, at::kFloat);
    all_to_all_single(group, output, input, out, in)->wait();
    const at::Tensor expected =
        rank == 0 ? at::zeros({1, 3})
                  : at::cat({at::zeros({2, 3}), at::ones({1, 3})});
    EXPECT_TRUE(at::equal(output, expected));
    const TensorList inputs = {at::full({2}, rank * 10, at::kFloat),
                               at::full({2}, rank * 10 + 1, at::kFloat)};
    const TensorList outputs = {at::zeros({2}), at::zeros({2})};
    all_to_all(group, outputs, inputs)->wait();
    EXPECT_TRUE(at::equal(outputs[1], at::full({2}, 10 + rank, at::kFloat)));
  });
}

TEST(TensorCollectives, OneTensorMayHoldAllParts) {
  on_ranks(2, [](ProcessGroup& group) {
    const at::Tensor all = at::zeros({2, 3});
    all_gather_into(group, all, at::full({3}, group.rank(), at::kFloat))
        ->wait();
    EXPECT_TRUE(at::equal(all[1], at::ones({3})));
    const at::Tensor part = at::zeros({3});
    reduce_scatter_from(group, part, all, ReduceOp::kAverage)->wait();
    EXPECT_TRUE(at::equal(part, at::full({3}, group.rank(), at::kFloat)));
  });
}

TEST(TensorCollectives, CoalescedFormsAreOneOperation) {
  on_ranks(3, [](ProcessGroup& group) {
    const at::Tensor a = at::ones({2, 3});
    const at::Tensor b = at::full({4}, 2.0).view({2, 2}).t();
    const at::Tensor c = at::empty({0});
    all_reduce_coalesced(group, {a, b, c}, ReduceOp::kAverage)->wait();
    EXPECT_EQ(group.sequence_number(), 1);
    EXPECT_TRUE(at::equal(a, at::ones({2, 3})));
    EXPECT_TRUE(at::equal(b, at::full({2, 2}, 2.0)));
    std::vector<TensorList> outputs(2);
    for (int r = 0; r < 3; ++r) {
      outputs[0].push_back(at::zeros({2}));
      outputs[1].push_back(at::zeros({1, 3}));
    }
    all_gather_coalesced(group, outputs,
                         {at::full({2}, group.rank(), at::kFloat),
                          at::full({1, 3}, group.rank() + 10, at::kFloat)})
        ->wait();
    EXPECT_TRUE(at::equal(outputs[0][2], at::full({2}, 2.0)));
    EXPECT_TRUE(at::equal(outputs[1][1], at::full({1, 3}, 11.0)));
    const TensorList sums = {at::zeros({2}), at::zeros({1, 3})};
    reduce_scatter_coalesced(group, sums, outputs)->wait();
    EXPECT_TRUE(at::equal(sums[0], at::full({2}, 3.0 * group.rank())));
    EXPECT_TRUE(
        at::equal(sums[1], at::full({1, 3}, 3.0 * (group.rank() + 10))));
  });
}

TEST(TensorCollectives, BroadcastCoalescedCarriesManyTypesInFewMessages) {
  on_ranks(2, [](ProcessGroup& group) {
    TensorList tensors;
    for (int i = 0; i < 20; ++i) {
      const auto type = i < 10 ? at::kFloat : at::kLong;
      tensors.push_back(
          at::full({10, i + 1}, group.rank() == 1 ? i : -1, type).t());
    }
    broadcast_coalesced(group, tensors, 1)->wait();
    EXPECT_EQ(group.sequence_number(), 2);
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(at::all(tensors[size_t(i)] == i).item<bool>()) << i;
    }
    broadcast_coalesced(group, tensors, 0, 400)->wait();
    EXPECT_GT(group.sequence_number(), 12);
  });
}

TEST(TensorCollectives, MessagesGoIntoTheElementsOfAView) {
  on_ranks(2, [](ProcessGroup& group) {
    if (group.rank() == 0) {
      send(group, at::arange(6, at::kFloat).view({2, 3}).t(), 1, 7)->wait();
      return;
    }
    const at::Tensor x = at::zeros({2, 3});
    const auto work = recv_any(group, x.t(), 7);
    work->wait();
    EXPECT_EQ(work->source_rank(), 0);
    EXPECT_TRUE(at::equal(x, at::arange(6, at::kFloat).view({2, 3})));
  });
}

TEST(TensorCollectives, RegisteredTensorsAreReducedWhereTheyAre) {
  on_ranks(2, [](ProcessGroup& group) {
    at::Tensor x = registered_zeros(group, {1000, 3}, at::kDouble);
    EXPECT_TRUE(at::equal(x, at::zeros({1000, 3}, at::kDouble)));
    x.fill_(group.rank() + 1);
    const void* const where = x.data_ptr();
    all_reduce(group, x)->wait();
    EXPECT_EQ(x.data_ptr(), where);
    EXPECT_TRUE(at::equal(x, at::full({1000, 3}, 3.0, at::kDouble)));
    EXPECT_EQ(registered_zeros(group, {0, 4}).numel(), 0);
  });
}

TEST(TensorCollectives, AnOperationKeepsItsTensors) {
  on_ranks(2, [](ProcessGroup& group) {
    at::Tensor x = at::ones({100000});
    const at::Tensor view = x.view({100, 1000});
    const auto work = all_reduce(group, at::ones({300000}).view({3, -1}));
    const auto second = all_reduce(group, view);
    x = at::Tensor();
    second->wait();
    EXPECT_TRUE(at::equal(view, at::full({100, 1000}, 2.0)));
  });
}

TEST(TensorCollectives, ShapesThatDifferAreNamedOnAllRanks) {
  on_ranks(2, [](ProcessGroup& group) {
    const at::Tensor x =
        group.rank() == 0 ? at::ones({2, 3}) : at::ones({3, 2});
    const auto message =
        message_of<MismatchError>([&] { all_reduce(group, x)->wait(); });
    EXPECT_THAT(
        message,
        HasSubstr("rank 0 called all_reduce #0 (sum) of float32 [2, 3]"));
    EXPECT_THAT(
        message,
        HasSubstr("rank 1 called all_reduce #0 (sum) of float32 [3, 2]"));
    EXPECT_TRUE(at::equal(x, at::ones_like(x)));
  });
}

TEST(TensorCollectives, WrongArgumentsAreNamedAndTakeNoNumber) {
  on_ranks(2, [](ProcessGroup& group) {
    const at::Tensor x = at::ones({4});
    const auto usage = [](const std::function<void()>& call) {
      return message_of<UsageError>(call);
    };
    EXPECT_THAT(usage([&] { all_reduce(group, at::Tensor()); }),
                HasSubstr("undefined tensor"));
    EXPECT_THAT(usage([&] { broadcast(group, at::eye(3).to_sparse()); }),
                HasSubstr("a dense tensor is needed"));
    EXPECT_THAT(
        usage([&] { broadcast(group, at::empty({2}, at::device(at::kMeta))); }),
        HasSubstr("is on meta"));
    EXPECT_THAT(usage([&] { broadcast(group, x, 2); }),
                HasSubstr("root is 2; ranks of this group go from 0 to 1"));
    EXPECT_THAT(usage([&] { all_gather(group, {}, x); }),
                HasSubstr("is empty"));
    EXPECT_THAT(usage([&] { all_gather(group, {x}, x); }),
                HasSubstr("1 tensors for 2 ranks"));
    EXPECT_THAT(usage([&] {
                  all_reduce_coalesced(group, {x, at::ones({1}, at::kInt)});
                }),
                HasSubstr("tensors[1] is Int and tensors[0] is Float"));
    EXPECT_THAT(usage([&] { all_reduce(group, at::ones({1}).expand({4})); }),
                HasSubstr("share memory"));
    EXPECT_THAT(usage([&] {
                  all_to_all_single(group, at::zeros({4}), x, {2, 2}, {1, 2});
                }),
                HasSubstr("its splits add up to 3"));
    EXPECT_THAT(
        usage([&] { all_to_all_single(group, at::zeros({4}), x, {4}, {4}); }),
        HasSubstr("1 splits for 2 ranks"));
    EXPECT_THAT(usage([&] { all_reduce(std::shared_ptr<ProcessGroup>(), x); }),
                HasSubstr("the group is null"));
    EXPECT_EQ(group.sequence_number(), 0);
    all_reduce(group, x)->wait();  // and nothing is out of step
  });
}

TEST(TensorCollectives, TensorsThatNeedGradientsAreReducedWithoutHistory) {
  on_ranks(2, [](ProcessGroup& group) {
    const at::Tensor leaf = at::ones({3, 2}).t().detach().requires_grad_();
    all_reduce(group, leaf)->wait();
    EXPECT_TRUE(leaf.is_leaf());
    EXPECT_TRUE(at::equal(leaf.detach(), at::full({2, 3}, 2.0)));
  });
}

TEST(TensorCollectives, ContinuationsRunWithTheGradModeOfTheirWriter) {
  on_ranks(2, [](ProcessGroup& group) {
    std::optional<bool> seen;
    // Held back until the continuation is there.
    Promise<void> go;
    const auto gate = go.future();
    group.post([gate] {
      while (!gate.is_ready()) std::this_thread::yield();
    });
    const at::Tensor x = at::ones({1});
    const auto work = all_reduce(group, x);
    Future<void> done;
    {
      const at::NoGradGuard no_grad;
      done = work->future().then([&] { seen = at::GradMode::is_enabled(); });
    }
    go.set_value();
    done.get(Deadline::in(std::chrono::seconds(30)));
    EXPECT_EQ(seen, false);
    const auto after = all_reduce(group, x)->future().then(
        [&] { seen = at::GradMode::is_enabled(); });
    after.get(Deadline::in(std::chrono::seconds(30)));
    EXPECT_EQ(seen, true);
  });
}

TEST(TensorCollectives, TensorsOfInferenceModeTakePart) {
  on_ranks(2, [](ProcessGroup& group) {
    const c10::InferenceMode inference;
    const at::Tensor turned = at::ones({2, 3}).t();
    all_reduce(group, turned)->wait();
    EXPECT_TRUE(at::equal(turned, at::full({3, 2}, 2.0)));
    const TensorList outputs = {at::zeros({2}), at::zeros({2})};
    all_gather(group, outputs, at::ones({2}))->wait();
    EXPECT_TRUE(at::equal(outputs[1], at::ones({2})));
  });
}

TEST(TensorCollectives, PackedTensorsOfOtherShapesAreAMismatch) {
  on_ranks(2, [](ProcessGroup& group) {
    const bool first = group.rank() == 0;
    const TensorList list = {at::ones({first ? 2 : 4}),
                             at::ones({first ? 4 : 2})};
    message_of<MismatchError>(
        [&] { broadcast_coalesced(group, list)->wait(); });
  });
}

TEST(TensorCollectives, ABadTensorInAListTakesNoNumber) {
  on_ranks(2, [](ProcessGroup& group) {
    const TensorList list = {at::ones({2}), at::ones({2}, at::kDouble),
                             at::eye(2).to_sparse()};
    EXPECT_THAT(
        message_of<UsageError>([&] { broadcast_coalesced(group, list); }),
        HasSubstr("broadcast_coalesced on group 'world'"));
    EXPECT_EQ(group.sequence_number(), 0);
  });
}

TEST(TensorCollectives, TheRootMayBroadcastAnExpandedTensor) {
  on_ranks(2, [](ProcessGroup& group) {
    const at::Tensor x =
        group.rank() == 0 ? at::ones({1}).expand({3}) : at::zeros({3});
    broadcast(group, x, 0)->wait();
    EXPECT_TRUE(at::equal(x, at::ones({3})));
  });
}

TEST(TensorCollectives, RegisteredTensorsMayBeComplexButNotEndless) {
  on_ranks(2, [](ProcessGroup& group) {
    const at::Tensor z = registered_zeros(group, {4}, at::kComplexFloat);
    all_reduce(group, z)->wait();
    EXPECT_EQ(z.numel(), 4);
    message_of<UsageError>([&] {
      registered_zeros(group, {int64_t{1} << 62, 8});
    });
    EXPECT_EQ(group.sequence_number(), 2);
  });
}

TEST(DTypes, MapBothWaysAndRefuseTheRest) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_of(scalar_type_of(dtype)), dtype);
    EXPECT_EQ(c10::elementSize(scalar_type_of(dtype)), size_of(dtype));
  }
  EXPECT_THAT(message_of<UsageError>([] { dtype_of(at::kQInt8); }),
              HasSubstr("QInt8"));
}

}  // namespace
}  // namespace lockstep
