// SPDX-License-Identifier: Apache-2.0
#include "collectives/team.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "binding.h"
#include "lockstep/base/error.h"

using namespace std::chrono_literals;

namespace lockstep::bench {
namespace {

using testing::NetLab;

constexpr auto kAnswerTime = 60s;  // for one order; a worker's own is shorter
constexpr auto kLookTime = 500ms;  // how often we see whether all still run
constexpr auto kEndTime = 5s;

// Empty for one that was not built.
std::string program_of(Party party) {
  switch (party) {
    case Party::kLockstep:
      return LOCKSTEP_WORKER;
    case Party::kGloo:
      return GLOO_WORKER;
    case Party::kOpenMpi:
      return OPENMPI_WORKER;
    case Party::kPyTorch:
      return PYTORCH_WORKER;
  }
  return "";
}

}  // namespace

const char* to_text(Party party) {
  switch (party) {
    case Party::kLockstep:
      return "lockstep";
    case Party::kGloo:
      return "gloo";
    case Party::kOpenMpi:
      return "openmpi";
    case Party::kPyTorch:
      return "pytorch";
  }
  return "";
}

bool is_present(Party party) { return !program_of(party).empty(); }

std::string absence_of(Party party) {
  return fmt::format(
      "{} is ABSENT: it was not found when this program was built, and there "
      "are no rows for it",
      to_text(party));
}

Team::Team(Party party, int size, TeamOptions options)
    : party_(party),
      size_(size),
      options_(std::move(options)),
      address_(options_.lab != nullptr ? options_.lab->address(0)
                                       : "127.0.0.1"),
      visit_(options_.lab != nullptr
                 ? std::make_unique<NetLab::Visit>(*options_.lab, 0)
                 : nullptr),
      server_(address_, 0, kTeamSecret),
      store_(address_, server_.port(), kTeamSecret) {
  visit_.reset();
  if (party == Party::kOpenMpi) {
    start_mpirun();
  } else {
    start_workers();
  }
  std::string said;
  for (int r = 0; r < size_; ++r) said = next_answer();
  settings_ = said + settings_;
}

std::vector<std::string> Team::arguments_of(int rank) const {
  return {options_.program.empty() ? program_of(party_) : options_.program,
          address_,
          std::to_string(server_.port()),
          std::to_string(rank),
          std::to_string(size_),
          options_.variant};
}

void Team::start_workers() {
  const NetLab* const lab = options_.lab;
  for (int r = 0; r < size_; ++r) {
    std::vector<std::string> words = {
        "/usr/bin/env", fmt::format("{}={}", kInterfaceVariable,
                                    lab != nullptr ? lab->interface(r) : "lo")};
    words.insert(words.end(), options_.environment.begin(),
                 options_.environment.end());
    const auto program = arguments_of(r);
    words.insert(words.end(), program.begin(), program.end());
    ChildProcess::Options options;
    options.keep_output = false;
    processes_.push_back(std::make_unique<ChildProcess>(
        lab != nullptr ? lab->on(r, words) : words, options));
  }
}

// A block of mpirun's command line for each rank, so that each is told who it
// is as all other workers are.
void Team::start_mpirun() {
  std::vector<std::string> words = {MPIRUN, "--allow-run-as-root"};
  const size_t name_ends = words.size();
  if (static_cast<size_t>(size_) <= allowed_cpus().size()) {
    words.insert(words.end(), {"--bind-to", "core", "--map-by", "core"});
  } else {
    // More ranks than cores: the worker binds itself, as the others' do.
    words.insert(words.end(), {"--bind-to", "none", "--oversubscribe", "--mca",
                               "mpi_yield_when_idle", "1"});
  }
  settings_ = fmt::format(
      ", mpirun {}", fmt::join(words.begin() + name_ends, words.end(), " "));
  for (int r = 0; r < size_; ++r) {
    if (r > 0) words.push_back(":");
    words.insert(words.end(), {"-n", "1"});
    const auto more = arguments_of(r);
    words.insert(words.end(), more.begin(), more.end());
  }
  ChildProcess::Options options;
  options.keep_output = false;
  options.ends_by_itself = true;  // when its ranks end, which see us go
  processes_.push_back(std::make_unique<ChildProcess>(words, options));
}

Team::~Team() {
  try {
    for (int r = 0; r < size_; ++r) store_.push(order_queue(r), {});
    const auto deadline = Deadline::in(kEndTime);
    for (auto& process : processes_) process->wait(deadline);
  } catch (const std::exception&) {
    // Their own destructors end them then.
  }
}

std::vector<std::string> Team::ask(const std::string& order) {
  for (int r = 0; r < size_; ++r) store_.push(order_queue(r), order);
  std::vector<std::string> answers;
  answers.reserve(static_cast<size_t>(size_));
  for (int r = 0; r < size_; ++r) answers.push_back(next_answer());
  return answers;
}

Answer Team::run(const Order& order) {
  Answer slowest;
  for (const std::string& text : ask(to_text(order))) {
    const Answer answer = parse_answer(text);
    slowest.mean = std::max(slowest.mean, answer.mean);
    slowest.median = std::max(slowest.median, answer.median);
    slowest.p99 = std::max(slowest.p99, answer.p99);
  }
  return slowest;
}

std::string Team::next_answer() {
  const auto deadline = Deadline::in(kAnswerTime);
  for (;;) {
    try {
      std::string text = to_string(
          store_.pop(kAnswerQueue, earlier(deadline, Deadline::in(kLookTime))));
      const std::string mark = kErrorMark;
      LOCKSTEP_CHECK(text.compare(0, mark.size(), mark) != 0, PeerError,
                     "{}: {}", to_text(party_), text.substr(mark.size()));
      return text;
    } catch (const TimeoutError&) {
      for (auto& process : processes_) {
        LOCKSTEP_CHECK(process->is_running(), PeerError,
                       "a process of {} has ended", to_text(party_));
      }
      if (deadline.passed()) throw;
    }
  }
}

int fitting_times(Team& team, Order order, double seconds) {
  for (order.times = kFewestTimes;; order.times *= 4) {
    const double mean = team.run(order).mean;
    if (mean * order.times < seconds / 5) continue;
    return std::max(kFewestTimes, static_cast<int>(seconds / mean));
  }
}

Measure measure_of(Team& team, Order order, double seconds) {
  order.times = fitting_times(team, order, seconds);
  return [&team, order] { return team.run(order).mean; };
}

}  // namespace lockstep::bench
