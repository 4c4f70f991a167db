// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ddp/reducer/bucket.h"
#include "lockstep/plan/bucket_plan.h"

namespace lockstep::detail {

// The buckets of a plan, and which of them is launched next: strictly in order,
// by one thread at a time.
//
//   queue.set(plan, buckets);
//   queue.start_cycle();
//   if (queue.arrive(parameter, false)) queue.launch_ready(lock, launch);
//   queue.are_all_launched();
//
// Threads: guarded by the Reducer, whose lock launch_ready() lets go of while
//          it launches.
class BucketQueue {
 public:
  using Buckets = std::vector<std::unique_ptr<Bucket>>;

  // Between cycles. `buckets` are those of `plan`, in its order.
  void set(BucketPlan plan, Buckets buckets);
  // Lets go of the buckets, to have their memory for others.
  void clear() { buckets_.clear(); }

  const BucketPlan& plan() const { return plan_; }
  size_t size() const { return buckets_.size(); }
  Bucket& operator[](size_t index) const { return *buckets_[index]; }
  Bucket& bucket_of(size_t parameter) const {
    return *buckets_[places_[parameter].bucket];
  }

  // From now on every gradient is missing, and bucket 0 is next.
  void start_cycle();

  // What ranks have agreed on for this cycle: a bucket shows it to its hook.
  void set_used(const std::function<bool(size_t parameter)>& is_used);

  // The gradient of a parameter is there, or `is_unused`. True when its bucket
  // is complete.
  bool arrive(size_t parameter, bool is_unused);

  // Calls launch(bucket, index) for every bucket that is complete and next,
  // without the lock, because hooks are foreign code. Does nothing while
  // another thread is in it: that one will see our bucket.
  template <class Lock, class Launch>
  void launch_ready(Lock& lock, const Launch& launch) {
    if (is_launching_) return;
    is_launching_ = true;
    while (next_ < buckets_.size() && buckets_[next_]->is_ready()) {
      const size_t index = next_++;
      Bucket& bucket = *buckets_[index];
      lock.unlock();
      Future<at::Tensor> result = launch(bucket, index);
      lock.lock();
      bucket.set_result(std::move(result));
    }
    is_launching_ = false;
  }
  bool is_launching() const { return is_launching_; }
  // launch() has thrown, or somebody else has ended the step.
  void stop_launching() { is_launching_ = false; }

  bool are_all_launched() const { return next_ == buckets_.size(); }

 private:
  struct Place {
    size_t bucket;
    size_t position;
  };

  BucketPlan plan_;
  Buckets buckets_;
  std::vector<Place> places_;  // by parameter
  size_t next_ = 0;
  bool is_launching_ = false;
};

}  // namespace lockstep::detail
