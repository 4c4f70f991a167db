// SPDX-License-Identifier: Apache-2.0
// How fast reductions are: ours, a plain loop at -O3 (with the vectors that the
// compiler makes of it, and without), and memcpy.
//
// The figure is bytes read and written per second. Two inputs of S bytes and
// one output move 3 S, and so does a memcpy of 1.5 S: in the same memory, at
// the same distance from the processor. No reduction can be much faster than
// that, so the ratio to memcpy says how much is left. More is better.
//
// "ranks" is the number of inputs; "+copy" has two outputs.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include <fmt/format.h>

#include "lockstep/collective/reduce.h"
#include "plain_loop.h"
#include "support.h"

using namespace std::chrono_literals;

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kMeasureTime = 3ms;  // twice per round for each of both
constexpr size_t kSizes[] = {64 << 10, 1 << 20, 25 << 20};
constexpr double kFactors[] = {0.5, 0.25, 2, 1, 0.5, 0.25, 2, 1};

// How many times `move` can be done in a second.
template <class Move>
double rate_of(const Move& move) {
  int64_t times = 0;
  const auto begin = Clock::now();
  auto now = begin;
  do {
    move();
    ++times;
    now = Clock::now();
  } while (now - begin < kMeasureTime);
  return static_cast<double>(times) /
         std::chrono::duration<double>(now - begin).count();
}

// Inputs and outputs of `bytes` each, side by side.
class Arena {
 public:
  Arena(size_t bytes, int inputs, int outputs, DType dtype)
      : bytes_(bytes),
        total_(bytes * static_cast<size_t>(inputs + outputs)),
        memory_(static_cast<std::byte*>(std::aligned_alloc(4096, total_))) {
    if (!memory_) throw std::bad_alloc();
    // Small numbers of any type: no case should be slow for subnormals.
    std::memset(memory_.get(), dtype == DType::kFloat64 ? 0x3f : 0x3c, total_);
    for (int i = 0; i < inputs; ++i) inputs_.push_back(at(i));
    for (int i = 0; i < outputs; ++i) outputs_.push_back(at(inputs + i));
  }

  double reduce_rate(const Reduction& reduction) {
    return moved() * rate_of([&] {
             reduce(reduction, inputs_.data(), static_cast<int>(inputs_.size()),
                    outputs_.data(), static_cast<int>(outputs_.size()),
                    bytes_ / size_of(reduction.dtype));
           });
  }
  double loop_rate(const Reduction& reduction, decltype(plain_loop) loop) {
    return moved() * rate_of([&] {
             loop(reduction, inputs_[0], inputs_[1], outputs_[0],
                  bytes_ / size_of(reduction.dtype));
           });
  }
  double memcpy_rate() {
    return moved() * rate_of([&] {
             std::memcpy(memory_.get() + total_ / 2, memory_.get(), total_ / 2);
           });
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  std::byte* at(int i) {
    return memory_.get() + static_cast<size_t>(i) * bytes_;
  }
  double moved() const { return static_cast<double>(total_); }

  const size_t bytes_;
  const size_t total_;
  const std::unique_ptr<std::byte, Free> memory_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

struct Case {
  ReduceOp::Kind kind;
  DType dtype;
  int inputs = 2;
  int outputs = 1;
};
constexpr Case kCases[] = {
    {ReduceOp::kSum, DType::kFloat32},
    {ReduceOp::kSum, DType::kFloat64},
    {ReduceOp::kSum, DType::kFloat16},
    {ReduceOp::kSum, DType::kBFloat16},
    {ReduceOp::kSum, DType::kInt8},
    {ReduceOp::kSum, DType::kInt32},
    {ReduceOp::kSum, DType::kInt64},
    {ReduceOp::kAverage, DType::kFloat32},
    {ReduceOp::kAverage, DType::kFloat16},
    {ReduceOp::kAverage, DType::kBFloat16},
    {ReduceOp::kAverage, DType::kInt32},
    {ReduceOp::kProduct, DType::kFloat32},
    {ReduceOp::kProduct, DType::kInt8},
    {ReduceOp::kMax, DType::kFloat32},
    {ReduceOp::kMax, DType::kFloat16},
    {ReduceOp::kMax, DType::kBFloat16},
    {ReduceOp::kPremulSum, DType::kFloat32},
    {ReduceOp::kPremulSum, DType::kFloat16},
    {ReduceOp::kPremulSum, DType::kBFloat16},
    {ReduceOp::kSum, DType::kFloat32, 2, 2},
    {ReduceOp::kSum, DType::kFloat32, 4},
    {ReduceOp::kSum, DType::kFloat32, 8},
    {ReduceOp::kSum, DType::kBFloat16, 8},
};

void run_case(const Case& test, size_t bytes, Report& report) {
  const Reduction reduction = {test.kind, test.dtype, kFactors};
  const std::string name =
      fmt::format("{}/{}{}", to_text(test.kind), to_text(test.dtype),
                  test.outputs > 1 ? "+copy" : "");
  Arena arena(bytes, test.inputs, test.outputs, test.dtype);
  const auto add = [&](const char* rival, const Measure& measure) {
    report.add({name, rival, bytes, test.inputs,
                compare(
                    report.rounds(), Better::kMore,
                    [&] { return arena.reduce_rate(reduction); }, measure)});
  };
  add("memcpy", [&] { return arena.memcpy_rate(); });
  if (test.inputs == 2 && test.outputs == 1) {
    add("plain-loop", [&] { return arena.loop_rate(reduction, plain_loop); });
    add("scalar-loop", [&] { return arena.loop_rate(reduction, scalar_loop); });
  }
}

void run_kernels(Report& report) {
  report.note(
      fmt::format("bytes read and written per second, {} rounds of 2 x "
                  "{} ms each; ours: {}",
                  report.rounds(), kMeasureTime.count(), reduce_target()));
  for (const Case& test : kCases) {
    for (const size_t bytes : kSizes) run_case(test, bytes, report);
  }
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  return lockstep::bench::run("kernels", argc, argv,
                              lockstep::bench::run_kernels);
}
