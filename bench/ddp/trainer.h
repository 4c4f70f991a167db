// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ddp/step_order.h"
#include "lockstep/comm/process_group.h"

namespace lockstep::bench {

// Makes steps of one kind on one rank: a model, SGD, and what averages its
// gradients, if anything does.
//
// Threads: one.
// Errors:  those of the library; InternalError when ranks that should have the
//          same weights after a few steps have not.
class Trainer {
 public:
  virtual ~Trainer() = default;

  // Makes steps, and adds the time of their parts to `times`.
  virtual void run(int steps, StepTimes& times) = 0;
};

// A collective that blocks. The first few steps, in which threads start and
// buckets are rebuilt, are done when it returns.
std::unique_ptr<Trainer> make_trainer(
    const StepOrder& order, const std::shared_ptr<ProcessGroup>& world);

}  // namespace lockstep::bench
