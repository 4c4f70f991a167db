// SPDX-License-Identifier: Apache-2.0
#include "faults_kill.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "child_process.h"
#include "lockstep/base/error.h"
#include "lockstep/store/tcp_store_server.h"

namespace lockstep::bench {
namespace {

using namespace std::chrono_literals;
using Ranks = std::vector<std::unique_ptr<ChildProcess>>;

constexpr int kRanks = 4;
constexpr auto kPatience = 60s;

// Returns when all are in the group, and at work.
Ranks start_ranks(const TcpStoreServer& server, const std::string& backend,
                  uint32_t seed) {
  Ranks ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(std::make_unique<ChildProcess>(std::vector<std::string>{
        LOCKSTEP_RANK_WORKER, std::to_string(server.port()),
        std::to_string(rank), std::to_string(kRanks), "play",
        std::to_string(seed), backend}));
  }
  for (const auto& rank : ranks) {
    const std::string line = rank->read_line(Deadline::in(kPatience));
    LOCKSTEP_CHECK(line == "ready", InternalError, "a rank says: {}", line);
  }
  return ranks;
}

// When this rank was told, as it says itself; rank_worker.h has the words.
std::chrono::nanoseconds told_at(ChildProcess& rank, int victim) {
  const std::string line = rank.read_line(Deadline::in(kPatience));
  int peer = -1;
  long long nanoseconds = 0;
  const int fields =
      std::sscanf(line.c_str(), "error %d %lld", &peer, &nanoseconds);
  LOCKSTEP_CHECK(fields == 2 && peer == victim &&
                     line.find(" peer error: ") != std::string::npos,
                 InternalError, "rank {} was killed, and another says: {}",
                 victim, line);
  return std::chrono::nanoseconds(nanoseconds);
}

double time_of_one(const std::string& backend, std::mt19937& random) {
  const TcpStoreServer server("127.0.0.1", 0, "");
  const Ranks ranks =
      start_ranks(server, backend, static_cast<uint32_t>(random()));
  const auto victim = static_cast<int>(random() % kRanks);
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 100'000));
  const std::chrono::nanoseconds killed =
      Deadline::Clock::now().time_since_epoch();
  ::kill(ranks[static_cast<size_t>(victim)]->pid(), SIGKILL);
  std::chrono::nanoseconds last = killed;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == victim) continue;
    last = std::max(last, told_at(*ranks[static_cast<size_t>(rank)], victim));
  }
  return std::chrono::duration<double>(last - killed).count();
}

}  // namespace

void measure_kills(Report& report, const std::string& backend,
                   double goal_seconds) {
  const size_t trials = report.rounds() >= 15 ? 200 : 40;
  report.note(
      fmt::format("{}: {} ranks, {} trials; from SIGKILL to the "
                  "PeerError of the last survivor",
                  backend, kRanks, trials));
  // All ranks are here, so loopback is no surprise worth a warning.
  ::setenv("LOCKSTEP_SOCKET_IFNAME", "lo", 0);
  std::mt19937 random(1);
  std::vector<double> seconds;
  for (size_t i = 0; i < trials; ++i)
    seconds.push_back(time_of_one(backend, random));
  std::sort(seconds.begin(), seconds.end());
  for (const size_t percent : {size_t{50}, size_t{99}}) {
    Comparison result;
    result.ours = seconds[trials * percent / 100];
    result.best_ours = seconds.front();
    result.rival = result.best_rival = goal_seconds;
    result.ratio = goal_seconds / result.ours;
    result.lowest_ratio = goal_seconds / seconds.back();
    result.highest_ratio = goal_seconds / seconds.front();
    report.add({fmt::format("{} kill p{}", backend, percent), "goal", 0, kRanks,
                result});
  }
}

}  // namespace lockstep::bench
