// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
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
// Threads: guarded by the Reducer, whose lock launch_ready() releases while it
//          launches.
class BucketQueue {
 public:
  using Buckets = std::vector<std::unique_ptr<Bucket>>;

  // Between cycles. `buckets` are made by `plan`, in its order.
  void set(BucketPlan plan, Buckets buckets);
  // Frees the buckets, so that new ones can be made in their memory.
  void clear() { buckets_.clear(); }

  const BucketPlan& plan() const { return plan_; }
  size_t size() const { return buckets_.size(); }
  Bucket& operator[](size_t index) const { return *buckets_[index]; }
  Bucket& bucket_of(size_t parameter) const {
    return *buckets_[places_[parameter].bucket];
  }

  size_t index_of(size_t parameter) const {  // of its bucket
    return places_[parameter].bucket;
  }

  // Every gradient is missing again, and bucket 0 is the next to be launched.
  void start_cycle();

  // By parameter, agreed between the ranks for this cycle: whether any rank
  // uses it. Buckets show it to their hook.
  void set_used(const std::vector<bool>& used);

  // The gradient of a parameter is there, or `is_unused`: this rank has none.
  // True when its bucket is complete.
  bool arrive(size_t parameter, bool is_unused);

  // Calls launch(bucket, index) for every bucket that is complete and next,
  // with the lock released, because hooks are code of the program. Does nothing
  // while another thread is launching: that thread launches this bucket too.
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
  // The step has failed: launch() has thrown, or another thread has failed.
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
