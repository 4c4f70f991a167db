// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/output.h"
#include "launch/rank_process.h"
#include "launch/signals.h"
#include "lockstep/base/deadline.h"

namespace lockstep::detail {

// What one rank is started with.
struct RankPlan {
  int rank = 0;
  RankCommand command;
  RankOutput::Options output;
};

// The rank that is blamed for the end of a round, and how it failed. It is the
// first that failed; of several within a moment the one that died by a signal,
// or the one that others say in their last lines they lost.
struct FailedRank {
  int rank = -1;
  std::string host;
  pid_t pid = -1;
  Ending ending;
  Deadline::Duration after{};  // since the start of its round
  std::vector<std::string> last_lines;
  std::string log_path;
  bool out_of_memory = false;  // the kernel says it killed for memory meanwhile
};

// The report that people read; ends with a newline.
std::string to_text(const FailedRank& failure);

// How a round on this host ended.
struct RoundEnd {
  std::optional<FailedRank> failure;  // of one of our ranks
  int interrupted_by = 0;             // a signal to the launcher
  bool stopped = false;               // because `stop` became readable
};

// Starts the ranks of one host and minds them until all have ended.
//
// When one fails, or the launcher is told to end, or `stop` becomes readable
// (another host has failed), the others get a signal, and after `grace` they
// are killed with all they have started. A second signal kills at once.
//
// `on_failure` is told of the first failure at once, before the others have
// ended.
//
// Errors: SystemError when a rank cannot be started; the others are killed.
RoundEnd run_round(const std::vector<RankPlan>& plans,
                   std::chrono::milliseconds grace, Signals& signals, int stop,
                   Stream& out, Stream& err,
                   const std::function<void(const FailedRank&)>& on_failure);

}  // namespace lockstep::detail
