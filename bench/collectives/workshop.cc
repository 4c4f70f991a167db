// SPDX-License-Identifier: Apache-2.0
#include "collectives/workshop.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "support.h"

using namespace std::chrono_literals;

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kComputeTime = 40ms;
constexpr auto kLateness = 60ms;  // of the peer: longer than the computing

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// By the clock: `times` runs of `operation`.
template <class Operation>
Answer time_of(const Order& order, const Operation& operation) {
  Answer answer;
  const auto begin = Clock::now();
  if (!order.single) {
    for (int i = 0; i < order.times; ++i) operation();
    answer.mean = seconds_since(begin) / order.times;
    return answer;
  }
  std::vector<double> each(static_cast<size_t>(order.times));
  for (double& time : each) {
    const auto start = Clock::now();
    operation();
    time = seconds_since(start);
  }
  answer.mean = seconds_since(begin) / order.times;
  std::sort(each.begin(), each.end());
  answer.median = median(each);
  answer.p99 = each[(each.size() * 99 + 99) / 100 - 1];
  return answer;
}

// How long a unit of computing takes while the clock runs.
double seconds_per_unit() {
  int64_t units = 0;
  volatile double keep = 0;
  const auto begin = Clock::now();
  while (Clock::now() - begin < kComputeTime) {
    double x = keep;
    for (int i = 0; i < 10000; ++i) x = x * 0.999 + 1;
    keep = x;
    ++units;
  }
  return seconds_since(begin) / static_cast<double>(units);
}

// What rank `rank` has at `index`. Sums of it are exact in float32, and no
// power of two divides its period: parts that change places are noticed.
int position(size_t index) {
  return static_cast<int>(static_cast<uint32_t>(index) % 1021);
}
float number(int rank, size_t index) {
  return static_cast<float>(rank + 1 + position(index));
}
float sum_of_numbers(int size, size_t index) {
  const int ranks = size * (size + 1) / 2;
  return static_cast<float>(ranks + size * position(index));
}

}  // namespace

std::unique_ptr<Workshop> make_workshop(const Place& place) {
  return std::make_unique<RunnerWorkshop>(place, make_runner(place));
}

std::string RunnerWorkshop::carry_out(const std::string& order) {
  return to_text(answer_to(parse_order(order)));
}

Answer RunnerWorkshop::answer_to(const Order& order) {
  switch (order.task) {
    case Task::kCopy:
      return copy(order);
    case Task::kCompute:
    case Task::kComputeBeside:
      return compute(order);
    default:
      return collective(order);
  }
}

Answer RunnerWorkshop::collective(const Order& order) {
  const size_t count = order.bytes / sizeof(float);
  float* const data = memory(order, order.registered, 0);
  float* const part = order.task == Task::kReduceScatter
                          ? memory(order, order.registered, 1)
                          : data;
  if (order.task != last_.task || order.registered != last_.registered ||
      order.bytes != last_.bytes) {
    verify(order, data, part);
    std::fill_n(data, count, 0.F);
  }
  last_ = order;
  const auto once = [&] { run_once(order.task, data, part, count); };
  for (int i = 0; i < std::max(1, order.times / 10); ++i) once();
  runner_->barrier();
  return time_of(order, once);
}

void RunnerWorkshop::run_once(Task task, float* data, float* part,
                              size_t count) {
  switch (task) {
    case Task::kLaunch:
      return runner_->launch(data, count, [] {});
    case Task::kBroadcast:
      return runner_->broadcast(data, count);
    case Task::kAllGather:
      return runner_->all_gather(data, count);
    case Task::kReduceScatter:
      return runner_->reduce_scatter(data, part, count);
    default:
      return runner_->all_reduce(data, count);
  }
}

void RunnerWorkshop::verify(const Order& order, float* data, float* part) {
  const size_t count = order.bytes / sizeof(float);
  const size_t share = count / static_cast<size_t>(size_);
  const size_t offset = share * static_cast<size_t>(rank_);
  for (size_t i = 0; i < count; ++i) data[i] = number(rank_, i);
  run_once(order.task, data, part, count);

  const bool scattered = order.task == Task::kReduceScatter;
  for (size_t i = 0; i < (scattered ? share : count); ++i) {
    const size_t index = scattered ? offset + i : i;
    float expected = sum_of_numbers(size_, index);
    if (order.task == Task::kBroadcast) expected = number(0, index);
    if (order.task == Task::kAllGather) {
      expected = number(static_cast<int>(index / share), index);
    }
    LOCKSTEP_CHECK(part[i] == expected, InternalError,
                   "{} of {} bytes: element {} is {}, not {}",
                   collective_of(order.task), order.bytes, i, part[i],
                   expected);
  }
}

Answer RunnerWorkshop::copy(const Order& order) {
  const float* const from = memory(order, false, 0);
  float* const to = memory(order, false, 1);
  const auto once = [&] {
    std::memcpy(to, from, order.bytes);
    // The compiler must not see that nobody reads it.
    asm volatile("" : : "r"(to) : "memory");
  };
  once();
  runner_->barrier();
  return time_of(order, once);
}

Answer RunnerWorkshop::compute(const Order& order) {
  const size_t count = order.bytes / sizeof(float);
  float* const data = memory(order, order.registered, 0);
  const bool beside = order.task == Task::kComputeBeside;
  Answer answer;
  runner_->barrier();
  if (rank_ > 0) {
    std::this_thread::sleep_for(kLateness);
    if (beside) runner_->all_reduce(data, count);
    return answer;
  }
  const auto measure = [&] { answer.mean = seconds_per_unit(); };
  if (beside) {
    runner_->launch(data, count, measure);
  } else {
    measure();
  }
  return answer;
}

float* RunnerWorkshop::memory(const Order& order, bool registered, int which) {
  if (order.bytes != memory_bytes_) memory_.clear();
  memory_bytes_ = order.bytes;
  Memory& found = memory_[{registered, which}];
  if (!found) {
    found = runner_->allocate(order.bytes / sizeof(float), registered);
  }
  return found.get();
}

}  // namespace lockstep::bench
