// SPDX-License-Identifier: Apache-2.0
// Gradients of several passes: accumulated without communication, of several
// forwards, of several backwards.
#include <functional>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "parity/parity_kinds.h"
#include "parity/trainee.h"
#include "support/rank_team.h"

namespace lockstep::accumulation {
namespace {

using testing::Graph;
using testing::Model;
using testing::Reset;
using testing::Trainee;

constexpr int kRanks = 3;
// Enough for buckets to be rebuilt, and used once more.
constexpr int kRounds = 3;

void on_ranks(const testing::RankTeam::Body& body) {
  const auto local = parity_kinds().front();
  try {
    testing::run_ranks(local, kRanks, body, parity_options());
  } catch (const testing::RankFailure& failure) {
    ADD_FAILURE() << failure.what();
  }
}

// The steps of a round; their numbers decide which branches are taken.
int first_step(int round) { return 4 * round; }

struct Setting {
  Graph graph;
  bool views;
  Reset reset;
};

std::string to_text(const Setting& one) {
  std::string text = one.graph == Graph::kPlain    ? "plain"
                     : one.graph == Graph::kSearch ? "search"
                                                   : "static";
  text += one.views ? ", views" : ", copies";
  return text + (one.reset == Reset::kZero ? ", zeroed" : ", undefined");
}

class Accumulation : public ::testing::Test {
 protected:
  // Runs `round` with a model of its own on each rank, several times and with
  // all settings, and checks what each has made of the gradients.
  static void run_rounds(
      const std::string& model, int backwards_per_forward,
      const std::function<void(Trainee& one, int step)>& round,
      const std::function<void(Model& model, int shard, int step)>&
          expected_round,
      int reductions_per_round = 1) {
    for_each_setting([&](ProcessGroup& group, const Setting& setting) {
      Trainee one(group, model, setting.graph, setting.views,
                  backwards_per_forward);
      for (int i = 0; i < kRounds; ++i) {
        SCOPED_TRACE("round " + std::to_string(i));
        round(one, first_step(i));
        one.reference.run([&](Model& shard_model, int shard) {
          expected_round(shard_model, shard, first_step(i));
        });
        one.check();
        one.descend(setting.reset);
      }
      EXPECT_EQ(one.reducer->backwards(), kRounds * reductions_per_round);
    });
  }

