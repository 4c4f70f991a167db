// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/future_state.h"

namespace lockstep {

template <class T>
class Promise;
template <class T>
class Future;

namespace detail {

template <class T>
using Stored = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class T>
struct ValueState : FutureState {
  std::optional<Stored<T>> value;
};

// What f returns when called with the value of a Future<T>.
template <class F, class T>
struct CallResult {
  using Type = std::invoke_result_t<F&, const T&>;
};
template <class F>
struct CallResult<F, void> {
  using Type = std::invoke_result_t<F&>;
};

// Future<Future<U>> is flattened to Future<U>.
template <class R>
struct Flat {
  using Type = R;
  static constexpr bool kNested = false;
};
template <class U>
struct Flat<Future<U>> {
  using Type = U;
  static constexpr bool kNested = true;
};

}  // namespace detail

// A Future is a value that will be there later, or the error that came
// instead. It is the one way to say "and then" in lockstep:
//
//   Future<int> size = ask_size();
//   Future<void> done = size.then([](const int& n) { resize(n); });
//   done.get(Deadline::in(10s));
//
// A continuation runs on the thread that completes the Promise, or at once
// when the value is already there; it is short and never waits. It is skipped
// on an error, which goes on to the Future that then() returned; a
// continuation that throws fails that Future, and one that returns a Future is
// followed. Order: the result becomes visible, continuations run in the order
// they were added, then waiters wake.
//
// Threads:   any thread may use any copy.
// Ownership: copies share one state; dropping them cancels nothing.
// Errors:    get() rethrows the operation's own error; TimeoutError when the
//            deadline passes first, after which one may wait again.
template <class T>
class Future {
 public:
  Future() = default;

  // False for a Future that was default-constructed: nothing else may be
  // called on it.
  bool valid() const { return state_ != nullptr; }

  // The result, value or error, is there.
  bool is_ready() const { return state_->is_ready(); }
  bool has_value() const { return is_ready() && !error(); }

  // The error once it is there, else null.
  std::exception_ptr error() const { return state_->error(); }

  // Waits until the result is there; false when the deadline passed first.
  bool wait(Deadline deadline) const { return state_->wait(deadline); }

  // Waits for the value. The reference lives as long as any copy of this.
  std::add_lvalue_reference_t<const T> get(Deadline deadline) const {
    state_->wait_or_throw(deadline);
    if constexpr (!std::is_void_v<T>) return *state_->value;
  }

  template <class F>
  auto then(F f) const {
    using Result = typename detail::CallResult<F, T>::Type;
    using U = typename detail::Flat<Result>::Type;
    auto promise = std::make_shared<Promise<U>>();
    Future<U> next = promise->future();
    state_->on_ready([state = state_, promise, f = std::move(f)]() mutable {
      if (state->error()) return promise->set_error(state->error());
      try {
        auto call = [&]() -> Result {
          if constexpr (std::is_void_v<T>) {
            return f();
          } else {
            return f(*state->value);
          }
        };
        if constexpr (detail::Flat<Result>::kNested) {
          call().forward_to(promise);
        } else if constexpr (std::is_void_v<U>) {
          call();
          promise->set_value();
        } else {
          promise->set_value(call());
        }
      } catch (...) {
        promise->set_error(std::current_exception());
      }
    });
    return next;
  }

  // The same without the value: for CallOptions::after, or when_all() of
  // different types.
  Future<void> done() const {
    if constexpr (std::is_void_v<T>) {
      return *this;
    } else {
      return then([](const T& /*value*/) {});
    }
  }

  // Calls `f(future)` once the result is there, value or error.
  template <class F>
  void on_ready(F f) const {
    state_->on_ready([self = *this, f = std::move(f)]() mutable { f(self); });
  }

 private:
  template <class>
  friend class Future;
  friend class Promise<T>;
  explicit Future(std::shared_ptr<detail::ValueState<T>> state)
      : state_(std::move(state)) {}

  // Completes `promise` with whatever this one gets.
  void forward_to(const std::shared_ptr<Promise<T>>& promise) const {
    on_ready([promise](const Future& self) {
      if (self.error()) return promise->set_error(self.error());
      if constexpr (std::is_void_v<T>) {
        promise->set_value();
      } else {
        promise->set_value(*self.state_->value);
      }
    });
  }

  std::shared_ptr<detail::ValueState<T>> state_;
};

// A Promise is the writing end of a Future. It is completed once; a second
// time is a UsageError. One that is dropped before fails its Future with
// AbortedError, so nobody waits for what can no longer come.
template <class T>
class Promise {
 public:
  Promise() : state_(std::make_shared<detail::ValueState<T>>()) {}
  ~Promise() {
    if (state_) state_->abandon();
  }
  Promise(Promise&&) noexcept = default;
  Promise& operator=(Promise&&) = delete;
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;

  Future<T> future() const { return Future<T>(state_); }

  // set_value(value), or set_value() for Promise<void>.
  template <class... Args>
  void set_value(Args&&... args) {
    state_->claim();
    try {
      state_->value.emplace(std::forward<Args>(args)...);
    } catch (...) {  // whoever waits must hear of it too
      state_->publish(std::current_exception());
      throw;
    }
    state_->publish(nullptr);
  }

  void set_error(std::exception_ptr error) {
    state_->claim();
    state_->publish(std::move(error));
  }

 private:
  std::shared_ptr<detail::ValueState<T>> state_;
};

// A Future of what `f()` returns or throws, now.
template <class F>
auto make_future(F f) {
  Promise<void> start;
  start.set_value();
  return start.future().then(std::move(f));
}

// One that is ready. All copies share one state, so it costs next to nothing.
inline const Future<void>& ready_future() {
  static const Future<void> ready = make_future([] {});
  return ready;
}

// A Future that has failed already.
template <class T>
Future<T> make_failed_future(std::exception_ptr error) {
  Promise<T> promise;
  promise.set_error(std::move(error));
  return promise.future();
}

// Ready when all are; fails with the first error in the order of the list, and
// only after every one of them has ended.
template <class T>
Future<void> when_all(const std::vector<Future<T>>& futures) {
  Future<void> all = make_future([] {});
  for (const auto& future : futures) {
    auto promise = std::make_shared<Promise<void>>();
    Future<void> next = promise->future();
    all.on_ready([future, promise](const Future<void>& before) {
      future.on_ready([before, promise](const Future<T>& one) {
        auto error = before.error() ? before.error() : one.error();
        error ? promise->set_error(error) : promise->set_value();
      });
    });
    all = next;
  }
  return all;
}

}  // namespace lockstep
