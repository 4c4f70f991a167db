// SPDX-License-Identifier: Apache-2.0
#include "support/rank_team.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep::testing {
namespace {

std::vector<bool> present(const Groups& groups) {
  std::vector<bool> here;
  for (const auto& group : groups) here.push_back(group != nullptr);
  return here;
}

}  // namespace

BackendFactory patient(BackendFactory factory) {
  return [factory = std::move(factory)](GroupPlace place) {
    place.timeout = std::chrono::minutes(2);
    return factory(place);
  };
}

RankTeam::RankTeam(const BackendKind& kind, int size,
                   const GroupOptions& options)
    : groups_(kind.make_groups(size, options)),
      here_(present(groups_)),
      meet_all_(kind.meet_all),
      done_(groups_.size()) {
  for (int rank = 0; rank < size; ++rank) {
    if (!is_here(rank)) continue;
    ranks_.emplace_back(fmt::format("rank {}", rank),
                        [this, rank] { serve(rank); });
  }
}

RankTeam::~RankTeam() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (Thread& rank : ranks_) rank.join();
}

void RankTeam::serve(int rank) {
  uint64_t round = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || round_ > round; });
    if (round_ == round) break;
    round = round_;
    const Body* const body = body_;
    lock.unlock();
    std::exception_ptr error;
    try {
      (*body)(*groups_[index(rank)]);
    } catch (...) {
      error = std::current_exception();
      if (const auto group = groups_[index(rank)]) {
        group->abort(fmt::format("the test failed: {}", describe(error)));
      }
    }
    lock.lock();
    if (error && !failure_) {
      failure_ = std::make_unique<RankFailure>(
          rank,
          fmt::format("on rank {} of {}: {}", rank, size(), describe(error)));
    }
    done_[index(rank)] = round;
    changed_.notify_all();
  }
  lock.unlock();
  groups_[index(rank)].reset();  // side by side: each may wait for the others
}

void RankTeam::run(const Body& body, std::chrono::seconds limit) {
  std::unique_lock lock(mutex_);
  failure_.reset();
  body_ = &body;
  const uint64_t round = ++round_;
  changed_.notify_all();
  const auto all_done = [&] {
    return static_cast<size_t>(std::count(done_.begin(), done_.end(), round)) ==
           ranks_.size();
  };
  const auto await = [&](std::chrono::seconds time) {
    return changed_.wait_until(lock, Deadline::in(time).time(), all_done);
  };
  if (!await(limit)) {
    const std::string hung = fmt::format("after {} s there still runs {}",
                                         limit.count(), still_running());
    lock.unlock();
    abort_all(hung);
    lock.lock();
    if (!await(std::chrono::seconds(30))) {
      std::fprintf(stderr, "%s, even after an abort\n", hung.c_str());
      std::abort();
    }
    throw RankFailure(-1, hung);
  }
  if (meet_all_) meet_all_();
  if (failure_) throw RankFailure(*failure_);
}

void RankTeam::abort_all(const std::string& reason) {
  for (const auto& group : groups_) {
    if (group) group->abort(reason);
  }
}

std::string RankTeam::still_running() const {
  std::vector<std::string> names;
  for (size_t rank = 0; rank < done_.size(); ++rank) {
    if (here_[rank] && done_[rank] != round_)
      names.push_back(fmt::format("rank {}", rank));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void run_ranks(const BackendKind& kind, int size, const RankTeam::Body& body,
               const GroupOptions& options) {
  RankTeam(kind, size, options).run(body);
}

}  // namespace lockstep::testing
