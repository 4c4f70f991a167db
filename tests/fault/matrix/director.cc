// SPDX-License-Identifier: Apache-2.0
#include "fault/matrix/director.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "fault/matrix/cast.h"
#include "fault/matrix/surroundings.h"
#include "support/support.h"

namespace lockstep::faults {
namespace {

using namespace std::chrono_literals;
using testing::Ending;
using Clock = Deadline::Clock;

// The goal is one second after the fault, or after the deadline; a test allows
// ten times that, and so much patience that whoever is not told is found out.
constexpr auto kBound = 10s;
constexpr auto kLong = 60s;
constexpr auto kShort = 1500ms;
constexpr auto kShortToMake = 3s;

std::string kind_of(Gets gets) {
  switch (gets) {
    case Gets::kPeerError:
      return "peer error";
    case Gets::kTimeoutError:
      return "timeout";
    case Gets::kMismatchError:
      return "mismatch";
    case Gets::kAbortedError:
      return "aborted";
    default:
      return "done";
  }
}

void expect_kind(const Ending& ending, Gets gets) {
  if (gets == Gets::kPeerOrTimeoutError) {
    EXPECT_THAT(ending.kind, ::testing::AnyOf("peer error", "timeout"))
        << ending.text;
  } else if (gets == Gets::kNothingOrError) {
    EXPECT_THAT(ending.kind, ::testing::AnyOf("done", "peer error", "aborted"))
        << ending.text;
  } else {
    EXPECT_EQ(ending.kind, kind_of(gets)) << ending.text;
  }
}

// Whether `text` has the number behind one of the words that lead to a rank.
bool names_rank(const std::string& text, int rank) {
  const std::string number = std::to_string(rank);
  for (const char* const before : {"rank ", "missing: "}) {
    for (size_t at = text.find(before); at != std::string::npos;
         at = text.find(before, at + 1)) {
      const size_t begin = at + std::string(before).size();
      const size_t end = text.find_first_not_of("0123456789", begin);
      if (text.substr(begin, end - begin) == number) return true;
    }
  }
  return false;
}

class Director {
 public:
  Director(const Row& row, Moment moment, Medium medium)
      : fault_(row.fault),
        moment_(moment),
        medium_(medium),
        cell_(cell_of(row, moment, medium)),
        random_(testing::announced_seed()) {
    part_.fault = fault_;
    part_.moment = moment;
    part_.culprit = static_cast<int>(random_() % kRanks);
    part_.patience = kLong;
    if (cell_.within == Within::kTheDeadline) {
      part_.patience = moment == Moment::kMaking
                           ? Deadline::Duration(kShortToMake)
                           : Deadline::Duration(kShort);
    }
    part_.count = random_() % 2 == 0 ? 6 : 200'000;
  }

  void direct() {
    SCOPED_TRACE(fmt::format("it happens to rank {}", part_.culprit));
    start();
    for (int rank = 0; rank < kRanks; ++rank) {
      ASSERT_TRUE(cast_->wait_for(rank, "here")) << "rank " << rank;
    }
    if (moment_ == Moment::kMaking) {
      make();
    } else {
      cue_all("join");
      ASSERT_NO_FATAL_FAILURE(wait_for_all("ready"));
      moment_ == Moment::kIdle ? idle() : at_work();
    }
    if (::testing::Test::HasFatalFailure()) return;
    ASSERT_NO_FATAL_FAILURE(check_others());
    check_itself();
    check_the_group();
    if (!::testing::Test::HasFailure()) leave();
  }

 private:
  bool is(Fault fault) const { return fault_ == fault; }
  // It goes without leaving a process behind.
  bool is_dying() const { return is(Fault::kKill) || is(Fault::kExitEarly); }
  bool is_gone() const { return cell_.itself == Gets::kIsGone; }
  bool is_mistake() const {
    return fault_ >= Fault::kWrongOp && fault_ <= Fault::kOneRankSkips;
  }
  bool is_waited_for() const {
    return is(Fault::kException) || is(Fault::kGroupDestroyed);
  }
  testing::Child& culprit() { return *cast_->process(part_.culprit); }

  void start() {
    if (medium_ == Medium::kLocal) {
      cast_ = make_thread_cast(part_);
      return;
    }
    surroundings_ = std::make_unique<Surroundings>(fault_, kRanks);
    testing::RankJobPlan plan;
    plan.backend = backend_of(medium_);
    surroundings_->enter_into(plan);
    cast_ = make_process_cast(part_, plan);
  }

