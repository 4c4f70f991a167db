// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes.h"

#include <unistd.h>

#include <climits>
#include <map>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "launch/round.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep {

using namespace std::chrono_literals;

namespace {

// A launcher that has not been heard of for so long is taken for dead.
constexpr auto kHeartbeat = 500ms;
constexpr auto kSilence = 10s;

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string beat_key(int node) { return fmt::format("beat/{}", node); }

}  // namespace

Nodes::Nodes(std::shared_ptr<Store> store, int node_rank, int nodes)
    : store_(std::move(store)), node_rank_(node_rank), nodes_(nodes) {}

Nodes::~Nodes() { watching_ = false; }

std::string Nodes::key(int round, const std::string& name) const {
  return fmt::format("launch/{}/{}", round, name);
}

Nodes::Layout Nodes::join(int ranks, const std::string& run_prefix,
                          int master_port, Deadline deadline) {
  if (is_alone()) return {0, ranks, run_prefix, master_port};
  const auto allowed = deadline.remaining();
  const auto agreed =
      store_->compare_set("nodes", {}, fmt::format("{}", nodes_));
  LOCKSTEP_CHECK(to_string(*agreed.value) == fmt::format("{}", nodes_),
                 MismatchError,
                 "this launcher was given --nnodes {}, another --nnodes {}",
                 nodes_, to_string(*agreed.value));
  const auto mine =
      store_->compare_set(fmt::format("host/{}", node_rank_), {}, host_name());
  LOCKSTEP_CHECK(mine.stored, MismatchError,
                 "another launcher (on {}) has --node-rank {} already; give "
                 "each host its own",
                 to_string(*mine.value), node_rank_);
  if (node_rank_ == 0) {
    store_->set("job", run_prefix);
    store_->set("port", fmt::format("{}", master_port));
  }
  store_->set(fmt::format("ranks/{}", node_rank_), fmt::format("{}", ranks));
  Layout layout;
  std::string missing;
  for (int node = 0; node < nodes_; ++node) {
    const std::string key = fmt::format("ranks/{}", node);
    try {
      const int count = std::stoi(to_string(store_->get(key, deadline)));
      if (node < node_rank_) layout.first_rank += count;
      layout.world_size += count;
    } catch (const TimeoutError&) {
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", node);
    }
  }
  LOCKSTEP_CHECK(missing.empty(), TimeoutError,
                 "after {} the launcher{} with node rank {} of {} had not "
                 "joined; is it running, with the same --rendezvous?",
                 to_text(allowed), missing.size() > 1 ? "s" : "", missing,
                 nodes_);
  layout.run_prefix = to_string(store_->get("job"));
  layout.master_port = std::stoi(to_string(store_->get("port")));
  return layout;
}

void Nodes::begin_round(int round, const std::string& run_id,
                        Deadline deadline) {
  if (node_rank_ == 0) {
    lockstep::begin_round(*store_, run_id);
    store_->set(key(round, "begun"), "");
  }
  if (is_alone()) return;
  store_->wait({key(round, "begun")}, deadline);
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
  while (watching_) {
    try {
      store_->add(beat_key(node_rank_), 1);
      for (int node = 0; node < nodes_; ++node) {
        Seen& seen = others[node];
        const int64_t count = store_->add(beat_key(node), 0);
        if (count != seen.count) seen = {count, Deadline::in(kSilence)};
        if (seen.silent_at.passed()) {
          say_failed(round,
                     fmt::format("the launcher of node {} has not been heard "
                                 "of for {}; is its host up?\n",
                                 node, to_text(kSilence)),
                     1);
        }
      }
      store_->wait({key(round, "failed")}, Deadline::in(kHeartbeat));
      return stop_.signal();
    } catch (const TimeoutError&) {
      continue;  // no failure in this while
    } catch (const Error& error) {
      log_error(fmt::format("lost the launcher of node 0: {}", error.what()));
      return stop_.signal();
    }
  }
}

void Nodes::say_failed(int round, const std::string& why, int exit_code) {
  // The first one counts.
  store_->compare_set(key(round, "failed"), {},
                      fmt::format("{} {} {}", exit_code, node_rank_, why));
}

Nodes::Verdict Nodes::end_round(int round, const std::string& report,
                                int exit_code, Deadline deadline) {
  if (is_alone()) return {"", exit_code};
  if (exit_code != 0) say_failed(round, report, exit_code);
  store_->add(key(round, "ended"), 1);
  // All that run on are watched, so this ends when they do, or with a failure.
  const auto everybody_ended = [&] {
    return store_->add(key(round, "ended"), 0) == nodes_;
  };
  std::optional<Deadline> give_up;
  while (!everybody_ended()) {
    if (!give_up && store_->check({key(round, "failed")})) give_up = deadline;
    if (give_up && give_up->passed()) break;
    std::this_thread::sleep_for(20ms);
  }
  Verdict verdict;
  if (!store_->check({key(round, "failed")})) return verdict;
  const std::string text = to_string(store_->get(key(round, "failed")));
  const size_t first = text.find(' ');
  const size_t second = text.find(' ', first + 1);
  verdict.exit_code = std::stoi(text.substr(0, first));
  if (std::stoi(text.substr(first + 1, second - first - 1)) != node_rank_) {
    verdict.report = text.substr(second + 1);
  }
  return verdict;
}

void Nodes::leave() {
  if (is_alone()) return;
  watching_ = false;
  watcher_.join();
  store_->add("left", 1);
  if (node_rank_ != 0) return;
  const auto deadline = Deadline::in(5s);
  while (store_->add("left", 0) < nodes_ && !deadline.passed()) {
    std::this_thread::sleep_for(10ms);
  }
}

}  // namespace lockstep
