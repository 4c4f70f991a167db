// SPDX-License-Identifier: Apache-2.0
#include "comm/point_to_point.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/caller_state.h"
#include "lockstep/base/log.h"
#include "lockstep/trace/trace.h"

namespace lockstep::detail {

struct PointToPoint::Pending final : private Patience::Listener {
  Pending(const PointToPoint& of, std::unique_ptr<Transfer> t, OpKind kind,
          uint32_t with_tag, ErrorContext c, CallOptions o,
          Deadline::Duration timeout)
      : owner(of),
        transfer(std::move(t)),
        work(std::make_shared<Work>(kind, -1)),
        tag(with_tag),
        context(std::move(c)),
        options(std::move(o)),
        patience(timeout, of.notice_after_, this) {}
  virtual ~Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  bool is_send() const { return work->op() == OpKind::kSend; }

  // Completes the Work when there is something to say; true then.
  bool look() {
    try {
      if (!transfer->test()) {
        if (!patience.deadline().passed()) return false;
        // What arrives at the last moment has arrived.
        if (transfer->withdraw()) throw_late();
        transfer->test();
      }
      work->set_source(transfer->source());
      transfer.reset();
      if (options.finish) finish();
    } catch (const Error& error) {
      try {
        rethrow_with_context(error, context);
      } catch (...) {
        return give_up(std::current_exception());
      }
    } catch (...) {
      return give_up(std::current_exception());
    }
    work->complete(patience.waited());
    return true;
  }

  void finish() const {
    const MemoryUsers::Scope scope(owner.memory_users_);
    const NoWaitScope no_wait;
    options.finish();
  }

  bool give_up(std::exception_ptr error) {
    transfer.reset();  // before anybody may touch the memory again
    owner.on_error_();
    work->fail(std::move(error), patience.waited());
    return true;
  }

  void withdraw() {
    AbortedError error("withdrawn, because the group was destroyed");
    error.add_context(context);
    give_up(std::make_exception_ptr(error));
  }

  [[noreturn]] void throw_late() const {
    throw TimeoutError(fmt::format("timed out after {}: {}",
                                   to_text(patience.timeout()), waits_for()));
  }

  void on_late(const std::vector<int>& /*missing*/,
               const Patience& /*patience*/) override {
    log_warn(fmt::format(
        "rank {}: {} on group '{}' has been waiting {}: {}; it gives up in {}",
        context.rank, context.operation, context.group,
        to_text(patience.waited()), waits_for(),
        to_text(patience.deadline().remaining())));
  }

  std::string waits_for() const {
    if (is_send()) {
      return fmt::format("rank {} has not asked for it, with tag {}",
                         context.peer, tag);
    }
    if (context.peer < 0)
      return fmt::format("nobody has sent with tag {}", tag);
    return fmt::format("rank {} has not sent with tag {}", context.peer, tag);
  }

  const PointToPoint& owner;
  std::unique_ptr<Transfer> transfer;
  const std::shared_ptr<Work> work;
  const uint32_t tag;
  const ErrorContext context;
  const CallOptions options;
  Patience patience;
};

PointToPoint::PointToPoint(const GroupPlace& place,
                           Deadline::Duration notice_after,
                           MemoryUsers& memory_users,
                           std::function<void()> on_error)
    : rank_(place.rank),
      group_(place.name),
      bell_(place.bell),
      notice_after_(notice_after),
      memory_users_(memory_users),
      on_error_(std::move(on_error)) {}

PointToPoint::~PointToPoint() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  bell_->ring();
  thread_.join();
}

std::shared_ptr<Work> PointToPoint::start(std::unique_ptr<Transfer> transfer,
                                          OpKind kind, uint32_t tag,
                                          ErrorContext context,
                                          Deadline::Duration timeout,
                                          CallOptions options) {
  const bool sync = options.sync;
  if (options.finish && !sync) {
    options.finish = with_caller_state(std::move(options.finish));
  }
  trace::Span span(to_text(kind), "comm");
  span.arg("peer", context.peer);
  auto pending = std::make_unique<Pending>(*this, std::move(transfer), kind,
                                           tag, std::move(context),
                                           std::move(options), timeout);
  auto work = pending->work;
  const bool done = pending->look();
  if (sync) {
    if (!done) watch(*pending);
    work->wait();
  } else if (!done) {
    const std::lock_guard lock(mutex_);
    if (pending->is_send()) ++sends_;
    arriving_.push_back(std::move(pending));
    if (!started_) thread_ = Thread("p2p " + group_, [this] { serve(); });
    started_ = true;
  }
  if (!sync && !done) bell_->ring();
  return work;
}

void PointToPoint::watch(Pending& pending) {
  uint32_t heard = bell_->rings();
  while (!pending.look()) {
    pending.patience.still_waiting({});
    heard = bell_->wait(heard, pending.patience.wake_at());
  }
}

bool PointToPoint::wait_sent(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline.time(),
                             [&] { return sends_ == 0; });
}

// The list in work is the thread's own, so that no lock is held while a
// backend is asked or a continuation runs.
void PointToPoint::serve() {
  const NoWaitScope no_wait;
  trace::set_thread_rank(rank_);
  PendingList active;
  while (true) {
    const uint32_t heard = bell_->rings();
    bool closing = false;
    {
      const std::lock_guard lock(mutex_);
      active.splice(active.end(), arriving_);
      closing = closing_;
    }
    if (closing) {
      active.remove_if([](const std::unique_ptr<Pending>& pending) {
        if (pending->look()) return true;
        if (!pending->is_send()) pending->withdraw();
        return !pending->is_send();
      });
    }
    const Deadline until = look_at_all(active);
    {
      const std::lock_guard lock(mutex_);
      sends_ = sends_of(active) + sends_of(arriving_);
    }
    changed_.notify_all();
    if (closing && active.empty()) return;
    bell_->wait(heard, until);
  }
}

// Completes what can be; returns when to look again at the latest.
Deadline PointToPoint::look_at_all(PendingList& active) {
  Deadline until = Deadline::in(std::chrono::hours(1));
  active.remove_if(
      [](const std::unique_ptr<Pending>& pending) { return pending->look(); });
  for (const auto& pending : active) {
    pending->patience.still_waiting({});
    until = earlier(until, pending->patience.wake_at());
  }
  return until;
}

int PointToPoint::sends_of(const PendingList& list) const {
  int count = 0;
  for (const auto& pending : list) count += pending->is_send() ? 1 : 0;
  return count;
}

}  // namespace lockstep::detail
