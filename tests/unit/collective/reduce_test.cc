// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/reduce.h"

#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collective/half.h"
#include "collective/reduce_kernels.h"
#include "unit/collective/reduce_reference.h"

namespace lockstep {
namespace {

using detail::Stores;
using ::testing::ElementsAre;
using testing::first_difference;
using testing::Memory;
using testing::reduce_reference;
using testing::some_elements;

constexpr size_t kCounts[] = {0, 1, 3, 7, 63, 64, 65, 1023, 4097};
constexpr size_t kLargeCount = 100003;
constexpr int kInputCounts[] = {1, 2, 3, 4, 5, 8};
constexpr double kFactors[] = {0.1, 3, -0.7, 1, 2.5, 0, 1e-3, -1};

// Runs `body` for each instruction set that this machine has and we compile
// for. Highway's dispatch is told that there is no better one.
template <class Body>
void for_each_target(const Body& body) {
  std::set<std::string> seen;
  const int64_t all = hwy::SupportedTargets() | HWY_STATIC_TARGET;
  for (int64_t rest = all; rest != 0; rest &= rest - 1) {
    // From the best on, take one after the other away.
    hwy::SetSupportedTargetsForTest(rest);
    const std::string name = reduce_target();
    if (!seen.insert(name).second) continue;
    SCOPED_TRACE("on " + name);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

// A run of elements with one more on either side that nobody may touch.
class Run {
 public:
  // `shift` elements behind a cache line.
  Run(DType dtype, size_t count, size_t shift)
      : size_(size_of(dtype)),
        count_(count),
        memory_((count + shift + 1) * size_ + kLine, kUntouched) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    offset_ = (kLine - address % kLine) % kLine + shift * size_;
  }
  void fill(const Memory& source) {
    std::memcpy(data(), source.data(), count_ * size_);
  }
  std::byte* data() { return memory_.data() + offset_; }
  bool kept_its_borders() const {
    const auto is_untouched = [](std::byte b) { return b == kUntouched; };
    const auto begin = memory_.begin() + static_cast<ptrdiff_t>(offset_);
    const auto end = begin + static_cast<ptrdiff_t>(count_ * size_);
    return std::all_of(memory_.begin(), begin, is_untouched) &&
           std::all_of(end, memory_.end(), is_untouched);
  }

 private:
  static constexpr size_t kLine = 64;
  static constexpr std::byte kUntouched{0xa5};
  size_t size_;
  size_t count_;
  size_t offset_ = 0;
  Memory memory_;
};

struct Layout {
  int outputs;
  bool in_place;  // the last inputs are outputs, too
  size_t shift;
};

// Reduces copies of `inputs` and expects the beginning of `expected`.
void expect_reduced(const Reduction& reduction,
                    const std::vector<Memory>& inputs, size_t count,
                    const Layout& layout, Stores stores,
                    const Memory& expected) {
  const DType dtype = reduction.dtype;
  std::vector<Run> runs;
  std::vector<const void*> in;
  std::vector<void*> out;
  const auto input_count = static_cast<int>(inputs.size());
  for (int i = 0; i < input_count + layout.outputs; ++i) {
    runs.emplace_back(dtype, count, layout.shift);
  }
  for (int i = 0; i < input_count; ++i) {
    runs[i].fill(inputs[i]);
    in.push_back(runs[i].data());
  }
  for (int i = 0; i < layout.outputs; ++i) {
    const bool is_input = layout.in_place && i < input_count;
    out.push_back(
        runs[is_input ? input_count - 1 - i : input_count + i].data());
  }
  detail::reduce_with(stores, reduction, in.data(), input_count, out.data(),
                      layout.outputs, count);
  for (const void* result : out) {
    ASSERT_EQ(first_difference(dtype, result, expected.data(), count), count)
        << input_count << " inputs, " << layout.outputs << " outputs, in place "
        << layout.in_place << ", shift " << layout.shift;
  }
  for (const Run& run : runs) ASSERT_TRUE(run.kept_its_borders());
}

using Operation = std::tuple<ReduceOp::Kind, DType>;

class Reduce : public ::testing::TestWithParam<Operation> {
 protected:
  Reduction reduction() const {
    return {std::get<0>(GetParam()), std::get<1>(GetParam()), kFactors};
  }
  std::vector<Memory> make_inputs(int input_count, size_t count) const {
    std::vector<Memory> inputs;
    for (int i = 0; i < input_count; ++i) {
      inputs.push_back(
          some_elements(reduction().dtype, count, static_cast<unsigned>(i)));
    }
    return inputs;
  }
};

TEST_P(Reduce, GivesWhatTheReferenceGivesForAllCountsAndLayouts) {
  for (const int n : kInputCounts) {
    const auto inputs = make_inputs(n, kCounts[std::size(kCounts) - 1]);
    const Memory expected =
        reduce_reference(reduction(), inputs, kCounts[std::size(kCounts) - 1]);
    for_each_target([&] {
      for (const size_t count : kCounts) {
        for (const int outputs : std::set<int>{1, 2, n}) {
          for (const bool in_place : {false, true}) {
            for (const size_t shift : {0, 1}) {
              expect_reduced(reduction(), inputs, count,
                             {outputs, in_place, shift}, Stores::kCached,
                             expected);
            }
          }
        }
      }
    });
  }
}

TEST_P(Reduce, GivesWhatTheReferenceGivesForManyElements) {
  const auto inputs = make_inputs(2, kLargeCount);
  expect_reduced(reduction(), inputs, kLargeCount, {1, false, 0},
                 Stores::kCached,
                 reduce_reference(reduction(), inputs, kLargeCount));
}

TEST_P(Reduce, GivesTheSamePastTheCaches) {
  constexpr size_t kCount = 20011;  // some pages of the smallest elements
  for (const int n : {2, 5}) {
    const auto inputs = make_inputs(n, kCount);
    const Memory expected = reduce_reference(reduction(), inputs, kCount);
    for_each_target([&] {
      for (const Layout& layout :
           {Layout{1, false, 1}, Layout{2, true, 0}, Layout{n + 1, true, 1}}) {
        expect_reduced(reduction(), inputs, kCount, layout, Stores::kStreaming,
                       expected);
      }
    });
  }
}

TEST_P(Reduce, DoesNotDependOnHowTheRangeIsSliced) {
  constexpr size_t kCount = 1000;
  const auto inputs = make_inputs(5, kCount);
  const size_t size = size_of(reduction().dtype);
  for (const int n : {2, 3, 5}) {
    std::vector<const void*> whole;
    for (int i = 0; i < n; ++i) whole.push_back(inputs[i].data());
    Memory at_once(kCount * size);
    void* out = at_once.data();
    reduce(reduction(), whole.data(), n, &out, 1, kCount);
    Memory in_slices(kCount * size);
    for (size_t begin = 0, length = 1; begin < kCount; begin += length++) {
      std::vector<const void*> slice;
      for (int i = 0; i < n; ++i) {
        slice.push_back(inputs[i].data() + begin * size);
      }
      out = in_slices.data() + begin * size;
      reduce(reduction(), slice.data(), n, &out, 1,
             std::min(length, kCount - begin));
    }
    EXPECT_EQ(first_difference(reduction().dtype, at_once.data(),
                               in_slices.data(), kCount),
              kCount);
  }
}

std::vector<Operation> all_operations() {
  std::vector<Operation> operations;
  for (int kind = 0; kind < ReduceOp::kKindCount; ++kind) {
    for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
      const Operation operation = {static_cast<ReduceOp::Kind>(kind),
                                   static_cast<DType>(dtype)};
      if (std::apply(is_defined, operation)) operations.push_back(operation);
    }
  }
  return operations;
}
std::string name_of(const ::testing::TestParamInfo<Operation>& test) {
  const auto [kind, dtype] = test.param;
  return std::string(to_text(kind)) + "_" + to_text(dtype);
}
INSTANTIATE_TEST_SUITE_P(Operations, Reduce,
                         ::testing::ValuesIn(all_operations()), name_of);

// Reduces vectors of one type into a new one.
template <class T>
std::vector<T> reduced(const Reduction& reduction,
                       const std::vector<std::vector<T>>& inputs) {
  std::vector<const void*> in;
  for (const auto& input : inputs) in.push_back(input.data());
  std::vector<T> result(inputs[0].size());
  void* out = result.data();
  reduce(reduction, in.data(), static_cast<int>(in.size()), &out, 1,
         result.size());
  return result;
}

TEST(ReduceValues, SumsInTheOrderOfInputs) {
  const Reduction sum = {ReduceOp::kSum, DType::kFloat32};
  EXPECT_THAT(reduced<float>(sum, {{1e8f}, {-1e8f}, {1}}), ElementsAre(1));
  EXPECT_THAT(reduced<float>(sum, {{1}, {1e8f}, {-1e8f}}), ElementsAre(0));
}

TEST(ReduceValues, SumsHalvesInFloatAndRoundsOnce) {
  const uint16_t one = 0x3f80, small = 0x3b00;  // 1 and 2^-9: below half a unit
  const Reduction sum = {ReduceOp::kSum, DType::kBFloat16};
  EXPECT_THAT(reduced<uint16_t>(sum, {{one}, {small}, {small}, {small}}),
              ElementsAre(0x3f81));
}

TEST(ReduceValues, AveragesIntegersIn64BitsTowardZero) {
  const Reduction average = {ReduceOp::kAverage, DType::kInt8};
  EXPECT_THAT(reduced<int8_t>(average, {{127, -128, -3}, {127, -128, 0}}),
              ElementsAre(127, -128, -1));
}

TEST(ReduceValues, WrapsIntegersAround) {
  const Reduction product = {ReduceOp::kProduct, DType::kInt16};
  EXPECT_THAT(reduced<int16_t>(product, {{-1, 300}, {-1, 300}}),
              ElementsAre(1, 24464));
  const Reduction sum = {ReduceOp::kSum, DType::kInt64};
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(reduced<int64_t>(sum, {{kMax}, {2}}),
              ElementsAre(std::numeric_limits<int64_t>::min() + 1));
}

TEST(ReduceValues, TakesAnyByteButZeroForTrue) {
  const std::vector<std::vector<uint8_t>> bytes = {{0, 2, 4, 0}, {0, 1, 0, 8}};
  EXPECT_THAT(reduced<uint8_t>({ReduceOp::kSum, DType::kBool}, bytes),
              ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(reduced<uint8_t>({ReduceOp::kProduct, DType::kBool}, bytes),
              ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(reduced<uint8_t>({ReduceOp::kBxor, DType::kBool}, bytes),
              ElementsAre(0, 0, 1, 1));
}

TEST(ReduceValues, CarriesANanFromAnyInputIntoMinAndMax) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const auto kind : {ReduceOp::kMin, ReduceOp::kMax}) {
    for (size_t n = 1; n < 10; ++n) {
      for (size_t where = 0; where < n; ++where) {
        std::vector<std::vector<float>> inputs(n, std::vector<float>(70, 1));
        inputs[where].assign(70, kNan);
        for (const float x : reduced<float>({kind, DType::kFloat32}, inputs)) {
          ASSERT_TRUE(std::isnan(x)) << n << " inputs, NaN in " << where;
        }
      }
    }
  }
}

// Averages of neighbours are the middles between them, where rounding has to
// decide; factors give numbers of all sizes.
TEST(ReduceValues, ConvertsHalvesAsHalfDoesForAllPatterns) {
  std::vector<Memory> inputs(2, Memory(size_t{1} << 17));
  for (uint32_t i = 0; i < 1 << 16; ++i) {
    const auto low = static_cast<uint16_t>(i),
               high = static_cast<uint16_t>(i + 1);
    std::memcpy(inputs[0].data() + 2 * i, &low, 2);
    std::memcpy(inputs[1].data() + 2 * i, &high, 2);
  }
  for (const auto dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const double factor : {1.0, 0.37, 1.001, 3e-5, 0x1p-12, 700.0}) {
      const double factors[] = {factor, factor * 0.01};
      for (const auto kind : {ReduceOp::kAverage, ReduceOp::kPremulSum}) {
        const Reduction reduction = {kind, dtype, factors};
        const Memory expected = reduce_reference(reduction, inputs, 1 << 16);
        for_each_target([&] {
          expect_reduced(reduction, inputs, 1 << 16, {1, false, 0},
                         Stores::kCached, expected);
        });
      }
    }
  }
}

TEST(ReduceValues, WorksForAsManyInputsAndOutputsAsThereAreRanks) {
  constexpr int kRanks = 67;
  std::vector<Memory> inputs;
  for (unsigned i = 0; i < kRanks; ++i) {
    inputs.push_back(some_elements(DType::kBFloat16, 3000, i));
  }
  const Reduction reduction = {ReduceOp::kSum, DType::kBFloat16};
  const Memory expected = reduce_reference(reduction, inputs, 3000);
  for (const auto stores : {Stores::kCached, Stores::kStreaming}) {
    expect_reduced(reduction, inputs, 3000, {kRanks, true, 1}, stores,
                   expected);
    expect_reduced(reduction, inputs, 3000, {kRanks, false, 0}, stores,
                   expected);
  }
}

}  // namespace
}  // namespace lockstep
