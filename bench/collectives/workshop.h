// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectives/order.h"
#include "collectives/runner.h"

namespace lockstep::bench {

// Carries out orders on one rank: lines of text, as are its answers, whose
// words the driver and this program agree on.
//
// Threads: one.
// Errors:  InternalError for a wrong result; what the library throws.
class Workshop {
 public:
  virtual ~Workshop() = default;

  // Version and options, to be printed.
  virtual std::string settings() const = 0;
  virtual std::string carry_out(const std::string& order) = 0;
};

// Joins the team. Each worker program links one definition of it.
std::unique_ptr<Workshop> make_workshop(const Place& place);

// An Order gets an Answer, the same way for ours and every rival that has a
// Runner.
//
// A collective that is not the one before is first done on numbers that show
// whether it is right. Then it is done a few times to warm up and, after a
// barrier, `times` times by the clock. The clock sees zeros only: sums of sums
// would grow without end.
class RunnerWorkshop : public Workshop {
 public:
  RunnerWorkshop(const Place& place, std::unique_ptr<Runner> runner)
      : rank_(place.rank), size_(place.size), runner_(std::move(runner)) {}

  std::string settings() const override { return runner_->settings(); }
  std::string carry_out(const std::string& order) override;

 private:
  using Memory = std::shared_ptr<float>;

  Answer answer_to(const Order& order);
  Answer collective(const Order& order);
  Answer copy(const Order& order);
  Answer compute(const Order& order);

  void verify(const Order& order, float* data, float* part);
  void run_once(Task task, float* data, float* part, size_t count);

  // Memory of this size and kind, kept until another size is asked for.
  // `which` tells apart those that are needed at once.
  float* memory(const Order& order, bool registered, int which);

  const int rank_;
  const int size_;
  const std::unique_ptr<Runner> runner_;
  Order last_;  // the last collective; of no bytes at first
  size_t memory_bytes_ = 0;
  std::map<std::pair<bool, int>, Memory> memory_;
};

}  // namespace lockstep::bench
