// SPDX-License-Identifier: Apache-2.0
#include "support/unwinding.h"

#include <sys/mman.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <random>
#include <vector>

#include "support/sanitizers.h"

namespace lockstep::testing {
namespace {

// Integers that nobody may touch after their end. The address sanitizer sees to
// that for ordinary memory. Elsewhere, what an exception has unwound past stays
// mapped without any right, so that its addresses are not given out again.
class Scratch {
 public:
  Scratch(size_t count, int32_t value) : count_(count) {
    if constexpr (kAddressSanitizer) {
      values_ = new int32_t[count];
    } else {
      void* const pages = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (pages == MAP_FAILED) throw std::bad_alloc();
      values_ = static_cast<int32_t*>(pages);
    }
    std::fill_n(values_, count_, value);
  }
  ~Scratch() {
    if constexpr (kAddressSanitizer) {
      delete[] values_;
    } else if (std::uncaught_exceptions() > 0) {
      ::madvise(values_, bytes(), MADV_DONTNEED);
      ::mprotect(values_, bytes(), PROT_NONE);
    } else {
      ::munmap(values_, bytes());
    }
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  Buffer buffer() { return {values_, count_, DType::kInt32}; }
  void fill(int32_t value) { std::fill_n(values_, count_, value); }

 private:
  size_t bytes() const { return count_ * sizeof(int32_t); }

  const size_t count_;
  int32_t* values_;
};

class Round {
 public:
  Round(ProcessGroup& group, size_t count) : group_(group), count_(count) {}

  void start_messages() {
    for (int peer = 0; peer < group_.size(); ++peer) {
      if (peer == group_.rank()) continue;
      works_.push_back(group_.recv(scratch(), peer));
      works_.push_back(group_.send(scratch(), peer));
    }
  }

  void start_collectives(size_t extra) {
    works_.push_back(group_.all_reduce(scratch()));
    works_.push_back(group_.post([one = &add(count_)] { one->fill(2); }));
    works_.push_back(
        group_.all_reduce(scratch(extra), scratch(extra), ReduceOp::kSum, {}));
    works_.push_back(group_.broadcast(scratch(), 0));
  }

  void finish(std::mt19937& random) {
    std::shuffle(works_.begin(), works_.end(), random);
    for (const auto& work : works_) work->wait();
  }

 private:
  Scratch& add(size_t count) {
    memory_.push_back(std::make_unique<Scratch>(count, 1));
    return *memory_.back();
  }
  Buffer scratch(size_t extra = 0) { return add(count_ + extra).buffer(); }

  ProcessGroup& group_;
  const size_t count_;
  std::vector<std::unique_ptr<Scratch>> memory_;
  std::vector<std::shared_ptr<Work>> works_;
};

}  // namespace

void exchange_until_it_fails(ProcessGroup& group, Traffic traffic,
                             uint32_t seed,
                             const std::function<bool(int round)>& is_wrong) {
  std::mt19937 random(seed + static_cast<uint32_t>(group.rank()));
  for (int number = 0;; ++number) {
    // Small ones and large ones in turn: they travel in different ways.
    Round round(group, number % 2 == 0 ? 200'000 : 100);
    if (traffic.messages) round.start_messages();
    if (traffic.collectives) {
      round.start_collectives(is_wrong && is_wrong(number) ? 1 : 0);
    }
    round.finish(random);
  }
}

}  // namespace lockstep::testing
