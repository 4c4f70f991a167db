// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;

// A table of 8 rows, and a dense vector.
struct Model {
  at::Tensor table = parameter({8, 2});
  at::Tensor head = parameter({2});
  Tensors parameters() const { return {table, head}; }

  // Without rows the table is not used.
  at::Tensor loss(const std::vector<int64_t>& rows, double factor) const {
    if (rows.empty()) return head.sum() * factor;
    const at::Tensor picked =
        at::embedding(table, at::tensor(rows), -1, false, true);
    return (picked * head).sum() * factor;
  }
};

ReducerOptions sparse_options(bool find_unused = false) {
  ReducerOptions options;
  options.expect_sparse = {true, false};
  options.names = {"table", "head"};
  options.find_unused_parameters = find_unused;
  return options;
}

void run_sparse_step(Reducer& reducer, const at::Tensor& loss) {
  reducer.prepare_for_forward();
  reducer.prepare_for_backward({loss});
  loss.backward();
}

at::Tensor dense_rows(const std::vector<std::pair<int64_t, double>>& rows) {
  const at::Tensor all = at::zeros({8, 2});
  for (const auto& [row, value] : rows) all[row].fill_(value);
  return all;
}

TEST(SparseGradients, RanksWithDifferentRowsGetTheAverage) {
  on_ranks(2, [](const SharedGroup& group) {
    const Model model;
    Reducer reducer(model.parameters(), group, sparse_options());
    for (int i = 0; i < 3; ++i) {
      clear_gradients(model.parameters());
      run_sparse_step(reducer, group->rank() == 0 ? model.loss({1, 5}, 1)
                                                  : model.loss({5, 6, 6}, 2));
      ASSERT_TRUE(model.table.grad().is_sparse());
      EXPECT_TRUE(at::equal(model.table.grad().to_dense(),
                            dense_rows({{1, 0.5}, {5, 1.5}, {6, 2}})));
      EXPECT_TRUE(is_all(model.head.grad(), 4));
    }
  });
}

TEST(SparseGradients, AnUnusedOneTakesPartWithNoEntries) {
  on_ranks(2, [](const SharedGroup& group) {
    const Model model;
    Reducer reducer(model.parameters(), group, sparse_options(true));
    const bool uses = group->rank() == 1;
    run_sparse_step(
        reducer,
        model.loss(uses ? std::vector<int64_t>{3} : std::vector<int64_t>{}, 1));
    EXPECT_TRUE(
        at::equal(model.table.grad().to_dense(), dense_rows({{3, 0.5}})));
    // Used by nobody: what was there stays.
    run_sparse_step(reducer, model.loss({}, 1));
    EXPECT_TRUE(
        at::equal(model.table.grad().to_dense(), dense_rows({{3, 0.5}})));
    clear_gradients(model.parameters());
    run_sparse_step(reducer, model.loss({}, 1));
    EXPECT_FALSE(model.table.grad().defined());
  });
}

TEST(SparseGradients, TheDivisorHoldsForThemToo) {
  on_ranks(2, [](const SharedGroup& group) {
    const Model model;
    Reducer reducer(model.parameters(), group, sparse_options());
    reducer.set_divisor(1);
    run_sparse_step(reducer, model.loss({2}, group->rank() + 1));
    EXPECT_TRUE(at::equal(model.table.grad().to_dense(), dense_rows({{2, 3}})));
  });
}

