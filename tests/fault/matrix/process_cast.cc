// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "fault/matrix/cast.h"

namespace lockstep::faults {
namespace {

class ProcessCast : public Cast {
 public:
  explicit ProcessCast(const testing::RankJobPlan& plan) : job_(plan) {}

  void cue(int rank, const std::string& line) override {
    job_.rank(rank).write_line(line);
  }
  bool wait_for(int rank, const std::string& line) override {
    return job_.wait_for(rank, line);
  }
  testing::Ending ending(int rank) override { return job_.ending(rank); }
  testing::Child* process(int rank) override { return &job_.rank(rank); }

 private:
  testing::RankJob job_;
};

}  // namespace

std::unique_ptr<Cast> make_process_cast(const Part& part,
                                        testing::RankJobPlan plan) {
  plan.size = kRanks;
  plan.how = "fault";
  plan.argument = part.encode();
  return std::make_unique<ProcessCast>(plan);
}

}  // namespace lockstep::faults
