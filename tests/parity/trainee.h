// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/ddp/reducer.h"
#include "parity/reference.h"

namespace lockstep::testing {

// ReducerOptions for a model.
inline ReducerOptions reducer_options(const Model& model, Graph graph,
                                      bool views) {
  ReducerOptions options;
  options.gradient_as_bucket_view = views;
  options.find_unused_parameters =
      graph == Graph::kSearch || graph == Graph::kStaticAndSearch;
  options.static_graph =
      graph == Graph::kStatic || graph == Graph::kStaticAndSearch;
  options.expect_sparse = model.sparse();
  options.names = model.names();
  return options;
}

// A rank's model with a Reducer on it, and what it should come to.
//
//   Trainee one(group, "Mlp", options);
//   one.forward(0).backward();
//   one.reference.run([](Model& model, int shard) {
//     model.loss(0, shard).backward();
//   });
//   one.check();
struct Trainee {
  Trainee(ProcessGroup& world, const std::string& name, Graph graph, bool views,
          int backwards_per_forward = 1)
      : group(world),
        model(model_kind(name).make(kSeed, at::kDouble)),
        reference(model_kind(name), kSeed, at::kDouble, world.size()) {
    use_one_thread();
    ReducerOptions options = reducer_options(*model, graph, views);
    options.backwards_per_forward = backwards_per_forward;
    reducer = std::make_unique<Reducer>(model->parameters(),
                                        world.shared_from_this(), options);
  }

  at::Tensor loss(int step) { return model->loss(step, group.rank()); }

  // A forward whose backward is to be reduced.
  at::Tensor forward(int step) {
    reducer->prepare_for_forward();
    const at::Tensor result = loss(step);
    reducer->prepare_for_backward({result});
    return result;
  }

  // Compares gradients with the reference, and ranks with each other.
  void check() {
    const Tensors gradients = gradients_of(model->parameters());
    EXPECT_EQ(difference(gradients, reference.gradients(), model->names()), "")
        << "rank " << group.rank();
    EXPECT_TRUE(all_agree(group, gradients));
  }

  // Ends a step, here and in the reference.
  void descend(Reset how) {
    testing::descend(model->parameters());
    reset_gradients(model->parameters(), how);
    reference.descend();
    reference.reset(how);
  }

  static constexpr uint64_t kSeed = 11;
  ProcessGroup& group;
  const std::unique_ptr<Model> model;
  Reference reference;
  std::unique_ptr<Reducer> reducer;
};

}  // namespace lockstep::testing
