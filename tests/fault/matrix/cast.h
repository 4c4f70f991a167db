// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "fault/matrix/script.h"
#include "support/child.h"
#include "support/ending.h"
#include "support/rank_job.h"

namespace lockstep::faults {

constexpr int kRanks = 4;

// The ranks that play a cell, as the director of the test sees them. Whatever
// they are doing, they are gone when this is.
class Cast {
 public:
  virtual ~Cast() = default;

  virtual void cue(int rank, const std::string& line) = 0;
  // Reads what a rank says until it says this, or how something ended; false,
  // or an ending without a kind, when it falls silent.
  virtual bool wait_for(int rank, const std::string& line) = 0;
  virtual testing::Ending ending(int rank) = 0;

  // The process of a rank; null where ranks are threads.
  virtual testing::Child* process(int rank) = 0;
};

// As threads, on backend local.
std::unique_ptr<Cast> make_thread_cast(const Part& part);

// As processes: `plan` says where they are and where they meet.
std::unique_ptr<Cast> make_process_cast(const Part& part,
                                        testing::RankJobPlan plan);

}  // namespace lockstep::faults