 private:
  static void for_each_setting(
      const std::function<void(ProcessGroup& group, const Setting& one)>&
          body) {
    for (const Graph graph : {Graph::kPlain, Graph::kSearch, Graph::kStatic}) {
      for (const bool views : {true, false}) {
        for (const Reset reset : {Reset::kZero, Reset::kUndefine}) {
          const Setting one{graph, views, reset};
          SCOPED_TRACE(to_text(one));
          on_ranks([&](ProcessGroup& group) {
            SCOPED_TRACE(to_text(one));  // of this thread
            body(group, one);
          });
        }
      }
    }
  }
};

TEST_F(Accumulation, BatchesInNoSyncAreReducedWithTheNext) {
  run_rounds(
      "ConvNet", 1,
      [](Trainee& one, int step) {
        {
          const auto guard = one.reducer->no_sync();
          for (int i = 0; i < 3; ++i) one.forward(step + i).backward();
        }
        one.forward(step + 3).backward();
      },
      [](Model& model, int shard, int step) {
        for (int i = 0; i < 4; ++i) model.loss(step + i, shard).backward();
      });
}

TEST_F(Accumulation, NoSyncNestsAndMayBeEmpty) {
  run_rounds(
      "Mlp", 1,
      [](Trainee& one, int step) {
        { const auto empty = one.reducer->no_sync(); }
        {
          const auto outer = one.reducer->no_sync();
          { const auto inner = one.reducer->no_sync(); }
          one.forward(step).backward();
        }
        one.forward(step + 1).backward();
      },
      [](Model& model, int shard, int step) {
        model.loss(step, shard).backward();
        model.loss(step + 1, shard).backward();
      });
}

TEST_F(Accumulation, ABackwardThatWasNotPreparedAccumulates) {
  run_rounds(
      "SparseEmbedding", 1,
      [](Trainee& one, int step) {
        one.loss(step).backward();
        one.forward(step + 1).backward();
      },
      [](Model& model, int shard, int step) {
        model.loss(step, shard).backward();
        model.loss(step + 1, shard).backward();
      });
}

TEST_F(Accumulation, SeveralForwardsBeforeOneBackward) {
  run_rounds(
      "Mlp", 1,
      [](Trainee& one, int step) {
        const at::Tensor first = one.forward(step);
        const at::Tensor second = one.forward(step + 1);
        (first + second).backward();
      },
      [](Model& model, int shard, int step) {
        (model.loss(step, shard) + model.loss(step + 1, shard)).backward();
      });
}

// Each uses another head; together they use all.
TEST_F(Accumulation, SeveralForwardsThatTakeDifferentBranches) {
  run_rounds(
      "Branches", 1,
      [](Trainee& one, int step) {
        const at::Tensor first = one.forward(step);
        const at::Tensor second = one.forward(step + 1);
        (first + second).backward();
      },
      [](Model& model, int shard, int step) {
        (model.loss(step, shard) + model.loss(step + 1, shard)).backward();
      });
}

// Each backward is reduced: the second one averages the average once more.
TEST_F(Accumulation, TwoForwardsThenTwoBackwardsAreReducedEach) {
  run_rounds(
      "Mlp", 1,
      [](Trainee& one, int step) {
        const at::Tensor first = one.forward(step);
        const at::Tensor second = one.forward(step + 1);
        first.backward();
        second.backward();
      },
      [](Model& model, int shard, int step) {
        model.loss(step, shard).backward();
        model.loss(step + 1, shard).backward();
      },
      2);
}

TEST_F(Accumulation, TwoForwardsThenTwoBackwardsAreReducedOnce) {
  run_rounds(
      "Mlp", 2,
      [](Trainee& one, int step) {
        const at::Tensor first = one.forward(step);
        const at::Tensor second = one.forward(step + 1);
        first.backward();
        second.backward();
      },
      [](Model& model, int shard, int step) {
        model.loss(step, shard).backward();
        model.loss(step + 1, shard).backward();
      });
}

TEST_F(Accumulation, TwoForwardsOfDifferentBranchesThenTwoBackwards) {
  run_rounds(
      "Branches", 2,
      [](Trainee& one, int step) {
        const at::Tensor first = one.forward(step);
        const at::Tensor second = one.forward(step + 1);
        first.backward();
        second.backward();
      },
      [](Model& model, int shard, int step) {
        model.loss(step, shard).backward();
        model.loss(step + 1, shard).backward();
      });
}

TEST_F(Accumulation, TwoBackwardsThroughTheSameGraph) {
  run_rounds(
      "Transformer", 2,
      [](Trainee& one, int step) {
        const at::Tensor loss = one.forward(step);
        loss.backward({}, /*retain_graph=*/true);
        loss.backward();
      },
      [](Model& model, int shard, int step) {
        const at::Tensor loss = model.loss(step, shard);
        loss.backward({}, /*retain_graph=*/true);
        loss.backward();
      });
}

TEST_F(Accumulation, TwoBackwardsThatShareSomeParameters) {
  run_rounds(
      "Branches", 2,
      [](Trainee& one, int step) {
        one.reducer->prepare_for_forward();
        const at::Tensor first = one.loss(step);
        const at::Tensor second = one.loss(step + 1);
        one.reducer->prepare_for_backward({first, second});
        first.backward();
        second.backward();
      },
      [](Model& model, int shard, int step) {
        model.loss(step, shard).backward();
        model.loss(step + 1, shard).backward();
      });
}

// Ranks run the two in different order, too.
TEST_F(Accumulation, TwoBackwardsThatShareNoParameter) {
  run_rounds(
      "Towers", 2,
      [](Trainee& one, int step) {
        one.reducer->prepare_for_forward();
        const at::Tensor first = one.loss(step);
        const at::Tensor second = one.loss(step + 1);
        one.reducer->prepare_for_backward({first, second});
        first.backward();
        second.backward();
      },
      [](Model& model, int shard, int step) {
        model.loss(step, shard).backward();
        model.loss(step + 1, shard).backward();
      });
}

class AccumulationWithSearch : public ::testing::Test {
 protected:
  static void on_trainees(const std::function<void(Trainee& one)>& body) {
    for (const bool views : {true, false}) {
      on_ranks([&](ProcessGroup& group) {
        SCOPED_TRACE(views ? "views" : "copies");
        Trainee one(group, "Branches", Graph::kSearch, views);
        body(one);
      });
    }
  }
};

// Some heads are used in no_sync only, on some ranks.
TEST_F(AccumulationWithSearch, WhatWasUsedInNoSyncCounts) {
  on_trainees([](Trainee& one) {
    for (int i = 0; i < kRounds; ++i) {
      SCOPED_TRACE("round " + std::to_string(i));
      const int step = first_step(i);
      {
        const auto guard = one.reducer->no_sync();
        one.forward(step).backward();
      }
      one.forward(step + 3).backward();  // all take the right one
      one.reference.run([&](Model& model, int shard) {
        model.loss(step, shard).backward();
        model.loss(step + 3, shard).backward();
      });
      one.check();
      one.descend(i == 0 ? Reset::kUndefine : Reset::kZero);
    }
  });
}

// In the order of forwards, and in the other.
TEST_F(AccumulationWithSearch, ForwardsOfDifferentBranchesAreReducedOneByOne) {
  on_trainees([](Trainee& one) {
    for (int i = 0; i < kRounds; ++i) {
      SCOPED_TRACE("round " + std::to_string(i));
      const int step = first_step(i);
      at::Tensor first = one.forward(step);
      at::Tensor second = one.forward(step + 1);
      if (i % 2 == 1) std::swap(first, second);
      first.backward();
      second.backward();
      one.reference.run([&](Model& model, int shard) {
        model.loss(step, shard).backward();
        model.loss(step + 1, shard).backward();
      });
      one.check();
      one.descend(i == 0 ? Reset::kUndefine : Reset::kZero);
    }
    EXPECT_EQ(one.reducer->backwards(), 2 * kRounds);
  });
}

// Old gradients are averages of averages then, and stay where they are when
// nobody adds to them.
TEST_F(AccumulationWithSearch, GradientsThatAreNotResetGoOn) {
  on_trainees([](Trainee& one) {
    for (int step = 0; step < 8; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      one.forward(step).backward();
      one.reference.run(
          [&](Model& model, int shard) { model.loss(step, shard).backward(); });
      one.check();
    }
  });
}

}  // namespace
}  // namespace lockstep::accumulation
