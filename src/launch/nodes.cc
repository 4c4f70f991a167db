// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes.h"

#include <map>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launch/round.h"
#include "lockstep/base/error.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/log.h"

namespace lockstep::detail {

using namespace std::chrono_literals;

namespace {

// A launcher that has not been heard of for so long is taken for dead.
constexpr auto kHeartbeat = 500ms;
constexpr auto kSilence = 10s;
constexpr auto kPause = 10ms;

std::string beat_key(int node) { return fmt::format("beat/{}", node); }
std::string ranks_key(int node) { return fmt::format("ranks/{}", node); }

std::string list_of(const std::vector<int>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ", "));
}

}  // namespace

Nodes::Nodes(std::shared_ptr<Store> store, int node_rank, int nodes,
             std::function<bool()> interrupted)
    : store_(std::move(store)),
      node_rank_(node_rank),
      nodes_(nodes),
      interrupted_(std::move(interrupted)) {}

Nodes::~Nodes() { watching_ = false; }

std::string Nodes::key(int round, const std::string& name) {
  return fmt::format("launch/{}/{}", round, name);
}

void Nodes::pause() const {
  if (interrupted_()) throw AbortedError("interrupted");
  std::this_thread::sleep_for(kPause);
}

void Nodes::agree(const std::string& option, int value) {
  const auto mine = fmt::format("{}", value);
  const auto agreed = store_->compare_set("option/" + option, {}, mine);
  LOCKSTEP_CHECK(to_string(*agreed.value) == mine, MismatchError,
                 "this launcher was given {} {}, another {} {}", option, value,
                 option, to_string(*agreed.value));
}

Nodes::Layout Nodes::join(const Host& host, Deadline deadline) {
  if (is_alone()) return {0, host.ranks, host.job_id, host.master_port};
  const auto allowed = deadline.remaining();
  agree("--nnodes", nodes_);
  agree("--max-restarts", host.max_restarts);
  const auto mine =
      store_->compare_set(fmt::format("host/{}", node_rank_), {}, host_name());
  LOCKSTEP_CHECK(mine.stored, MismatchError,
                 "another launcher (on {}) has --node-rank {} already; give "
                 "each host its own",
                 to_string(*mine.value), node_rank_);
  if (node_rank_ == 0) {
    store_->set("job id", host.job_id);
    store_->set("master port", fmt::format("{}", host.master_port));
  }
  store_->set(ranks_key(node_rank_), fmt::format("{}", host.ranks));
  std::vector<int> missing;
  do {
    pause();
    missing.clear();
    for (int node = 0; node < nodes_; ++node) {
      if (!store_->check({ranks_key(node)})) missing.push_back(node);
    }
  } while (!missing.empty() && !deadline.passed());
  LOCKSTEP_CHECK(missing.empty(), TimeoutError,
                 "after {} the launcher{} with node rank {} of {} had not "
                 "joined; is it running, with the same --rendezvous?",
                 lockstep::to_text(allowed), missing.size() > 1 ? "s" : "",
                 list_of(missing), nodes_);
  Layout layout;
  for (int node = 0; node < nodes_; ++node) {
    const int ranks = std::stoi(to_string(store_->get(ranks_key(node))));
    if (node < node_rank_) layout.first_rank += ranks;
    layout.world_size += ranks;
  }
  layout.job_id = to_string(store_->get("job id"));
  layout.master_port = std::stoi(to_string(store_->get("master port")));
  return layout;
}

void Nodes::begin_round(int round, const std::string& run_id,
                        Deadline deadline) {
  if (node_rank_ == 0) {
    detail::begin_round(*store_, run_id);
    store_->set(key(round, "begun"), "");
  }
  if (is_alone()) return;
  while (!store_->check({key(round, "begun")})) {
    LOCKSTEP_CHECK(!deadline.passed(), TimeoutError,
                   "the launcher of node 0 did not begin round {}", round);
    pause();
  }
  watching_ = false;
  watcher_.join();
  stop_.drain();
  watching_ = true;
  watcher_ = Thread("launch-watch", [this, round] { watch(round); });
}

