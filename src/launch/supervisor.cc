// SPDX-License-Identifier: Apache-2.0
#include "launch/supervisor.h"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <optional>
#include <regex>
#include <thread>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/host_name.h"

namespace lockstep::detail {

using namespace std::chrono_literals;

namespace {

// So long after a failure its true cause may still become known.
constexpr auto kSettle = 30ms;
// So long a rank may take to end that another one's last words name as the one
// that left it.
constexpr auto kAccusedEnds = 1s;
// What has no descriptor is looked at this often.
constexpr auto kLookAround = 200ms;

// How often the kernel has killed a process for lack of memory.
long oom_kills() {
  std::ifstream file("/proc/vmstat");
  std::string name;
  long count = 0;
  while (file >> name >> count) {
    if (name == "oom_kill") return count;
  }
  return 0;
}

// Whom a rank's last words name as the one that left it, in the library's own
// phrases.
std::optional<int> accused_in(const std::vector<std::string>& lines) {
  static const std::regex phrase(
      "rank ([0-9]{1,9}) (has left the group|ended the group|died)");
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    std::smatch match;
    if (std::regex_search(*line, match, phrase)) return std::stoi(match[1]);
  }
  return std::nullopt;
}

class Supervisor {
 public:
  Supervisor(const std::vector<RankPlan>& plans,
             std::chrono::milliseconds grace, Signals& signals, int stop,
             Stream& out, Stream& err,
             const std::function<void(const FailedRank&)>& on_failure)
      : grace_(grace),
        signals_(signals),
        stop_(stop),
        out_(out),
        err_(err),
        on_failure_(on_failure) {
    for (const auto& plan : plans) {
      RankProcess process(plan.command);
      Fd from_out = process.take_out();
      Fd from_err = process.take_err();
      ranks_.push_back(
          {plan.rank, plan.output.log_path, std::move(process),
           std::make_unique<RankOutput>(plan.output, std::move(from_out),
                                        std::move(from_err), out, err),
           false});
    }
  }

  RoundEnd run() {
    while (wait_for_something()) {
      for (auto& rank : ranks_) {
        if (!rank.ended) check(rank);
      }
      while (const auto number = signals_.next()) on_signal(*number);
      if (settled_at_ && settled_at_->passed()) blame();
      if (out_.is_broken() && !is_ending()) on_signal(SIGPIPE);
      if (kill_at_ && kill_at_->passed()) kill_all();
    }
    if (settled_at_) blame();
    wait_for_output();
    return std::move(end_);
  }

 private:
  struct Rank {
    int rank;
    std::string log_path;
    RankProcess process;
    std::unique_ptr<RankOutput> output;
    bool ended;
  };

  struct Failed {
    Rank* rank;
    Ending ending;
    Deadline::Duration after;
  };

  // False when all have ended. A rank's end makes its handle readable.
  bool wait_for_something() {
    std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
    if (!end_.stopped) entries.push_back({stop_, POLLIN, 0});
    const size_t others = entries.size();
    for (const auto& rank : ranks_) {
      if (!rank.ended) entries.push_back({rank.process.handle(), POLLIN, 0});
    }
    if (entries.size() == others) return false;
    auto until = Deadline::in(kLookAround);
    if (kill_at_) until = earlier(until, *kill_at_);
    if (settled_at_) until = earlier(until, *settled_at_);
    if (::poll(entries.data(), entries.size(), until.poll_timeout()) > 0 &&
        others == 2 && entries[1].revents != 0) {
      end_.stopped = true;
      end_all(SIGTERM);
    }
    return true;
  }

