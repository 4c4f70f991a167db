// SPDX-License-Identifier: Apache-2.0
// Every model of the zoo, trained by ranks with a Reducer, against the dull
// reference. An ordinary run takes all settings with two local ranks, and of
// the others a selection in which every pair occurs; a full run takes all.
#include <array>
#include <memory>
#include <tuple>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/ddp/reducer.h"
#include "parity/expected.h"
#include "parity/parity_kinds.h"
#include "parity/trainee.h"
#include "support/pairwise.h"
#include "support/support.h"

namespace lockstep::reducer_parity {
namespace {

using testing::Graph;
using testing::ModelKind;
using testing::Reset;
using testing::Row;
using testing::Tensors;

using testing::Expected;
using testing::kSeed;
using testing::kSteps;
using testing::Problem;
using testing::References;
using testing::wrong_layout;

constexpr int kLargest = 4;  // ranks
constexpr size_t kTinyCap = 256;

// The factors of the matrix.
enum Factor : size_t {
  kModel,
  kSize,
  kBackend,
  kGraph,
  kViews,
  kCaps,
  kReset,
  kDType,
};

struct Setting {
  const ModelKind& model;
  int size;
  Graph graph;
  bool views;
  bool tiny_buckets;
  Reset reset;
  at::ScalarType dtype;
};

Setting setting_of(const Row& row) {
  return {testing::zoo()[static_cast<size_t>(row[kModel])],
          row[kSize] + 1,
          static_cast<Graph>(row[kGraph]),
          row[kViews] != 0,
          row[kCaps] != 0,
          static_cast<Reset>(row[kReset]),
          row[kDType] == 0 ? at::kFloat : at::kDouble};
}

std::string to_text(const Setting& one) {
  constexpr std::array<const char*, testing::kGraphCount> kGraphs = {
      "plain", "search", "static", "static and search"};
  return fmt::format(
      "{} of {}, {} ranks, {}, views {}, {} buckets, gradients {}",
      one.model.name, c10::toString(one.dtype), one.size,
      kGraphs[static_cast<size_t>(one.graph)], one.views,
      one.tiny_buckets ? "tiny" : "default",
      one.reset == Reset::kZero ? "zeroed" : "undefined");
}

// ModelKind::works_with says which graphs are left out, the zoo says why.
bool allowed(size_t a, int a_level, size_t b, int b_level) {
  if (a != kModel) return true;
  const ModelKind& model = testing::zoo()[static_cast<size_t>(a_level)];
  if (b == kGraph) return model.works_with(static_cast<Graph>(b_level));
  // Its types are what they are: once is enough.
  if (b == kDType) return !model.mixed || b_level == 0;
  return true;
}

std::vector<Row> rows_for(int backend, int size) {
  const std::vector<int> levels = {static_cast<int>(testing::zoo().size()),
                                   kLargest,
                                   kBackendCount,
                                   testing::kGraphCount,
                                   2,
                                   2,
                                   2,
                                   2};
  std::vector<Row> rows;
  const auto take = [&](const Row& row) {
    if (row[kBackend] == backend && row[kSize] + 1 == size) rows.push_back(row);
  };
  // Where a rank costs least, all is not too much.
  const bool is_cheap = backend == 0 && size == 2;
  if (testing::full_run() || is_cheap) {
    testing::for_each_row(levels, allowed, take);
  } else {
    for (const Row& row : testing::pairwise(levels, allowed)) take(row);
  }
  return rows;
}

// Trains on one rank and returns what was wrong.
std::string train(ProcessGroup& group, const Setting& one,
                  const std::vector<Expected>& expected) {
  testing::use_one_thread();
  const auto model = one.model.make(kSeed, one.dtype);
  const Tensors& parameters = model->parameters();
  ReducerOptions options =
      testing::reducer_options(*model, one.graph, one.views);
  if (one.tiny_buckets) options.bucket_caps_bytes = {kTinyCap};
  Reducer reducer(parameters, group.shared_from_this(), options);
  Problem problem;
  for (int step = 0; step < kSteps; ++step) {
    testing::reset_gradients(parameters, one.reset);
    reducer.prepare_for_forward();
    const at::Tensor loss = model->loss(step, group.rank());
    reducer.prepare_for_backward({loss});
    model->backward(loss);
    problem.note(step, "gradients", wrong_layout(*model));
    problem.compare(step, group, *model, expected[static_cast<size_t>(step)]);
  }
  // Those with a history own their parameters, who own them.
  testing::reset_gradients(parameters, Reset::kUndefine);
  return problem.text();
}

class ReducerParity
    : public ::testing::TestWithParam<std::tuple<testing::BackendKind, int>> {};

TEST_P(ReducerParity, GradientsAndWeightsAreThoseOfTheReference) {
  const auto& [kind, size] = GetParam();
  const auto& rank_kind = kind;
  const std::vector<Row> rows = rows_for(backend_of(kind), size);
  RecordProperty("cases", static_cast<int>(rows.size()));
  References references;
  std::unique_ptr<testing::RankTeam> team;
  for (const Row& row : rows) {
    const Setting one = setting_of(row);
    SCOPED_TRACE(to_text(one));
    const std::vector<Expected>& expected =
        references.of(one.model, one.size, one.reset, one.dtype);
    if (!team) {
      team = std::make_unique<testing::RankTeam>(rank_kind, size,
                                                 parity_options());
    }
    try {
      team->run([&](ProcessGroup& group) {
        const std::string problem = train(group, one, expected);
        if (problem.empty()) return;
        ADD_FAILURE() << to_text(one) << ": rank " << group.rank() << ": "
                      << problem;
      });
    } catch (const testing::RankFailure& failure) {
      ADD_FAILURE() << failure.what();
      if (kind.meet_all) return;  // other processes are out of step now
      team.reset();               // its groups have failed
    }
  }
}

// A job has too many ranks for a team of one or two: some would only wait.
std::vector<int> sizes() {
  if (testing::process_kind()) return {3, 4};
  return {1, 2, 3, 4};
}

INSTANTIATE_TEST_SUITE_P(Backends, ReducerParity,
                         ::testing::Combine(::testing::ValuesIn(parity_kinds()),
                                            ::testing::ValuesIn(sizes())),
                         [](const auto& one) {
                           return std::get<0>(one.param).name + "With" +
                                  std::to_string(std::get<1>(one.param));
                         });

}  // namespace
}  // namespace lockstep::reducer_parity
