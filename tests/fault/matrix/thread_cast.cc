// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <condition_variable>
#include <deque>
#include <iostream>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <vector>

#include "fault/matrix/cast.h"
#include "lockstep/backend/local.h"
#include "lockstep/base/thread.h"

namespace lockstep::faults {
namespace {

using namespace std::chrono_literals;

// Lines from one thread to another.
class Channel {
 public:
  void push(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
    changed_.notify_all();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  // Nothing when there is none in time, or it was closed.
  std::optional<std::string> pop(Deadline deadline) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline.time(),
                        [&] { return closed_ || !lines_.empty(); });
    if (lines_.empty()) return std::nullopt;
    std::string line = lines_.front();
    lines_.pop_front();
    return line;
  }
  bool has_line() {
    const std::lock_guard lock(mutex_);
    return !lines_.empty();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_ LOCKSTEP_GUARDED_BY(mutex_);
  bool closed_ LOCKSTEP_GUARDED_BY(mutex_) = false;
};

constexpr auto kLongest = 60s;

class ThreadStage : public Stage {
 public:
  void say(const std::string& line) override { said.push(line); }
  void await(const std::string& cue) override {
    while (const auto line = cues.pop(Deadline::in(kLongest))) {
      if (*line == cue) return;
    }
    throw std::runtime_error("the director has gone");
  }
  bool has_cue() override { return cues.has_line(); }

  Channel said;
  Channel cues;
};

class ThreadCast : public Cast {
 public:
  explicit ThreadCast(const Part& part) {
    GroupOptions options;
    options.timeout = kLongest;
    groups_ = make_local_groups(kRanks, options);
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto at = static_cast<size_t>(rank);
      seen_.emplace_back(groups_[at]);
      ranks_.emplace_back("rank", [this, part, rank, at] {
        try {
          play(part, rank, stages_[at], [this, at](Deadline::Duration) {
            return std::move(groups_[at]);
          });
        } catch (const std::exception& error) {
          stages_[at].say(error.what());
        }
        stages_[at].said.close();
      });
    }
  }

  // Those that have left by themselves hear none of it.
  ~ThreadCast() override {
    for (const auto& one : seen_) {
      if (const auto group = one.lock()) group->abort("the test is over");
    }
    for (ThreadStage& stage : stages_) stage.cues.close();
  }
  ThreadCast(const ThreadCast&) = delete;
  ThreadCast& operator=(const ThreadCast&) = delete;

  void cue(int rank, const std::string& line) override {
    stages_[static_cast<size_t>(rank)].cues.push(line);
  }
  bool wait_for(int rank, const std::string& line) override {
    while (const auto said = hear(rank)) {
      if (*said == line) return true;
      std::cerr << "rank " << rank << " says: " << *said << "\n";
    }
    return false;
  }
  testing::Ending ending(int rank) override {
    while (const auto said = hear(rank)) {
      if (const auto ending = testing::ending_of(*said)) return *ending;
    }
    return {};
  }
  testing::Child* process(int /*rank*/) override { return nullptr; }

 private:
  std::optional<std::string> hear(int rank) {
    return stages_[static_cast<size_t>(rank)].said.pop(Deadline::in(kLongest));
  }

  std::vector<std::shared_ptr<ProcessGroup>> groups_;
  std::vector<std::weak_ptr<ProcessGroup>> seen_;
  std::array<ThreadStage, kRanks> stages_;
  std::vector<Thread> ranks_;
};

}  // namespace

std::unique_ptr<Cast> make_thread_cast(const Part& part) {
  return std::make_unique<ThreadCast>(part);
}

}  // namespace lockstep::faults
