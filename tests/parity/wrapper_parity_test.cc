// SPDX-License-Identifier: Apache-2.0
// Every model of the zoo as a module, wrapped, against the dull reference: its
// options in a selection in which every pair occurs.
#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/ddp/distributed_data_parallel.h"
#include "parity/expected.h"
#include "parity/parity_kinds.h"
#include "support/pairwise.h"
#include "support/support.h"

namespace lockstep::wrapper_parity {
namespace {

using testing::Expected;
using testing::Graph;
using testing::kSeed;
using testing::kSteps;
using testing::ModelKind;
using testing::Problem;
using testing::Reset;
using testing::Row;
using testing::Tensors;

// The factors of the matrix.
enum Factor : size_t {
  kModel,
  kSize,
  kBackend,
  kGraph,
  kViews,
  kCaps,
  kReset,
  kClones,
  kBuffers,
  kSkips,
  kInitSync,
  kFactorCount,
};
constexpr std::array<const char*, kFactorCount> kFactorNames = {
    "model",       "size",  "backend", "graph",         "views",
    "caps",        "reset", "clones",  "local buffers", "skipping unused",
    "no init sync"};
constexpr int kLargest = 3;  // ranks

const ModelKind& model_of(const Row& row) {
  return testing::zoo()[static_cast<size_t>(row[kModel])];
}

std::string to_text(const Row& row) {
  std::string text = model_of(row).name;
  for (size_t i = kSize; i < kFactorCount; ++i) {
    text += fmt::format(", {} {}", kFactorNames[i], row[i]);
  }
  return text;
}

bool allowed(size_t a, int a_level, size_t b, int b_level) {
  if (a == kModel && b == kGraph) {
    const ModelKind& model = testing::zoo()[static_cast<size_t>(a_level)];
    return model.works_with(static_cast<Graph>(b_level));
  }
  // Skipping needs to know what is unused.
  if (a == kGraph && b == kSkips) {
    return b_level == 0 || static_cast<Graph>(a_level) != Graph::kPlain;
  }
  return true;
}

std::vector<Row> rows_for(int backend) {
  const std::vector<int> levels = {static_cast<int>(testing::zoo().size()),
                                   kLargest,
                                   kBackendCount,
                                   testing::kGraphCount,
                                   2,
                                   2,
                                   2,
                                   2,
                                   2,
                                   2,
                                   2};
  std::vector<Row> rows;
  for (const Row& row : testing::pairwise(levels, allowed)) {
    if (row[kBackend] == backend) rows.push_back(row);
  }
  return rows;
}

// A model of the zoo, registered: names in a module have no dots.
class ZooModule : public torch::nn::Module {
 public:
  explicit ZooModule(testing::Model& model) : model_(model) {
    for (size_t i = 0; i < model.parameters().size(); ++i) {
      names_.push_back(model.names()[i]);
      std::replace(names_[i].begin(), names_[i].end(), '.', '_');
      register_parameter(names_[i], model.parameters()[i]);
    }
    for (size_t i = 0; i < model.buffers().size(); ++i) {
      register_buffer(fmt::format("buffer{}", i), model.buffers()[i]);
    }
  }
  at::Tensor forward(int step, int shard) { return model_.loss(step, shard); }
  const std::vector<std::string>& names() const { return names_; }

 private:
  testing::Model& model_;
  std::vector<std::string> names_;
};

DdpOptions options_for(const Row& row, const testing::Model& model,
                       const ZooModule& module) {
  const auto graph = static_cast<Graph>(row[kGraph]);
  DdpOptions options;
  options.find_unused_parameters =
      graph == Graph::kSearch || graph == Graph::kStaticAndSearch;
  options.static_graph =
      graph == Graph::kStatic || graph == Graph::kStaticAndSearch;
  options.gradient_as_bucket_view = row[kViews] != 0;
  if (row[kCaps] != 0) options.bucket_caps_bytes = {256};
  options.clone_outputs = row[kClones] != 0;
  options.broadcast_buffers = row[kBuffers] == 0;
  options.skip_unused = row[kSkips] != 0;
  options.init_sync = row[kInitSync] == 0;
  options.check_replicas_every = 2;
  for (size_t i = 0; i < model.sparse().size(); ++i) {
    if (model.sparse()[i]) options.sparse.push_back(module.names()[i]);
  }
  return options;
}

// Trains on one rank and returns what was wrong.
std::string train(ProcessGroup& group, const Row& row,
                  const std::vector<Expected>& expected) {
  testing::use_one_thread();
  const auto model = model_of(row).make(kSeed, at::kDouble);
  const auto module = std::make_shared<ZooModule>(*model);
  const Tensors& parameters = model->parameters();
  DistributedDataParallel ddp(module, group.shared_from_this(),
                              options_for(row, *model, *module));
  Problem problem;
  for (int step = 0; step < kSteps; ++step) {
    testing::reset_gradients(parameters, static_cast<Reset>(row[kReset]));
    model->backward(ddp(step, group.rank()));
    problem.compare(step, group, *model, expected[static_cast<size_t>(step)]);
  }
  // Those with a history own their parameters, who own them.
  testing::reset_gradients(parameters, Reset::kUndefine);
  return problem.text();
}

class WrapperParity : public ::testing::TestWithParam<testing::BackendKind> {};

TEST_P(WrapperParity, GradientsAndWeightsAreThoseOfTheReference) {
  const std::vector<Row> rows = rows_for(backend_of(GetParam()));
  RecordProperty("cases", static_cast<int>(rows.size()));
  testing::References references;
  // In a job, ranks beyond the size of a case would only wait.
  const auto size_of = [](const Row& row) {
    return testing::process_kind() ? 2 * kRanksEach : row[kSize] + 1;
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(to_text(row));
    const auto& expected = references.of(model_of(row), size_of(row),
                                         static_cast<Reset>(row[kReset]),
                                         at::kDouble, row[kBuffers] == 0);
    testing::RankTeam team(GetParam(), size_of(row), parity_options());
    try {
      team.run([&](ProcessGroup& group) {
        const std::string problem = train(group, row, expected);
        if (!problem.empty()) {
          ADD_FAILURE() << to_text(row) << ": rank " << group.rank() << ": "
                        << problem;
        }
      });
    } catch (const testing::RankFailure& failure) {
      ADD_FAILURE() << failure.what();
      if (GetParam().meet_all) return;  // other processes are out of step now
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, WrapperParity,
                         ::testing::ValuesIn(parity_kinds()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace lockstep::wrapper_parity
