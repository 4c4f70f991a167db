// SPDX-License-Identifier: Apache-2.0
// Ranks whose sparse gradient has no entries take part in its reduction.
#include <optional>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lockstep/ddp/reducer.h"
#include "parity/parity_kinds.h"
#include "support/rank_team.h"

namespace lockstep::sparse_absence {
namespace {

// Two ranks with a table; rank 1 reads row 1 of it, rank 0 only if told so.
class SparseAbsence : public ::testing::Test {
 protected:
  struct Rank {
    explicit Rank(ProcessGroup& group) : is_reader(group.rank() == 1) {
      ReducerOptions options;
      options.find_unused_parameters = true;
      options.expect_sparse = {false, true};
      reducer.emplace(std::vector<at::Tensor>{scale, table},
                      group.shared_from_this(), options);
    }

    void step(bool all_read) {
      reducer->prepare_for_forward();
      at::Tensor loss = scale.sum();
      if (is_reader || all_read) {
        const at::Tensor row = at::ones({1}, at::kLong);
        loss = loss + at::embedding(table, row, -1, false, true).sum();
      }
      reducer->prepare_for_backward({loss});
      loss.backward();
    }

    const bool is_reader;
    const at::Tensor scale = at::ones({2}).requires_grad_();
    const at::Tensor table = at::ones({4, 3}).requires_grad_();
    std::optional<Reducer> reducer;
  };

  static at::Tensor row_of(float value) {
    const at::Tensor dense = at::zeros({4, 3});
    dense[1] = value;
    return dense;
  }

  static void on_ranks(const testing::RankTeam::Body& body) {
    testing::run_ranks(parity_kinds().front(), 2, body, parity_options());
  }
};

TEST_F(SparseAbsence, OfARankThatHasNoGradientYet) {
  on_ranks([](ProcessGroup& group) {
    Rank rank(group);
    rank.step(false);
    EXPECT_TRUE(at::equal(rank.table.grad().to_dense(), row_of(0.5)));
  });
}

// Zeroing leaves a tensor without entries, whose number of sparse dimensions
// libtorch changes.
TEST_F(SparseAbsence, OfARankWhoseGradientWasZeroed) {
  on_ranks([](ProcessGroup& group) {
    Rank rank(group);
    rank.step(true);
    EXPECT_TRUE(at::equal(rank.table.grad().to_dense(), row_of(1)));
    rank.table.mutable_grad().zero_();
    rank.step(false);
    EXPECT_TRUE(at::equal(rank.table.grad().to_dense(), row_of(0.5)));
  });
}

TEST_F(SparseAbsence, OfAllRanksLeavesTheGradientUndefined) {
  on_ranks([](ProcessGroup& group) {
    Rank rank(group);
    rank.reducer->prepare_for_forward();
    const at::Tensor loss = rank.scale.sum();
    rank.reducer->prepare_for_backward({loss});
    loss.backward();
    EXPECT_FALSE(rank.table.grad().defined());
  });
}

}  // namespace
}  // namespace lockstep::sparse_absence
