// SPDX-License-Identifier: Apache-2.0
#include "support/shm_job.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <sstream>

#include "lockstep/base/env.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongest = 60s;  // for anything a rank may say
constexpr const char* kMark = "LOCKSTEP_SHM_JOB";

std::string mark_value() { return std::to_string(::getpid()); }

// The fields of a line as shm_worker.h describes it.
ShmEnding parse(const std::string& line) {
  ShmEnding ending;
  if (line == "done") {
    ending.kind = line;
    return ending;
  }
  std::istringstream words(line);
  std::string error;
  int64_t nanoseconds = 0;
  words >> error >> ending.peer >> nanoseconds >> std::ws;
  std::getline(words, ending.kind, ':');
  std::getline(words, ending.text);
  ending.when = Deadline::Clock::time_point(
      std::chrono::duration_cast<Deadline::Clock::duration>(
          std::chrono::nanoseconds(nanoseconds)));
  return ending;
}

}  // namespace

std::string ShmJob::mark() { return std::string(kMark) + "=" + mark_value(); }

ShmJob::ShmJob(int size, const std::string& how, uint64_t argument)
    : server_("127.0.0.1", 0, "") {
  ::setenv(kMark, mark_value().c_str(), 1);
  for (int rank = 0; rank < size; ++rank) {
    ranks_.push_back(std::make_unique<Child>(std::vector<std::string>{
        LOCKSTEP_SHM_WORKER, std::to_string(port()), std::to_string(rank),
        std::to_string(size), how, std::to_string(argument)}));
  }
}

bool ShmJob::wait_for(int rank, const std::string& line) {
  const Deadline deadline = Deadline::in(kLongest);
  while (const auto said = this->rank(rank).read_line(deadline)) {
    if (*said == line) return true;
    std::cerr << "rank " << rank << " says: " << *said << "\n";
  }
  return false;
}

bool ShmJob::wait_for_all(const std::string& line) {
  for (int rank = 0; rank < size(); ++rank) {
    if (!wait_for(rank, line)) return false;
  }
  return true;
}

ShmEnding ShmJob::ending(int rank) {
  const Deadline deadline = Deadline::in(kLongest);
  while (const auto line = this->rank(rank).read_line(deadline)) {
    if (line->rfind("skip ", 0) == 0) return {"skip", -1, {}, *line};
    if (*line == "done" || line->rfind("error ", 0) == 0) return parse(*line);
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
