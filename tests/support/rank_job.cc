// SPDX-License-Identifier: Apache-2.0
#include "support/rank_job.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <utility>

#include "lockstep/base/env.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongestSilence = 60s;  // for anything a rank may say
constexpr const char* kMark = "LOCKSTEP_RANK_JOB";

std::string mark_value() { return std::to_string(::getpid()); }

RankJobPlan shm_plan(int size, const std::string& how, uint64_t argument) {
  RankJobPlan plan;
  plan.size = size;
  plan.how = how;
  plan.argument = std::to_string(argument);
  return plan;
}

}  // namespace

std::string RankJob::mark() { return std::string(kMark) + "=" + mark_value(); }

RankJob::RankJob(int size, const std::string& how, uint64_t argument)
    : RankJob(shm_plan(size, how, argument)) {}

RankJob::RankJob(const RankJobPlan& plan) {
  std::string store = plan.store;
  if (store.empty()) {
    server_.emplace("127.0.0.1", 0, "");
    store = std::to_string(port());
  }
  ::setenv(kMark, mark_value().c_str(), 1);
  for (int rank = 0; rank < plan.size; ++rank) {
    std::vector<std::string> command = {LOCKSTEP_RANK_WORKER,
                                        store,
                                        std::to_string(rank),
                                        std::to_string(plan.size),
                                        plan.how,
                                        plan.argument,
                                        plan.backend};
    if (plan.place) command = plan.place(rank, std::move(command));
    ranks_.push_back(std::make_unique<Child>(command, /*with_errors=*/false,
                                             /*with_input=*/true));
  }
}

bool RankJob::wait_for(int rank, const std::string& line) {
  const Deadline deadline = Deadline::in(kLongestSilence);
  while (const auto said = this->rank(rank).read_line(deadline)) {
    if (*said == line) return true;
    std::cerr << "rank " << rank << " says: " << *said << "\n";
  }
  return false;
}

bool RankJob::wait_for_all(const std::string& line) {
  for (int rank = 0; rank < size(); ++rank) {
    if (!wait_for(rank, line)) return false;
  }
  return true;
}

Ending RankJob::ending(int rank) {
  const Deadline deadline = Deadline::in(kLongestSilence);
  while (const auto line = this->rank(rank).read_line(deadline)) {
    if (const auto ending = ending_of(*line)) return *ending;
  }
  return {};
}

uint32_t announced_seed() {
  const auto given = env::integer("LOCKSTEP_SEED");
  const uint32_t seed =
      given ? static_cast<uint32_t>(*given) : std::random_device()() % 1000000;
  std::cout << "LOCKSTEP_SEED=" << seed << " does the same again\n";
  return seed;
}

}  // namespace lockstep::testing