TEST(SparseMetadata, SendTheRowsAsABlockForOneBackward) {
  on_ranks(2, [](const SharedGroup& group) {
    const Model model;
    Reducer reducer(model.parameters(), group, sparse_options());
    std::vector<bool> had_rows;
    const auto plain = hooks::all_reduce(reducer.group());
    reducer.register_comm_hook([&](const GradBucket& bucket) {
      if (bucket.gradients().empty()) {
        had_rows.push_back(bucket.sparse_indices().has_value());
        if (had_rows.back()) {
          EXPECT_FALSE(bucket.buffer().is_sparse());
          EXPECT_EQ(bucket.buffer().size(0), 3);
        }
      }
      return plain(bucket);
    });
    for (int i = 0; i < 2; ++i) {
      clear_gradients(model.parameters());
      if (i == 0) {
        reducer.set_sparse_metadata({{"table", at::tensor({1L, 5L, 6L})}});
      }
      run_sparse_step(reducer, group->rank() == 0 ? model.loss({1, 5}, 1)
                                                  : model.loss({5, 6, 6}, 2));
      EXPECT_TRUE(model.table.grad().is_coalesced());
      EXPECT_TRUE(at::equal(model.table.grad().to_dense(),
                            dense_rows({{1, 0.5}, {5, 1.5}, {6, 2}})));
    }
    EXPECT_THAT(had_rows, ::testing::ElementsAre(true, false));
  });
}

// Given before the forward that rebuilds, they hold after it; and for one
// backward only also where results are not copied.
TEST(SparseMetadata, OutliveARebuildAndNothingElse) {
  on_ranks(2, [](const SharedGroup& group) {
    const Model model;
    ReducerOptions options = sparse_options();
    options.bucket_caps_bytes = {1};
    Reducer reducer(model.parameters(), group, options);
    reducer.set_optimizer_in_backward();
    run_sparse_step(reducer, model.loss({1}, 1));
    clear_gradients(model.parameters());
    at::Tensor rows = at::tensor({2L, 3L});
    reducer.set_sparse_metadata({{"table", rows}});
    rows.fill_(7);
    EXPECT_THAT(message_of<UsageError>([&] {
                  run_sparse_step(reducer, model.loss({2, 4}, 1));
                }),
                HasSubstr("row 4 that is not among the 2 rows"));
    group->barrier()->wait();
    reducer.reset_state();
    clear_gradients(model.parameters());
    reducer.set_sparse_metadata({{"table", at::tensor({2L, 3L})}});
    run_sparse_step(reducer, model.loss({2, 3}, 1));
    clear_gradients(model.parameters());
    run_sparse_step(reducer, model.loss({4}, 1));
  });
}

TEST(SparseMetadata, AreChecked) {
  on_ranks(1, [](const SharedGroup& group) {
    const Model model;
    Reducer reducer(model.parameters(), group, sparse_options());
    const auto text = [&](const std::map<std::string, at::Tensor>& rows) {
      return message_of<UsageError>([&] { reducer.set_sparse_metadata(rows); });
    };
    EXPECT_THAT(text({}),
                HasSubstr("no sparse metadata for parameter 'table'"));
    EXPECT_THAT(text({{"table", at::tensor({1L})}, {"head", at::tensor({1L})}}),
                HasSubstr("'head', which is no sparse parameter"));
    EXPECT_THAT(text({{"table", at::tensor({2L, 1L})}}),
                HasSubstr("ascending order"));
    EXPECT_THAT(text({{"table", at::tensor({1L, 8L})}}),
                HasSubstr("go from 1 to 8, and it has 8"));
    EXPECT_THAT(text({{"table", at::tensor({1.5})}}), HasSubstr("integers"));
    reducer.set_sparse_metadata({{"table", at::tensor({1L, 3L})}});
    EXPECT_THAT(
        message_of<UsageError>(
            [&] { run_sparse_step(reducer, model.loss({2}, 1)); }),
        AllOf(HasSubstr("'table' has a row 2"), HasSubstr("2 rows given")));
  });
}

TEST(SparseMetadata, OfDifferentSizesAreAMismatch) {
  on_ranks(2, [](const SharedGroup& group) {
    const Model model;
    Reducer reducer(model.parameters(), group, sparse_options());
    const auto rows =
        group->rank() == 0 ? at::tensor({1L, 2L}) : at::tensor({1L, 2L, 3L});
    reducer.set_sparse_metadata({{"table", rows}});
    message_of<MismatchError>(
        [&] { run_sparse_step(reducer, model.loss({1}, 1)); });
  });
}

}  // namespace
}  // namespace lockstep
