// SPDX-License-Identifier: Apache-2.0
#include "fault/matrix/script.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/thread.h"
#include "support/ending.h"

namespace lockstep::faults {
namespace {

using namespace std::chrono_literals;
using Ints = std::vector<int32_t>;
using Works = std::vector<std::shared_ptr<Work>>;

constexpr auto kLong = 60s;              // for what must not end by its timeout
constexpr size_t kManyInts = 1'000'000;  // a sum that takes a while

// Waits for all of them, as their memory ends here, then throws the first
// error. When the group has failed that is thrown at once: nothing touches the
// memory any more.
void wait_all(const Works& works, bool at_once = false) {
  std::exception_ptr first;
  for (const auto& work : works) {
    try {
      work->wait();
    } catch (...) {
      if (at_once) throw;
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

void check_all(const Ints& values, size_t from, int32_t expected) {
  const auto wrong =
      std::find_if(values.begin() + static_cast<std::ptrdiff_t>(from),
                   values.end(), [&](int32_t x) { return x != expected; });
  LOCKSTEP_CHECK(wrong == values.end(), InternalError,
                 "element {} is {} instead of {}", wrong - values.begin(),
                 *wrong, expected);
}

class Player {
 public:
  Player(const Part& part, int rank, Stage& stage)
      : part_(part), rank_(rank), stage_(stage) {}

  void play(const Join& join) {
    stage_.say("here");
    if (part_.moment == Moment::kMaking) return make(join);
    stage_.await("join");
    group_ = join(kLong);
    group_->barrier()->wait();
    stage_.say("ready");
    switch (part_.moment) {
      case Moment::kIdle:
        idle();
        break;
      case Moment::kInCollective:
        in_collective();
        break;
      default:
        in_point_to_point();
    }
    if (group_) {
      stage_.await("again");
      report([&] { add_up(kLong); });
    }
    if (is(Fault::kStoreKilled)) {
      stage_.await("duplicate");
      report([&] { group_->duplicate("more"); });
      stage_.await("again");
      report([&] { add_up(kLong); });
    }
    stage_.await("leave");
  }

 private:
  bool is_culprit() const { return rank_ == part_.culprit; }
  bool is(Fault fault) const { return part_.fault == fault; }
  bool is_own(Fault fault) const { return is(fault) && is_culprit(); }

  // The culprit does it by itself, by the end of its group.
  bool is_leaving() const {
    return is(Fault::kException) || is(Fault::kGroupDestroyed);
  }
  // Somebody does it to the culprit, or to all, at any moment.
  bool is_from_outside() const {
    switch (part_.fault) {
      case Fault::kKill:
      case Fault::kStop:
      case Fault::kStopThenContinue:
      case Fault::kExitEarly:
      case Fault::kAbort:
      case Fault::kLinkCut:
      case Fault::kLinkSlowed:
      case Fault::kStoreKilled:
      case Fault::kStoreUnreachable:
      case Fault::kPortStolen:
      case Fault::kGarbage:
        return true;
      default:
        return false;
    }
  }

  // Whatever is in flight then, it ends the group, and not a transfer alone.
  bool is_end_of_group() const {
    return is(Fault::kKill) || is(Fault::kExitEarly) || is(Fault::kAbort);
  }

  CallOptions patient() const {
    CallOptions options;
    options.timeout = part_.patience;
    return options;
  }

  template <class Body>
  void report(const Body& body) {
    try {
      body();
      stage_.say("done");
    } catch (const Error& error) {
      stage_.say(testing::line_of(error));
    }
  }

  // One sum with everybody, checked.
  void add_up(Deadline::Duration timeout) {
    CallOptions options;
    options.timeout = timeout;
    Ints one(3, rank_ + 1);
    group_->all_reduce(buffer_of(one), ReduceOp::kSum, options)->wait();
    check_all(one, 0, group_->size() * (group_->size() + 1) / 2);
  }

  void exit_now() {
    std::fflush(nullptr);
    std::exit(0);  // NOLINT(concurrency-mt-unsafe): that is the fault
  }

  // ---- While the group is made.

  void make(const Join& join) {
    if (is_culprit() && (is(Fault::kExitEarly) || is(Fault::kException) ||
                         is(Fault::kOneRankSkips))) {
      stage_.await("now");
      if (is(Fault::kExitEarly)) exit_now();
      stage_.say("left");
    } else {
      stage_.await("join");
      bool made = false;
      report([&] {
        group_ = join(part_.patience);
        if (is_own(Fault::kKill)) stage_.await("leave");  // which never comes
        add_up(kLong);
        made = true;
      });
      if (made) {
        stage_.await("again");
        report([&] { add_up(kLong); });
      }
    }
    stage_.await("leave");
  }

  // ---- The culprit, where it acts by itself.

  // Owns the group, as a training step would that throws.
  static void throw_with(const std::shared_ptr<ProcessGroup>& /*group*/) {
    throw std::runtime_error("the data loader has failed");
  }

  void act() {
    if (is(Fault::kExitEarly)) exit_now();
    if (is(Fault::kAbort)) {
      group_->abort("the disk is full");
      return stage_.say("aborted");
    }
    if (is(Fault::kGroupDestroyed)) group_.reset();
    try {
      if (is(Fault::kException)) throw_with(std::exchange(group_, nullptr));
    } catch (const std::runtime_error&) {
      group_.reset();
    }
    stage_.say("left");
  }

  // Aborts beside whatever this rank is doing then; nothing for the others.
  Thread make_aborter() {
    if (!is_own(Fault::kAbort)) return {};
    return Thread("aborter", [this] {
      stage_.await("now");
      act();
    });
  }

  // Of going round: the cue means something else to one that aborts or exits.
  bool has_enough() {
    return !is(Fault::kAbort) && !is(Fault::kExitEarly) && stage_.has_cue();
  }

  // ---- Idle.

  void idle() {
    if (is_culprit() && (is_leaving() || is(Fault::kExitEarly))) {
      stage_.await("now");
      return act();
    }
    if (is_own(Fault::kAbort)) {
      stage_.await("now");
      act();
    }
    stage_.await("call");
    report([&] { add_up(part_.patience); });
  }

  // ---- In a collective.

  void in_collective() {
    if (is_from_outside()) {
      report([&] { sum_for_ever(); });
    } else if (is_leaving()) {
      meet_or_leave();
    } else {
      stage_.await("call");
      report([&] { make_calls(); });
    }
  }

  // One large sum after the other. Element 0 says whether it was enough.
  void sum_for_ever() {
    const Thread aborter = make_aborter();
    Ints in(kManyInts, rank_ + 1);
    Ints out(kManyInts);
    for (int round = 0;; ++round) {
      const bool exiting = is_own(Fault::kExitEarly) && stage_.has_cue();
      in[0] = rank_ == 0 && has_enough() ? 1 : 0;
      const auto work = group_->all_reduce(buffer_of(in), buffer_of(out),
                                           ReduceOp::kSum, patient());
      if (exiting) exit_now();
      work->wait();
      check_all(out, 1, group_->size() * (group_->size() + 1) / 2);
      if (round == 0) stage_.say("in collective");
      if (out[0] != 0) break;
    }
    if (rank_ == 0) stage_.await("enough");
  }

  void meet_or_leave() {
    if (is_culprit()) {
      stage_.await("now");
      return act();
    }
    Ints values(part_.count, 1);
    const auto work =
        group_->all_reduce(buffer_of(values), ReduceOp::kSum, patient());
    stage_.say("in collective");
    report([&] { work->wait(); });
  }

  // What everybody calls, and what the culprit makes of it.
  void make_calls() {
    const bool wrong = is_culprit();
    Ints values(part_.count, 1);
    Ints more(part_.count + 1, 1);
    std::vector<int64_t> wide(part_.count, 1);
    const auto sum = [&](Buffer data, ReduceOp op = ReduceOp::kSum) {
      return group_->all_reduce(data, op, patient());
    };
    const auto spread = [&](int root) {
      return group_->broadcast(buffer_of(more), root, patient());
    };
    Works works;
    const auto launch = [&](const auto& call) {
      try {
        works.push_back(call());
      } catch (const AbortedError&) {
        // What was launched before has failed already; that is what counts.
        if (works.empty()) throw;
      }
    };
    switch (part_.fault) {
      case Fault::kWrongOp:
        launch([&] {
          return sum(buffer_of(values),
                     wrong ? ReduceOp::kMax : ReduceOp::kSum);
        });
        break;
      case Fault::kWrongShape:
        launch(
            [&] { return sum(wrong ? buffer_of(more) : buffer_of(values)); });
        break;
      case Fault::kWrongDtype:
        launch(
            [&] { return sum(wrong ? buffer_of(wide) : buffer_of(values)); });
        break;
      case Fault::kWrongRoot:
        launch([&] { return spread(wrong ? 1 : 0); });
        break;
      case Fault::kWrongOrder:
        if (wrong) launch([&] { return spread(0); });
        launch([&] { return sum(buffer_of(values)); });
        if (!wrong) launch([&] { return spread(0); });
        break;
      default:  // one rank skips
        if (!wrong) launch([&] { return spread(0); });
        launch([&] { return sum(buffer_of(values)); });
    }
    wait_all(works);
  }

  // ---- In point to point, all with the culprit.

  void in_point_to_point() {
    if (is_from_outside()) {
      report([&] { is_culprit() ? serve_for_ever() : ask_for_ever(); });
    } else if (is_leaving()) {
      receive_or_leave();
    } else {
      stage_.await("call");
      report([&] { is_culprit() ? send_wrongly() : receive(); });
    }
  }

  // Small ones and large ones in turn: they travel in different ways.
  static size_t count_in(int round) { return round % 2 == 0 ? 300'000 : 100; }

  void ask_for_ever() {
    for (int round = 0;; ++round) {
      Ints out(count_in(round), rank_ + round);
      Ints in(count_in(round));
      wait_all({group_->recv(buffer_of(in), part_.culprit, 0, patient()),
                group_->send(buffer_of(out), part_.culprit, 0, patient())},
               is_end_of_group());
      check_all(in, 1, part_.culprit + round);
      if (round == 1) stage_.say("in point to point");
      if (in[0] == 1) return;
    }
  }

  void serve_for_ever() {
    const Thread aborter = make_aborter();
    for (int round = 0;; ++round) {
      const bool exiting = is(Fault::kExitEarly) && stage_.has_cue();
      const bool enough = has_enough();
      Ints out(count_in(round), rank_ + round);
      out[0] = enough ? 1 : 0;
      std::vector<Ints> in(static_cast<size_t>(group_->size()),
                           Ints(count_in(round)));
      Works works;
      for (int peer = 0; peer < group_->size(); ++peer) {
        if (peer == rank_) continue;
        works.push_back(group_->recv(buffer_of(in[static_cast<size_t>(peer)]),
                                     peer, 0, patient()));
        works.push_back(group_->send(buffer_of(out), peer, 0, patient()));
      }
      if (exiting) exit_now();
      wait_all(works, is_end_of_group());
      for (int peer = 0; peer < group_->size(); ++peer) {
        if (peer == rank_) continue;
        check_all(in[static_cast<size_t>(peer)], 0, peer + round);
      }
      if (round == 1) stage_.say("in point to point");
      if (enough) break;
    }
    stage_.await("enough");
  }

  void receive_or_leave() {
    if (is_culprit()) {
      stage_.await("now");
      return act();
    }
    Ints values(part_.count);
    const auto work =
        group_->recv(buffer_of(values), part_.culprit, 0, patient());
    stage_.say("in point to point");
    report([&] { work->wait(); });
  }

  void receive() {
    Ints first(part_.count);
    Ints second(part_.count);
    Works works = {group_->recv(buffer_of(first), part_.culprit, 1, patient())};
    if (is(Fault::kWrongOrder)) {
      works.push_back(
          group_->recv(buffer_of(second), part_.culprit, 2, patient()));
    }
    wait_all(works);
    check_all(first, 0, 1);
    if (is(Fault::kWrongOrder)) check_all(second, 0, 2);
  }

  void send_wrongly() {
    Ints first(part_.count + (is(Fault::kWrongShape) ? 1 : 0), 1);
    Ints second(part_.count, 2);
    // The same bytes, under another name.
    std::vector<uint32_t> unsigned_ones(part_.count, 1);
    const Buffer renamed{unsigned_ones.data(), unsigned_ones.size(),
                         DType::kFloat32};
    Works works;
    for (int peer = 0; peer < group_->size(); ++peer) {
      if (peer == rank_ || is(Fault::kOneRankSkips)) continue;
      if (is(Fault::kWrongOrder)) {
        works.push_back(group_->send(buffer_of(second), peer, 2, patient()));
      }
      const Buffer data = is(Fault::kWrongDtype) ? renamed : buffer_of(first);
      works.push_back(group_->send(data, peer, 1, patient()));
    }
    wait_all(works);
  }

  const Part part_;
  const int rank_;
  Stage& stage_;
  std::shared_ptr<ProcessGroup> group_;
};

}  // namespace

std::string Part::encode() const {
  return fmt::format(
      "{}/{}/{}/{}/{}", static_cast<int>(fault), static_cast<int>(moment),
      culprit,
      std::chrono::duration_cast<std::chrono::milliseconds>(patience).count(),
      count);
}

Part Part::decode(const std::string& text) {
  int fault = 0;
  int moment = 0;
  long long milliseconds = 0;
  Part part;
  const int fields =
      std::sscanf(text.c_str(), "%d/%d/%d/%lld/%zu", &fault, &moment,
                  &part.culprit, &milliseconds, &part.count);
  LOCKSTEP_CHECK(fields == 5, UsageError, "'{}' is no part", text);
  part.fault = static_cast<Fault>(fault);
  part.moment = static_cast<Moment>(moment);
  part.patience = std::chrono::milliseconds(milliseconds);
  return part;
}

void play(const Part& part, int rank, Stage& stage, const Join& join) {
  Player(part, rank, stage).play(join);
}

}  // namespace lockstep::faults
