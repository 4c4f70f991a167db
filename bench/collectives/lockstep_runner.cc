// SPDX-License-Identifier: Apache-2.0
// Ours. Calls are synchronous, on Buffers; no trace is recorded.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "collectives/runner.h"
#include "lockstep/backend/init.h"

namespace lockstep::bench {
namespace {

class LockstepRunner : public Runner {
 public:
  explicit LockstepRunner(const Place& place) : group_(join(place)) {
    sync_.sync = true;
  }

  std::string settings() const override {
    return fmt::format("backend {}, its threads where it puts them itself",
                       group_->backend_name());
  }

  std::shared_ptr<float> allocate(size_t count, bool registered) override {
    if (!registered) return Runner::allocate(count, registered);
    const auto memory = group_->allocate(count * sizeof(float));
    auto* const data = reinterpret_cast<float*>(memory.data());
    std::fill_n(data, count, 0.F);
    return {memory.owner(), data};
  }

  void barrier() override { group_->barrier(sync_); }
  void all_reduce(float* data, size_t count) override {
    group_->all_reduce(buffer_of(data, count), ReduceOp::kSum, sync_);
  }
  void broadcast(float* data, size_t count) override {
    group_->broadcast(buffer_of(data, count), 0, sync_);
  }
  void all_gather(float* data, size_t count) override {
    const Buffer all = buffer_of(data, count);
    group_->all_gather(all.slice(part(count) * rank(), part(count)), all, {},
                       sync_);
  }
  void reduce_scatter(float* in, float* out, size_t count) override {
    group_->reduce_scatter(buffer_of(in, count), buffer_of(out, part(count)),
                           ReduceOp::kSum, {}, sync_);
  }
  void launch(float* data, size_t count,
              const std::function<void()>& meanwhile) override {
    const auto work = group_->all_reduce(buffer_of(data, count));
    meanwhile();
    work->wait();
  }

 private:
  static std::shared_ptr<ProcessGroup> join(const Place& place) {
    InitOptions options;
    options.backend = place.variant;
    options.timeout = std::chrono::minutes(1);
    options.store = place.store;
    options.rank = place.rank;
    options.size = place.size;
    return init(options);
  }

  size_t rank() const { return static_cast<size_t>(group_->rank()); }
  size_t part(size_t count) const {
    return count / static_cast<size_t>(group_->size());
  }

  const std::shared_ptr<ProcessGroup> group_;
  CallOptions sync_;
};

}  // namespace

std::unique_ptr<Runner> make_runner(const Place& place) {
  return std::make_unique<LockstepRunner>(place);
}

}  // namespace lockstep::bench
