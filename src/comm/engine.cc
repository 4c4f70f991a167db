// SPDX-License-Identifier: Apache-2.0
#include "comm/engine.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/op_maker.h"
#include "lockstep/base/caller_state.h"
#include "lockstep/base/log.h"
#include "lockstep/trace/trace.h"

namespace lockstep::detail {
namespace {

// Catches what `action` throws; an Error gets the context first.
template <class MakeContext, class Action>
std::exception_ptr error_from(const MakeContext& context,
                              const Action& action) {
  try {
    with_context(context, [&] { action(); });
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

// Calls made inside the lane go straight to the backend, with the time that
// the whole has.
class BackendCalls final : public LaneCalls {
 public:
  BackendCalls(Backend& backend, OpMaker maker, uint64_t sequence,
               Patience& patience)
      : backend_(backend),
        maker_(maker),
        sequence_(sequence),
        patience_(patience) {}
  virtual ~BackendCalls() = default;
  BackendCalls(const BackendCalls&) = delete;
  BackendCalls& operator=(const BackendCalls&) = delete;

  void all_reduce(Buffer data, ReduceOp op) override {
    run(maker_.all_reduce(data, data, op));
  }
  void broadcast(Buffer data, int root) override {
    run(maker_.broadcast(data, root));
  }
  void all_gather(Buffer in, Buffer out, const Counts& counts) override {
    run(maker_.all_gather(in, out, counts));
  }

 private:
  void run(CollectiveOp op) {
    op.signature.sequence = sequence_;
    backend_.run(op, patience_);
  }

  Backend& backend_;
  const OpMaker maker_;
  const uint64_t sequence_;
  Patience& patience_;
};

}  // namespace

// One collective, as it runs in the lane.
class Engine::Running final : private Patience::Listener {
 public:
  Running(Engine& engine, const CollectiveOp& op, const CallOptions& options,
          const Action& action, Patience::Begin begin)
      : engine_(engine),
        op_(op),
        options_(options),
        action_(action),
        patience_(options.timeout.value_or(engine.options_.timeout),
                  engine.options_.notice_after, this, begin) {}
  virtual ~Running() = default;
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // Returns the error; null when it succeeded.
  std::exception_ptr run(uint64_t flow = 0) {
    trace::Span span(to_text(op_.kind), "comm");
    if (flow != 0) trace::flow_in(to_text(op_.kind), flow);
    span.arg("sequence", sequence());
    span.arg("bytes",
             static_cast<int64_t>(std::max(op_.in.bytes(), op_.out.bytes())));
    const auto where = [&] {
      return engine_.context(to_text(op_.kind), sequence());
    };
    std::exception_ptr error;
    {
      const MemoryUsers::Scope scope(engine_.memory_users_);
      error = error_from(where, [&] { run_backend(); });
      if (!error) {
        return options_.finish ? error_from(where, options_.finish) : nullptr;
      }
      engine_.fail(error);
    }
    engine_.settle();
    return error;
  }

  int64_t sequence() const {
    return static_cast<int64_t>(op_.signature.sequence);
  }
  Deadline::Duration duration() const { return patience_.waited(); }

 private:
  void run_backend() {
    engine_.check_healthy();
    engine_.backend_->check();  // before it reads what the program may free
    if (action_) {
      action_(op_, patience_);
    } else {
      engine_.backend_->run(op_, patience_);
    }
  }

  void on_late(const std::vector<int>& missing,
               const Patience& patience) override {
    log_warn(fmt::format(
        "rank {}: {} on group '{}' has been waiting {} for rank{} {}; it "
        "gives up in {}",
        engine_.place_.rank, describe(op_.signature), engine_.options_.name,
        to_text(patience.waited()), missing.size() == 1 ? "" : "s",
        fmt::join(missing, ", "), to_text(patience.deadline().remaining())));
  }

  Engine& engine_;
  const CollectiveOp& op_;
  const CallOptions& options_;
  const Action& action_;
  Patience patience_;
};

// One collective that waits for its turn.
class Engine::OpTask : public Lane::Task {
 public:
  OpTask(Engine& engine, CollectiveOp op, CallOptions options, Action action)
      : work(std::make_shared<Work>(
            op.kind, static_cast<int64_t>(op.signature.sequence))),
        engine_(engine),
        op_(std::move(op)),
        options_(std::move(options)),
        action_(std::move(action)) {
    if (!trace::is_enabled()) return;
    flow_ = trace::new_flow();
    trace::flow_out(to_text(op_.kind), flow_);
  }

  void run() noexcept override {
    Running running(engine_, op_, options_, action_, Patience::Begin::kNow);
    const std::exception_ptr error = running.run(flow_);
    error ? work->fail(error, running.duration())
          : work->complete(running.duration());
  }

  const std::shared_ptr<Work> work;

 private:
  Engine& engine_;
  const CollectiveOp op_;
  const CallOptions options_;
  const Action action_;
  uint64_t flow_ = 0;
};

// A local step between two collectives.
class Engine::StepTask : public Lane::Task {
 public:
  StepTask(Engine& engine, std::function<void()> step)
      : work(std::make_shared<Work>(OpKind::kLocalStep, -1)),
        engine_(engine),
        step_(with_caller_state(std::move(step))) {}

  void run() noexcept override {
    LOCKSTEP_TRACE_SCOPE("local step", "comm");
    const Patience clock(Deadline::Duration::max());
    const std::exception_ptr error =
        error_from([&] { return engine_.context("local step"); },
                   [&] {
                     const MemoryUsers::Scope scope(engine_.memory_users_);
                     engine_.check_healthy();
                     step_();
                   });
    if (error && engine_.failed_) engine_.settle();
    error ? work->fail(error, clock.waited()) : work->complete(clock.waited());
  }

  const std::shared_ptr<Work> work;

 private:
  Engine& engine_;
  const std::function<void()> step_;
};

Engine::Engine(BackendFactory factory, GroupPlace place, GroupOptions options)
    : factory_(std::move(factory)),
      place_(std::move(place)),
      options_(std::move(options)),
      backend_(with_context([&] { return context("making the group"); },
                            [&] { return factory_(place_); })),
      point_to_point_(place_, options_.notice_after, memory_users_,
                      [this] {
                        if (failed_ || has_backend_failed()) settle();
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

std::shared_ptr<Work> Engine::post(std::function<void()> step) {
  const LaunchTurn turn = take_turn("local step");
  auto task = std::make_unique<StepTask>(*this, std::move(step));
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

// Two threads that launch at the same time would give the operations another
// order on each rank.
Engine::LaunchTurn Engine::take_turn(const char* what) {
  check_usable(what);
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
  {
    const std::lock_guard lock(failure_mutex_);
    if (failure_) return;
    failure_ = cause;
    failed_ = true;
  }
  backend_->interrupt(failure_of(cause, place_.rank));
  place_.bell->ring();
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

bool Engine::has_backend_failed() const noexcept {
  try {
    backend_->check();
    return false;
  } catch (...) {
    return true;
  }
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
