// SPDX-License-Identifier: Apache-2.0
#include "comm/engine.h"

#include <utility>

#include <fmt/format.h>

#include "comm/engine_tasks.h"
#include "lockstep/base/caller_state.h"
#include "lockstep/base/log.h"
#include "lockstep/trace/trace.h"

namespace lockstep::detail {

Engine::Engine(BackendFactory factory, GroupPlace place, GroupOptions options)
    : factory_(std::move(factory)),
      place_(std::move(place)),
      options_(std::move(options)),
      backend_(with_context([&] { return context("making the group"); },
                            [&] { return factory_(place_); })),
      point_to_point_(place_, options_.notice_after, memory_users_,
                      [this] {
                        if (has_failed()) settle();
                      }),
      lane_(fmt::format("lane {}", options_.name), place_.rank) {}

// The lane goes first and completes what was launched; then sends are waited
// for and receives withdrawn; then the backend leaves its peers.
Engine::~Engine() = default;

std::shared_ptr<Work> Engine::launch(CollectiveOp&& op, CallOptions&& options) {
  return launch_task(op, options, nullptr);
}

RegisteredMemory Engine::allocate(CollectiveOp op, CallOptions options) {
  RegisteredMemory memory;
  options.sync = true;
  launch_task(op, options, [&](const CollectiveOp& asked, Patience& patience) {
    memory = backend_->allocate(asked, patience);
  });
  return memory;
}

std::shared_ptr<Work> Engine::compose(OpKind kind,
                                      std::function<void(LaneCalls&)> steps,
                                      CallOptions options) {
  CollectiveOp whole;
  whole.kind = whole.signature.kind = kind;
  // The steps get their argument through a slot: what carries the caller's
  // state knows callbacks without one.
  auto slot = std::make_shared<LaneCalls*>(nullptr);
  const Callback body =
      with_caller_state([slot, steps = std::move(steps)] { steps(**slot); });
  return launch_task(
      whole, options,
      [this, slot, body](const CollectiveOp& op, Patience& patience) {
        BackendCalls calls(*backend_, OpMaker(place_.rank, place_.size),
                           op.signature.sequence, patience);
        *slot = &calls;
        body();
      });
}

std::shared_ptr<Work> Engine::launch_task(CollectiveOp& op,
                                          CallOptions& options, Action action) {
  const char* const what = to_text(op.kind);
  if (options.sync) NoWaitScope::check(what);
  LOCKSTEP_TRACE_SCOPE("launch", "comm");
  LaunchTurn turn = take_turn(what);
  const bool sync = options.sync;
  // An idle lane is the caller's, if it wants to wait anyway.
  const bool is_here = sync && lane_.try_enter();
  if (!is_here) lane_.start();  // may fail, and then no number is taken
  op.signature.sequence = static_cast<uint64_t>(sequence_++);
  if (is_here) {
    turn.end();
    return run_here(op, options, action);
  }
  if (options.finish && !sync) {
    options.finish = with_caller_state(std::move(options.finish));
  }
  auto task = std::make_unique<OpTask>(*this, std::move(op), std::move(options),
                                       std::move(action));
  auto work = task->work;
  lane_.push(std::move(task));
  turn.end();
  if (sync) work->wait();
  return work;
}

std::shared_ptr<Work> Engine::run_here(const CollectiveOp& op,
                                       const CallOptions& options,
                                       const Action& action) {
  // What is made of several has the time for all of them.
  Running running(*this, op, options, action,
                  action ? Patience::Begin::kNow : Patience::Begin::kWhenAsked);
  std::exception_ptr error;
  {
    const Lane::Visit visit(lane_);
    const NoWaitScope no_wait;  // its steps run in the lane, wherever that is
    error = running.run();
  }
  if (error) std::rethrow_exception(error);
  return std::make_shared<Work>(op.kind, running.sequence(),
                                running.duration());
}

std::shared_ptr<Work> Engine::post(std::function<void()> step,
                                   StepOptions options) {
  const LaunchTurn turn = take_turn("local step");
  auto task =
      std::make_unique<StepTask>(*this, std::move(step), std::move(options));
  auto work = task->work;
  lane_.push(std::move(task));
  return work;
}

std::shared_ptr<Work> Engine::transfer(OpKind kind, Buffer buffer, int peer,
                                       uint32_t tag, CallOptions options) {
  const char* const what = to_text(kind);
  if (options.sync) NoWaitScope::check(what);
  check_usable(what);
  ErrorContext where = context(what);
  where.peer = peer;
  with_context([&] { return where; },
               [&] {
                 LOCKSTEP_CHECK(!options.after.valid(), UsageError,
                                "messages have no place in the lane's order, "
                                "so CallOptions::after is not for them; send "
                                "from a local step that has it");
               });
  auto transfer = with_context([&] { return where; },
                               [&] {
                                 return kind == OpKind::kSend
                                            ? backend_->send(buffer, peer, tag)
                                            : backend_->recv(buffer, peer, tag);
                               });
  const auto timeout = options.timeout.value_or(options_.timeout);
  return point_to_point_.start(std::move(transfer), kind, tag, std::move(where),
                               timeout, std::move(options));
}

int64_t Engine::begin_blocking(const char* what, Deadline deadline) {
  NoWaitScope::check(what);
  const LaunchTurn turn = take_turn(what);
  const int64_t sequence = sequence_++;
  LOCKSTEP_CHECK(lane_.wait_idle(deadline), TimeoutError,
                 "timed out waiting for what this rank launched before");
  return sequence;
}

void Engine::check_launching_thread(const char* what) const {
  if (!NoWaitScope::is_active()) return;
  UsageError error(
      "launching on a lane thread, where continuations and local steps run, "
      "would make the order a matter of luck; launch it beforehand, and say in "
      "`after` what it follows");
  error.add_context(context(what));
  throw error;
}

// Two threads that launch at the same time would give the operations another
// order on each rank.
Engine::LaunchTurn Engine::take_turn(const char* what) {
  check_usable(what);
  check_launching_thread(what);
  LaunchTurn turn(launching_);
  if (!turn) {
    UsageError error(
        "another thread is launching on this group at the same time, so the "
        "order would differ between ranks; duplicate() the group for it");
    error.add_context(context(what));
    throw error;
  }
  return turn;
}

void Engine::shutdown(Deadline deadline) {
  NoWaitScope::check("shutdown");
  closed_ = true;
  if (!lane_.wait_idle(deadline) || !point_to_point_.wait_sent(deadline)) {
    TimeoutError error(
        "timed out waiting for what was launched before; abort() ends it");
    error.add_context(context("shutdown"));
    throw error;
  }
  if (auto cause = failure()) {
    settle();
    std::rethrow_exception(cause);
  }
}

void Engine::fail(const std::exception_ptr& cause) noexcept {
  // Whoever sees that the group has failed waits for the end of this, and with
  // it until the backend has let go of the memory of transfers.
  const MemoryUsers::Scope scope(memory_users_);
  std::vector<ProcessGroup::FailureNotice> notices;
  {
    const std::lock_guard lock(failure_mutex_);
    if (failure_) return;
    failure_ = cause;
    failed_ = true;
    notices.swap(failure_notices_);
  }
  backend_->interrupt(failure_of(cause, place_.rank));
  place_.bell->ring();
  for (const auto& notice : notices) notice(cause);
}

void Engine::on_failure(ProcessGroup::FailureNotice notice) {
  std::exception_ptr cause;
  {
    const std::lock_guard lock(failure_mutex_);
    cause = failure_;
    if (!cause) failure_notices_.push_back(std::move(notice));
  }
  if (cause) notice(cause);
}

std::exception_ptr Engine::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

void Engine::check_healthy() const {
  if (!failed_) return;
  throw AbortedError("not carried out, because the group has failed",
                     failure());
}

void Engine::check_alive() const {
  check_healthy();
  backend_->check();
}

bool Engine::has_failed() const noexcept {
  try {
    check_alive();
    return false;
  } catch (...) {
    return true;
  }
}

void Engine::wait_for(const Future<void>& after,
                      Deadline::Duration timeout) const {
  if (!after.valid()) return;
  if (!after.is_ready()) {
    LOCKSTEP_TRACE_SCOPE("wait for another lane", "comm");
    after.on_ready(
        [bell = place_.bell](const auto& /*after*/) { bell->ring(); });
    const Deadline deadline = Deadline::in(timeout);
    // What may take any time is worth no notice.
    const auto patience =
        timeout == Deadline::Duration::max() ? timeout : options_.notice_after;
    Deadline notice = Deadline::in(patience);
    uint32_t heard = place_.bell->rings();
    while (!after.is_ready()) {
      check_alive();
      LOCKSTEP_CHECK(!deadline.passed(), TimeoutError,
                     "what it follows was not ready after {}; does the other "
                     "lane wait for this one?",
                     to_text(timeout));
      if (notice.passed()) {
        log_warn(fmt::format(
            "rank {}: group '{}' has an operation that waits for another lane; "
            "it gives up in {}",
            place_.rank, options_.name, to_text(deadline.remaining())));
        notice = Deadline::in(patience);
      }
      heard = place_.bell->wait(heard, earlier(deadline, notice));
    }
  }
  if (auto error = after.error()) std::rethrow_exception(error);
}

// The time is that of a local step which does not end, since the backend has
// been interrupted: then the program hears of the failure all the same. A step
// that calls its own group is not waited for.
void Engine::settle() noexcept {
  if (MemoryUsers::is_this_thread_one()) return;
  if (memory_users_.wait_none(Deadline::in(options_.timeout))) return;
  log_error(fmt::format(
      "rank {}: group '{}' has failed, but a local step or finish function "
      "still runs after {}; memory that it uses must not be freed",
      place_.rank, options_.name, to_text(options_.timeout)));
}

void Engine::check_usable(const char* what) {
  if (failed_) settle();
  with_context([&] { return context(what); },
               [&] {
                 check_healthy();
                 LOCKSTEP_CHECK(
                     !closed_, UsageError,
                     "this group was shut down; nothing may follow that");
               });
}

ErrorContext Engine::context(const char* what, int64_t sequence) const {
  ErrorContext context;
  context.rank = place_.rank;
  context.operation = what;
  context.sequence = sequence;
  context.group = options_.name;
  return context;
}

}  // namespace lockstep::detail