  // A reader of ours may be slow, and then we are patient; but not once we
  // were told to end.
  void wait_for_output() {
    const auto is_pending = [&] {
      return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
        return !rank.output->is_done();
      });
    };
    while (is_pending()) {
      while (const auto number = signals_.next()) on_signal(*number);
      if (is_ending() && (kill_at_->passed() || end_.interrupted_by != 0)) {
        out_.give_up();
        err_.give_up();
      }
      std::this_thread::sleep_for(1ms);
    }
  }

  void check(Rank& rank) {
    const auto ending = rank.process.reap();
    if (!ending) return;
    rank.ended = true;
    rank.output->stop();
    if (rank.rank == awaited_) settled_at_ = Deadline::in(0ms);
    if (ending->is_success() || is_ending()) return;
    failed_.push_back({&rank, *ending, Deadline::Clock::now() - start_});
    // Those that depend on a rank fail when it dies, and the system may tell
    // of them first: whose fault it was is decided a moment later.
    if (!settled_at_) settled_at_ = Deadline::in(kSettle);
  }

  // Of the ranks that failed together: the one that died by a signal of its
  // own; else the one that the first accuses, or whom that one accuses, which
  // may need a moment to end; else the first. Null: not yet.
  const Failed* find_culprit() {
    const auto find = [&](const auto& is_it) -> const Failed* {
      const auto it = std::find_if(failed_.begin(), failed_.end(), is_it);
      return it == failed_.end() ? nullptr : &*it;
    };
    const auto* died = find([](const Failed& one) {
      const int number = one.ending.signal;
      return number != 0 && number != SIGTERM && number != SIGPIPE;
    });
    if (died != nullptr) return died;
    const Failed* suspect = &failed_.front();
    for (size_t i = 0; i < failed_.size(); ++i) {
      wait_for_last_lines(*suspect->rank);
      const auto accused = accused_in(suspect->rank->output->last_lines());
      if (!accused || *accused == suspect->rank->rank) return suspect;
      const auto* failed =
          find([&](const Failed& one) { return one.rank->rank == *accused; });
      if (failed == nullptr) return await_end(*accused) ? nullptr : suspect;
      suspect = failed;
    }
    return &failed_.front();  // they accuse each other
  }

  // Whether it makes sense to wait for that rank's end, which is done once.
  bool await_end(int number) {
    const bool is_running = std::any_of(
        ranks_.begin(), ranks_.end(),
        [&](const Rank& one) { return one.rank == number && !one.ended; });
    if (!is_running || awaited_ == number) return false;
    awaited_ = number;
    settled_at_ = Deadline::in(kAccusedEnds);
    return true;
  }

  // They are on their way, unless our reader holds them up.
  static void wait_for_last_lines(const Rank& rank) {
    const auto until = Deadline::in(300ms);
    while (!rank.output->is_done() && !until.passed()) {
      std::this_thread::sleep_for(1ms);
    }
  }

  void blame() {
    settled_at_.reset();
    if (failed_.empty() || is_ending()) return;
    const Failed* const culprit = find_culprit();
    if (culprit == nullptr) return;
    const Failed& first = *culprit;
    Rank& rank = *first.rank;
    FailedRank failure;
    failure.rank = rank.rank;
    failure.host = host_name();
    failure.pid = rank.process.pid();
    failure.ending = first.ending;
    failure.after = first.after;
    wait_for_last_lines(rank);
    failure.last_lines = rank.output->last_lines();
    failure.log_path = rank.log_path;
    failure.out_of_memory =
        first.ending.signal == SIGKILL && oom_kills() > oom_kills_before_;
    end_.failure = failure;
    end_all(SIGTERM);
    on_failure_(failure);
  }

  void on_signal(int number) {
    // Said twice, or while they are ending already: at once.
    if (is_ending()) kill_all();
    if (end_.interrupted_by != 0) return;
    end_.interrupted_by = number;
    end_all(number);
  }

  bool is_ending() const { return kill_at_.has_value(); }

  void end_all(int number) {
    if (is_ending()) return;
    for (const auto& rank : ranks_) {
      rank.process.signal(number);
      rank.process.signal(SIGCONT);  // a stopped one would not hear it
    }
    kill_at_ = Deadline::in(grace_);
  }

  void kill_all() {
    for (const auto& rank : ranks_) rank.process.signal(SIGKILL);
    kill_at_ = Deadline::in(1h);
  }

  const std::chrono::milliseconds grace_;
  Signals& signals_;
  const int stop_;
  Stream& out_;
  Stream& err_;
  const std::function<void(const FailedRank&)>& on_failure_;
  const Deadline::Clock::time_point start_ = Deadline::Clock::now();
  const long oom_kills_before_ = oom_kills();
  std::vector<Rank> ranks_;
  std::vector<Failed> failed_;          // before the end began
  std::optional<Deadline> settled_at_;  // then one of them is named
  int awaited_ = -1;                    // accused, and has not ended
  std::optional<Deadline> kill_at_;     // set once the end has begun
  RoundEnd end_;
};

// A rank may print anything; a report must not move the cursor.
std::string without_controls(std::string line) {
  for (char& c : line) {
    const auto code = static_cast<unsigned char>(c);
    if ((code < 0x20 && c != '\t') || code == 0x7f) c = '?';
  }
  return line;
}

}  // namespace

std::string to_text(const FailedRank& failure) {
  std::string text = fmt::format(
      "rank {} failed: {}{}, {} after the start (host {}, pid {})\n",
      failure.rank, to_text(failure.ending),
      failure.out_of_memory ? ", perhaps out of memory" : "",
      lockstep::to_text(failure.after), failure.host, failure.pid);
  if (failure.last_lines.empty()) {
    text += "  it had printed nothing\n";
  } else {
    text += "  its last lines:\n";
    for (const auto& line : failure.last_lines) {
      text += "    | " + without_controls(line) + "\n";
    }
  }
  if (!failure.log_path.empty()) {
    text += fmt::format("  its log: {}\n", failure.log_path);
  }
  return text;
}

RoundEnd run_round(const std::vector<RankPlan>& plans,
                   std::chrono::milliseconds grace, Signals& signals, int stop,
                   Stream& out, Stream& err,
                   const std::function<void(const FailedRank&)>& on_failure) {
  return Supervisor(plans, grace, signals, stop, out, err, on_failure).run();
}

}  // namespace lockstep::detail
