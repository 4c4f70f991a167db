// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/engine.h"
#include "comm/op_maker.h"
#include "lockstep/base/caller_state.h"
#include "lockstep/base/log.h"
#include "lockstep/trace/trace.h"

// What an Engine's lane runs: collectives, calls within a collective, local
// steps. Only engine.cc includes it.
namespace lockstep::detail {

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
    const auto where = [&] {
      return engine_.context(to_text(op_.kind), sequence());
    };
    std::exception_ptr error = error_from(
        where, [&] { engine_.wait_for(options_.after, patience_.timeout()); });
    if (!error) {
      trace::Span span(to_text(op_.kind), "comm");
      if (flow != 0) trace::flow_in(to_text(op_.kind), flow);
      span.arg("sequence", sequence());
      span.arg("bytes",
               static_cast<int64_t>(std::max(op_.in.bytes(), op_.out.bytes())));
      const MemoryUsers::Scope scope(engine_.memory_users_);
      error = error_from(where, [&] { run_backend(); });
      if (!error) {
        return options_.finish ? error_from(where, options_.finish) : nullptr;
      }
    }
    engine_.fail(error);
    engine_.settle();
    return error;
  }

  int64_t sequence() const {
    return static_cast<int64_t>(op_.signature.sequence);
  }
  Deadline::Duration duration() const { return patience_.waited(); }

 private:
  void run_backend() {
    engine_.check_alive();
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
  StepTask(Engine& engine, std::function<void()> step, StepOptions options)
      : work(std::make_shared<Work>(OpKind::kLocalStep, -1)),
        engine_(engine),
        step_(with_caller_state(std::move(step))),
        options_(std::move(options)),
        part_(ErrorPartScope::current()) {}

  void run() noexcept override {
    const std::exception_ptr error = carry_out();
    if (error && options_.fatal) engine_.fail(error);
    if (error && engine_.has_failed()) engine_.settle();
    const auto took =
        began_ ? Deadline::Clock::now() - *began_ : Deadline::Duration::zero();
    error ? work->fail(error, took) : work->complete(took);
  }

  const std::shared_ptr<Work> work;

 private:
  std::exception_ptr carry_out() {
    const auto where = [&] { return engine_.context("local step"); };
    auto error = error_from(where, [&] {
      engine_.wait_for(options_.after,
                       options_.timeout.value_or(engine_.options_.timeout));
    });
    if (error) return error;
    LOCKSTEP_TRACE_SCOPE("local step", "comm");
    began_ = Deadline::Clock::now();
    const MemoryUsers::Scope scope(engine_.memory_users_);
    error = error_from(where, [&] { engine_.check_alive(); });
    if (error) {
      engine_.fail(error);
      return error;
    }
    return error_from(where, [&] {
      try {
        step_();
      } catch (...) {
        if (part_.empty()) throw;
        rethrow_with_part(part_);
      }
    });
  }

  Engine& engine_;
  const std::function<void()> step_;
  const StepOptions options_;
  const std::string part_;
  std::optional<Deadline::Clock::time_point> began_;
};

}  // namespace lockstep::detail