// Says that we live, asks whether the round has failed, and whether somebody
// has fallen silent.
void Nodes::watch(int round) {
  struct Seen {
    int64_t count = -1;
    Deadline silent_at = Deadline::in(kSilence);
  };
  std::map<int, Seen> others;
  Deadline answers_until = Deadline::in(kSilence);
  while (watching_) {
    try {
      store_->add(beat_key(node_rank_), 1);
      for (int node = 0; node < nodes_; ++node) {
        Seen& seen = others[node];
        const int64_t count = store_->add(beat_key(node), 0);
        if (count != seen.count) seen = {count, Deadline::in(kSilence)};
        if (!seen.silent_at.passed()) continue;
        say_failed(round, {1,
                           fmt::format("the launcher of node {} has not been "
                                       "heard of for {}; is its host up?\n",
                                       node, lockstep::to_text(kSilence)),
                           true});
      }
      answers_until = Deadline::in(kSilence);
      if (wait_for_failure(round)) return stop_.signal();
    } catch (const TimeoutError&) {
      if (answers_until.passed()) return stop_.signal();  // node 0 hangs
    } catch (const Error&) {
      return stop_.signal();  // node 0 is gone; end_round() will say so
    }
  }
}

// False when there was none in this while.
bool Nodes::wait_for_failure(int round) {
  try {
    store_->wait({key(round, "failed")}, Deadline::in(kHeartbeat));
    return true;
  } catch (const TimeoutError&) {
    return false;
  }
}

void Nodes::say_failed(int round, const Verdict& verdict) noexcept {
  if (is_alone()) return;
  try {
    store_->compare_set(key(round, "failed"), {},
                        fmt::format("{} {} {}", verdict.exit_code,
                                    verdict.is_last ? 1 : 0, verdict.report));
  } catch (const std::exception& error) {
    log_debug(fmt::format("could not tell of a failure: {}", error.what()));
  }
}

Nodes::Verdict Nodes::read_failure(int round) {
  const std::string text = to_string(store_->get(key(round, "failed")));
  const size_t first = text.find(' ');
  const size_t second = text.find(' ', first + 1);
  Verdict verdict;
  verdict.exit_code = std::stoi(text.substr(0, first));
  verdict.is_last = text.substr(first + 1, second - first - 1) == "1";
  verdict.report = text.substr(second + 1);
  return verdict;
}

Nodes::Verdict Nodes::end_round(int round, const std::string& report,
                                int exit_code, Deadline::Duration patience) {
  if (is_alone()) return {exit_code, report, false};
  try {
    if (exit_code != 0) say_failed(round, {exit_code, report, false});
    store_->add(key(round, "ended"), 1);
    // Those that run on are watched: this ends with them, or with a failure.
    Verdict verdict;
    std::optional<Deadline> until;
    while (store_->add(key(round, "ended"), 0) < nodes_) {
      if (!until && store_->check({key(round, "failed")})) {
        verdict = read_failure(round);
        is_host_lost_ = verdict.is_last;
        until = Deadline::in(verdict.is_last ? 0ms : patience);
      }
      if (interrupted_()) {
        if (!until) say_failed(round, {1, "interrupted\n", false});
        until = Deadline::in(0ms);
      }
      if (until && until->passed()) break;
      std::this_thread::sleep_for(kPause);
    }
    if (store_->check({key(round, "failed")})) verdict = read_failure(round);
    return verdict;
  } catch (const Error& error) {  // gone, or it does not answer
    is_host_lost_ = true;
    return {exit_code != 0 ? exit_code : 1,
            fmt::format("lost the launcher of node 0: {}\n", error.what()),
            true};
  }
}

void Nodes::leave() {
  if (is_alone()) return;
  watching_ = false;
  watcher_.join();
  if (is_host_lost_ && node_rank_ != 0) return;
  store_->add("left", 1);
  if (node_rank_ != 0) return;
  const auto deadline = Deadline::in(is_host_lost_ ? 1s : 5s);
  while (store_->add("left", 0) < nodes_ && !deadline.passed()) {
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace lockstep::detail
