// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <ATen/core/Tensor.h>

#include "lockstep/base/future.h"
#include "lockstep/hook/grad_bucket.h"
#include "lockstep/hook/hook_context.h"

namespace lockstep {

// A CommHook says how the gradients of a bucket become the same on all ranks.
// It is made from anything that can be called with
//
//   Future<at::Tensor> hook(GradBucket bucket, const HookContext& context);
//
// or with the bucket alone.
//
// It is called once per bucket and backward, in the order of buckets, on the
// thread that runs backward, and must not wait: it launches and returns a
// Future. The Future's value is one tensor with as many elements as the buffer
// (often the buffer itself, which saves a copy), and becomes the gradients. It
// must complete, or backward fails when the group's timeout has passed.
//
// What depends on the result of a collective is queued behind it, as a local
// step (ProcessGroup::post) and further collectives: not launched from a
// continuation.
//
// Launch on context.group() and context.lane(name): when one rank fails the
// others hear of it at once. On another group they wait for its timeout.
//
// Errors: what it throws, and what its Future fails with, comes out of
//         backward() with the names of the bucket and the hook; the Reducer has
//         failed then, on all ranks.
class CommHook {
 public:
  using Result = Future<at::Tensor>;

  CommHook() = default;
  CommHook(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)

  template <class F, class = std::enable_if_t<
                         !std::is_same_v<std::decay_t<F>, CommHook>>>
  CommHook(F f) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_invocable_r_v<Result, F&, const GradBucket&,
                                        const HookContext&>) {
      call_ = std::move(f);
    } else {
      static_assert(
          std::is_invocable_r_v<Result, F&, const GradBucket&>,
          "a hook is called with a GradBucket and a HookContext, or "
          "with the GradBucket alone, and returns Future<at::Tensor>");
      if (!is_empty(f)) {
        call_ = [f = std::move(f)](const GradBucket& bucket,
                                   const HookContext& /*context*/) mutable {
          return f(bucket);
        };
      }
    }
  }

  explicit operator bool() const { return call_ != nullptr; }

  // What errors, statistics and the log call it; "" for a hook of a program's
  // own, to which register_comm_hook() gives a name.
  const std::string& name() const { return name_; }
  CommHook named(std::string name) && {
    name_ = std::move(name);
    return std::move(*this);
  }

  // The hook changes the parameters itself: its results do not become
  // gradients.
  bool updates_parameters() const { return updates_parameters_; }
  CommHook updating_parameters() && {
    updates_parameters_ = true;
    return std::move(*this);
  }

  Result operator()(const GradBucket& bucket,
                    const HookContext& context) const {
    return call_(bucket, context);
  }

 private:
  // A std::function may be.
  template <class F>
  static bool is_empty(const F& f) {
    if constexpr (std::is_constructible_v<bool, const F&>) {
      return !static_cast<bool>(f);
    } else {
      return false;
    }
  }

  std::function<Result(const GradBucket&, const HookContext&)> call_;
  std::string name_;
  bool updates_parameters_ = false;
};

namespace hooks {

// The average over the ranks, folded into the reduction, with the context's
// divisor: what a Reducer uses unless told otherwise.
CommHook all_reduce();

// The average over the ranks of a group of your own, for hooks that reduce
// among other ranks than the Reducer's.
std::function<Future<at::Tensor>(const GradBucket&)> all_reduce(
    std::shared_ptr<ProcessGroup> group);

// Leaves each rank its own gradients: shows what training costs without
// communication, and is no training.
CommHook noop();

}  // namespace hooks

}  // namespace lockstep