  std::vector<pid_t> processes() {
    std::vector<pid_t> all;
    all.reserve(kRanks);
    for (int rank = 0; rank < kRanks; ++rank) {
      all.push_back(cast_->process(rank)->pid());
    }
    return all;
  }

  void cue_all(const std::string& line) {
    for (int rank = 0; rank < kRanks; ++rank) cast_->cue(rank, line);
  }
  void cue_others(const std::string& line) {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank != part_.culprit) cast_->cue(rank, line);
    }
  }
  void wait_for_all(const std::string& line) {
    for (int rank = 0; rank < kRanks; ++rank) {
      ASSERT_TRUE(cast_->wait_for(rank, line)) << "rank " << rank;
    }
  }
  void wait_for_others(const std::string& line) {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == part_.culprit) continue;
      ASSERT_TRUE(cast_->wait_for(rank, line)) << "rank " << rank;
    }
  }

  // Not to be right: so that it happens at another moment each time.
  void draw_a_moment() {
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 20'000));
  }

  // ---- The fault itself.

  void inject() {
    since_ = Clock::now();
    switch (fault_) {
      case Fault::kKill:
        culprit().signal(SIGKILL);
        break;
      case Fault::kStop:
        culprit().stop();
        break;
      case Fault::kStopThenContinue:
        culprit().stop();
        draw_a_moment();
        culprit().signal(SIGCONT);
        break;
      case Fault::kLinkCut:
      case Fault::kLinkSlowed:
      case Fault::kStoreKilled:
      case Fault::kStoreUnreachable:
      case Fault::kPortStolen:
      case Fault::kGarbage:
        surroundings_->strike(part_.culprit, processes());
        break;
      default:
        cast_->cue(part_.culprit, "now");
    }
  }

  void make() {
    since_ = Clock::now();
    if (is(Fault::kKill)) {
      cue_all("join");
      draw_a_moment();
      return inject();
    }
    if (is(Fault::kStop)) {
      inject();
      return cue_all("join");
    }
    if (Surroundings::is_visited(fault_)) {
      inject();
      return cue_all("join");
    }
    cue_others("join");
    draw_a_moment();
    inject();
    cast_->cue(part_.culprit, "join");
  }

  void idle() {
    if (is(Fault::kOneRankSkips)) {
      since_ = Clock::now();
      return cue_others("call");
    }
    inject();
    if (is_dying()) culprit().wait();
    if (is_waited_for()) {
      ASSERT_TRUE(cast_->wait_for(part_.culprit, "left"));
    }
    if (is(Fault::kAbort)) {
      ASSERT_TRUE(cast_->wait_for(part_.culprit, "aborted"));
    }
    since_ = Clock::now();
    cue_all("call");
  }

  void at_work() {
    const bool is_collective = moment_ == Moment::kInCollective;
    const std::string marker =
        is_collective ? "in collective" : "in point to point";
    if (is_mistake()) {
      since_ = Clock::now();
      return cue_all("call");
    }
    if (is_waited_for()) {
      ASSERT_NO_FATAL_FAILURE(wait_for_others(marker));
      return inject();
    }
    ASSERT_NO_FATAL_FAILURE(wait_for_all(marker));
    draw_a_moment();
    inject();
    if (cell_.others == Gets::kNothing) {
      draw_a_moment();
      cast_->cue(is_collective ? 0 : part_.culprit, "enough");
    }
  }

  // ---- What came of it.

  void check_others() {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == part_.culprit) continue;
      SCOPED_TRACE(fmt::format("rank {}", rank));
      const Ending ending = cast_->ending(rank);
      ASSERT_NE(ending.kind, "") << "it falls silent";
      expect_kind(ending, cell_.others);
      kinds_.insert(ending.kind);
      if (ending.kind == "done") continue;
      expect_named(ending);
      expect_in_time(ending);
    }
    if (kinds_.count("done") != 0) return;
    std::cout << fmt::format(
        "the last rank heard after {:.0f} ms\n",
        std::chrono::duration<double, std::milli>(slowest_).count());
  }

  void expect_named(const Ending& ending) {
    if (cell_.named == Named::kTheRank) {
      EXPECT_TRUE(ending.peer == part_.culprit ||
                  names_rank(ending.text, part_.culprit))
          << ending.text;
      // A mismatch is about several ranks, a missing one about none.
      EXPECT_THAT(ending.peer, ::testing::AnyOf(part_.culprit, -1))
          << ending.text;
    }
    if (cell_.named == Named::kTheStore) {
      EXPECT_THAT(ending.text, ::testing::HasSubstr("the store server at"));
    }
  }

  void expect_in_time(const Ending& ending) {
    const auto allowed = cell_.within == Within::kTheDeadline
                             ? part_.patience + kBound
                             : Clock::duration(kBound);
    EXPECT_LT(ending.when - since_, allowed) << ending.text;
    slowest_ = std::max(slowest_, ending.when - since_);
  }

  void check_itself() {
    SCOPED_TRACE("itself");
    if (is(Fault::kStop)) culprit().signal(SIGCONT);
    if (is(Fault::kOneRankSkips) && moment_ == Moment::kIdle) {
      cast_->cue(part_.culprit, "call");
    }
    if (is(Fault::kKill)) {
      const int status = culprit().wait();
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    } else if (is(Fault::kExitEarly)) {
      const int status = culprit().wait();
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    } else if (!is_gone()) {
      const Ending ending = cast_->ending(part_.culprit);
      expect_kind(ending, cell_.itself);
      kinds_.insert(ending.kind);
      // One that stood still has only just heard of it.
      if (ending.kind != "done" && !is(Fault::kStop)) expect_in_time(ending);
    }
    if (cell_.others == Gets::kNothingOrError) {
      EXPECT_TRUE(kinds_.count("done") == 0 || kinds_.size() == 1)
          << ::testing::PrintToString(kinds_);
    }
  }

  // A collective that failed has ended the group; a message has not.
  void check_the_group() {
    SCOPED_TRACE("afterwards");
    if (surroundings_) surroundings_->mend(part_.culprit);
    if (moment_ == Moment::kMaking && kinds_.count("done") == 0) return;
    cue_all("again");
    Gets expected = Gets::kNothing;
    if (!cell_.group_goes_on && moment_ != Moment::kMaking) {
      expected = moment_ == Moment::kInPointToPoint ? cell_.others
                                                    : Gets::kAbortedError;
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == part_.culprit && is_gone()) continue;
      SCOPED_TRACE(fmt::format("rank {}", rank));
      expect_kind(cast_->ending(rank), expected);
    }
    if (is(Fault::kStoreKilled)) check_new_groups();
  }

  // The group goes on, but there is nobody who could help to make another.
  void check_new_groups() {
    cue_all("duplicate");
    for (int rank = 0; rank < kRanks; ++rank) {
      const Ending ending = cast_->ending(rank);
      expect_kind(ending, Gets::kPeerError);
      EXPECT_THAT(ending.text, ::testing::HasSubstr("store"));
    }
    cue_all("again");
    for (int rank = 0; rank < kRanks; ++rank) {
      expect_kind(cast_->ending(rank), Gets::kNothing);
    }
  }

  void leave() {
    SCOPED_TRACE("leaving");
    cue_all("leave");
    if (medium_ == Medium::kLocal) return;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == part_.culprit && is_dying()) continue;
      const Deadline deadline = Deadline::in(kLong);
      while (cast_->process(rank)->read_line(deadline)) {
      }
      ASSERT_FALSE(deadline.passed()) << "rank " << rank << " does not end";
      const int status = cast_->process(rank)->wait();
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "rank " << rank << " has status " << status;
    }
  }

  const Fault fault_;
  const Moment moment_;
  const Medium medium_;
  const Cell cell_;
  std::mt19937 random_;
  Part part_;
  std::unique_ptr<Surroundings> surroundings_;
  std::unique_ptr<Cast> cast_;
  Clock::time_point since_;
  Clock::duration slowest_{0};   // to hear of it
  std::set<std::string> kinds_;  // how it ended for the ranks
};

}  // namespace

void expect_cell(const Row& row, Moment moment, Medium medium) {
  if (Surroundings::needs_lab(row.fault)) LOCKSTEP_NEED_NET_LAB();
  Director(row, moment, medium).direct();
  EXPECT_THAT(testing::processes_with(testing::RankJob::mark()),
              ::testing::IsEmpty());
}

}  // namespace lockstep::faults
