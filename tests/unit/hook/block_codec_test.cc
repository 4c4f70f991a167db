// SPDX-License-Identifier: Apache-2.0
#include "hook/block_codec.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "unit/hook/block_reference.h"

namespace lockstep::detail {
namespace {

using lockstep::testing::BlockReference;
using ::testing::Each;
using ::testing::ElementsAre;
using Floats = std::vector<float>;
using CodeWords = std::vector<uint32_t>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr size_t kLengths[] = {1,  2,   7,   31,  32,  33,  63,   64,
                               65, 127, 511, 512, 513, 777, 1000, 1537};

// Runs `body` for each instruction set that this machine has and we compile
// for: from the best on, one after the other is taken away.
template <class Body>
void on_each_instruction_set(const Body& body) {
  std::set<decltype(BlockKernels::encode)> seen;
  const int64_t all = hwy::SupportedTargets() | HWY_STATIC_TARGET;
  for (int64_t rest = all; rest != 0; rest &= rest - 1) {
    hwy::SetSupportedTargetsForTest(rest);
    if (!seen.insert(block_kernels(8).encode).second) continue;
    SCOPED_TRACE(hwy::TargetName(rest & -rest));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

// NaN is equal to NaN here.
template <class T>
bool same_bytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

Floats normal_floats(size_t count, unsigned seed, float size = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, size);
  Floats values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

struct NamedFloats {
  std::string name;
  Floats values;
};

// All kinds of numbers that floats can be.
std::vector<NamedFloats> floats_of_all_kinds(size_t count) {
  std::vector<NamedFloats> all;
  all.push_back({"normal", normal_floats(count, 1)});
  all.push_back({"zeros", Floats(count, 0.F)});
  all.push_back({"negative zeros", Floats(count, -0.F)});
  all.push_back({"tiny", normal_floats(count, 2, 1e-38F)});
  all.push_back({"denormal", normal_floats(count, 3, 1e-43F)});
  all.push_back({"huge", normal_floats(count, 4, 1e38F)});
  for (float& value : all.back().values) {
    value = std::clamp(value, -FLT_MAX, FLT_MAX);
  }
  all.push_back({"largest", Floats(count, -FLT_MAX)});
  all.push_back({"mixed", normal_floats(count, 5)});
  for (size_t i = 0; i < count; ++i) {
    all.back().values[i] =
        std::ldexp(all.back().values[i], static_cast<int>(i % 240) - 120);
  }
  for (const float bad : {kNan, -kInf}) {
    all.push_back({"with " + std::to_string(bad), normal_floats(count, 6)});
    all.back().values[count / 2] = bad;
  }
  return all;
}

CodeWords encode(const BlockCodec& codec, const Floats& values, uint64_t key,
                 Floats& memory) {
  constexpr uint32_t kUntouched = 0xabcdef01;
  CodeWords words(codec.word_count(values.size()) + 1, kUntouched);
  codec.encode(values.data(), values.size(), key, words.data(),
               memory.empty() ? nullptr : memory.data());
  EXPECT_EQ(words.back(), kUntouched);
  words.pop_back();
  return words;
}
CodeWords encode(const BlockCodec& codec, const Floats& values, uint64_t key) {
  Floats none;
  return encode(codec, values, key, none);
}

Floats decode(const BlockCodec& codec, const CodeWords& words, size_t count) {
  constexpr float kUntouched = 12345;
  Floats values(count + 1, kUntouched);
  codec.decode(words.data(), count, values.data());
  EXPECT_EQ(values.back(), kUntouched);
  values.pop_back();
  return values;
}

float scale_at(const CodeWords& words, size_t block) {
  float scale;
  std::memcpy(&scale, &words[block], sizeof(scale));
  return scale;
}

class BlockCodecOfBits : public ::testing::TestWithParam<int> {
 protected:
  // Calls body(codec, reference, values) for all lengths, blocks and kinds.
  template <class Body>
  void for_all_values(const Body& body) const {
    for (const size_t block : {64, 192, 512, 1024}) {
      const BlockCodec codec(GetParam(), block);
      const BlockReference reference(GetParam(), block);
      for (const size_t count : kLengths) {
        for (const NamedFloats& kind : floats_of_all_kinds(count)) {
          SCOPED_TRACE(::testing::Message() << count << " " << kind.name
                                            << " in blocks of " << block);
          body(codec, reference, kind.values);
        }
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Bits, BlockCodecOfBits, ::testing::Values(8, 4, 1));

TEST_P(BlockCodecOfBits, EncodesAndDecodesLikeTheReference) {
  on_each_instruction_set([&] {
    for_all_values([](const BlockCodec& codec, const BlockReference& reference,
                      const Floats& values) {
      Floats none;
      const CodeWords expected = reference.encode(values, 7, none);
      ASSERT_TRUE(same_bytes(encode(codec, values, 7), expected));
      ASSERT_TRUE(same_bytes(decode(codec, expected, values.size()),
                             reference.decode(expected, values.size())));
    });
  });
}

TEST_P(BlockCodecOfBits, AddsAndKeepsWhatIsLeftOutLikeTheReference) {
  on_each_instruction_set([&] {
    for_all_values([](const BlockCodec& codec, const BlockReference& reference,
                      const Floats& values) {
      Floats memory = normal_floats(values.size(), 8, 0.01F);
      Floats expected_memory = memory;
      for (uint64_t key = 1; key <= 3; ++key) {
        const CodeWords expected =
            reference.encode(values, key, expected_memory);
        ASSERT_TRUE(same_bytes(encode(codec, values, key, memory), expected));
        ASSERT_TRUE(same_bytes(memory, expected_memory));
      }
    });
  });
}

TEST_P(BlockCodecOfBits, EncodesASumLikeTheReference) {
  constexpr int kInputs = 3;
  constexpr float kFactor = 1.F / 3;
  on_each_instruction_set([&] {
    for_all_values([&](const BlockCodec& codec, const BlockReference& reference,
                       const Floats& values) {
      const size_t count = values.size();
      CodeWords inputs;
      Floats sums(count, 0.F);
      for (int k = 0; k < kInputs; ++k) {
        const Floats other = normal_floats(count, 20U + unsigned(k));
        const CodeWords one = encode(codec, k == 1 ? values : other, 5);
        inputs.insert(inputs.end(), one.begin(), one.end());
        const Floats decoded = reference.decode(one, count);
        for (size_t i = 0; i < count; ++i) {
          sums[i] = k == 0 ? decoded[i] : sums[i] + decoded[i];
        }
      }
      for (float& sum : sums) sum *= kFactor;
      Floats error(count, 0.F);
      Floats expected_memory = normal_floats(count, 9);
      Floats memory = expected_memory;
      const CodeWords expected = reference.encode(sums, 6, error);
      for (size_t i = 0; i < count; ++i) expected_memory[i] += error[i] * 3;

      CodeWords words(codec.word_count(count));
      codec.encode_sum({inputs.data(), kInputs, kFactor, 3}, count, 6,
                       words.data(), memory.data());
      ASSERT_TRUE(same_bytes(words, expected));
      ASSERT_TRUE(same_bytes(memory, expected_memory));
      codec.encode_sum({inputs.data(), kInputs, kFactor, 3}, count, 6,
                       words.data(), nullptr);
      ASSERT_TRUE(same_bytes(words, expected));
    });
  });
}

TEST_P(BlockCodecOfBits, ErrorsAreWithinTheBound) {
  for_all_values([&](const BlockCodec& codec, const BlockReference&,
                     const Floats& values) {
    const CodeWords words = encode(codec, values, 3);
    const Floats decoded = decode(codec, words, values.size());
    for (size_t first = 0; first < values.size(); first += codec.block()) {
      const size_t end = std::min(first + codec.block(), values.size());
      double largest = 0;
      for (size_t i = first; i < end; ++i) {
        const bool is_finite = std::isfinite(values[i]);
        largest = std::max(
            largest,
            is_finite ? std::fabs(static_cast<double>(values[i])) : HUGE_VAL);
      }
      const double scale =
          static_cast<double>(scale_at(words, first / codec.block()));
      const double bound = codec.bits() == 1 ? largest : scale;
      const double excess = bound == static_cast<double>(FLT_MIN) ? bound : 0;
      for (size_t i = first; i < end; ++i) {
        const auto result = static_cast<double>(decoded[i]);
        if (largest == HUGE_VAL) {
          ASSERT_TRUE(std::isnan(result));
        } else {
          ASSERT_LE(std::fabs(static_cast<double>(values[i]) - result),
                    bound * (1 + 1e-4));
          ASSERT_LE(std::fabs(result), largest + excess);
        }
      }
    }
  });
}

TEST_P(BlockCodecOfBits, ANumberThatIsNotFiniteSpoilsItsBlockAlone) {
  const BlockCodec codec(GetParam(), 64);
  for (const float bad : {kNan, kInf, -kInf}) {
    Floats values = normal_floats(200, 1);
    values[100] = bad;
    Floats memory(200, 0.5F);
    const CodeWords words = encode(codec, values, 1, memory);
    const Floats decoded = decode(codec, words, 200);
    for (size_t i = 0; i < 200; ++i) {
      const bool is_in_block = i / 64 == 1;
      EXPECT_EQ(std::isnan(decoded[i]), is_in_block) << i;
      EXPECT_TRUE(is_in_block ? memory[i] == 0 : std::isfinite(memory[i])) << i;
    }
  }
}

// Feedback whose sum with a gradient is too large for a float is lost, not
// passed on.
TEST_P(BlockCodecOfBits, AnOverflowOfTheMemoryIsForgotten) {
  const BlockCodec codec(GetParam(), 64);
  Floats memory(64, FLT_MAX);
  const CodeWords words = encode(codec, Floats(64, FLT_MAX), 1, memory);
  EXPECT_TRUE(std::isnan(scale_at(words, 0)));
  EXPECT_THAT(memory, Each(0.F));
}

TEST(BlockCodec, KeepsMultiplesOfTheScale) {
  for (const int bits : {8, 4}) {
    const int top = bits == 8 ? 127 : 7;
    Floats values;
    for (int level = -top; level <= top; ++level) {
      values.push_back(static_cast<float>(level) / 4);
    }
    const BlockCodec codec(bits, 512);
    for (uint64_t key = 0; key < 50; ++key) {
      const CodeWords words = encode(codec, values, key);
      EXPECT_EQ(decode(codec, words, values.size()), values) << key;
    }
  }
}

TEST(BlockCodec, RoundsWithoutBias) {
  constexpr int kDraws = 20000;
  for (const int bits : {8, 4}) {
    const float top = bits == 8 ? 127 : 7;
    // Scales are 1.
    const Floats values = {top, 0.5F, -0.5F, 0.01F, -0.99F, 3.25F, -6.75F, 0};
    const BlockCodec codec(bits, 64);
    std::vector<double> sums(values.size());
    for (uint64_t key = 0; key < kDraws; ++key) {
      const CodeWords words = encode(codec, values, random_key({key}));
      const Floats decoded = decode(codec, words, values.size());
      for (size_t i = 0; i < values.size(); ++i)
        sums[i] += static_cast<double>(decoded[i]);
    }
    for (size_t i = 0; i < values.size(); ++i) {
      // Five standard deviations: half a scale over the root of the draws.
      EXPECT_NEAR(sums[i] / kDraws, static_cast<double>(values[i]),
                  5 * 0.5 / std::sqrt(kDraws))
          << i;
    }
  }
}

// Neighbours draw numbers of their own: else errors would add up.
TEST(BlockCodec, RoundsElementsIndependently) {
  constexpr size_t kCount = 512 * 200;
  Floats values(kCount, 0.5F);
  for (size_t i = 0; i < kCount; i += 512) values[i] = 127;
  const BlockCodec codec(8, 512);
  const Floats decoded = decode(codec, encode(codec, values, 1), kCount);
  size_t ups = 0;
  size_t same_as_next = 0;
  size_t same_as_next_block = 0;
  for (size_t i = 0; i + 512 < kCount; ++i) {
    ups += decoded[i] > 0.5F ? 1 : 0;
    same_as_next += decoded[i] == decoded[i + 1] ? 1 : 0;
    same_as_next_block += decoded[i] == decoded[i + 512] ? 1 : 0;
  }
  const double half = double(kCount - 512) / 2;
  const double five_deviations = 5 * std::sqrt(half / 2) + 200;
  EXPECT_NEAR(double(ups), half, five_deviations);
  EXPECT_NEAR(double(same_as_next), half, five_deviations);
  EXPECT_NEAR(double(same_as_next_block), half, five_deviations);
}

TEST(BlockCodec, TheKeyDecidesTheBits) {
  const Floats values = normal_floats(1000, 1);
  for (const int bits : {8, 4}) {
    const BlockCodec codec(bits, 64);
    EXPECT_EQ(encode(codec, values, 1), encode(codec, values, 1));
    EXPECT_NE(encode(codec, values, 1), encode(codec, values, 2));
  }
  const BlockCodec signs(1, 64);  // nothing is random
  EXPECT_EQ(encode(signs, values, 1), encode(signs, values, 2));
  EXPECT_EQ(random_key({1, 2}), random_key({1, 2}));
  EXPECT_NE(random_key({1, 2}), random_key({2, 1}));
  EXPECT_NE(random_key({1, 2}), random_key({1, 2, 0}));
}

TEST(BlockCodec, WordCountsAreWhatHeadersPromise) {
  EXPECT_EQ(BlockCodec(8, 512).word_count(512), 1 + 512 / 4);
  EXPECT_EQ(BlockCodec(4, 512).word_count(1024), 2 * (1 + 512 / 8));
  EXPECT_EQ(BlockCodec(1, 512).word_count(5120), 10 * (1 + 512 / 32));
  EXPECT_EQ(BlockCodec(8, 512).word_count(513), 1 + 512 / 4 + 1 + 1);
  EXPECT_EQ(BlockCodec(1, 64).word_count(33), 1 + 2);
  EXPECT_EQ(BlockCodec(8, 64).word_count(0), 0);
}

TEST(CutAtBlocks, PiecesAreWholeBlocksAndEven) {
  EXPECT_THAT(cut_at_blocks(1000, 64, 1), ElementsAre(0, 1000));
  EXPECT_THAT(cut_at_blocks(1000, 100, 2), ElementsAre(0, 500, 1000));
  EXPECT_THAT(cut_at_blocks(10, 64, 3), ElementsAre(0, 0, 0, 10));
  EXPECT_THAT(cut_at_blocks(0, 64, 2), ElementsAre(0, 0, 0));
  for (size_t count = 0; count < 700; count += 3) {
    for (int pieces = 1; pieces <= 9; ++pieces) {
      const auto cuts = cut_at_blocks(count, 64, pieces);
      ASSERT_EQ(cuts.size(), size_t(pieces) + 1);
      EXPECT_EQ(cuts.front(), 0U);
      EXPECT_EQ(cuts.back(), count);
      for (size_t i = 0; i < size_t(pieces); ++i) {
        ASSERT_LE(cuts[i], cuts[i + 1]);
        EXPECT_TRUE(cuts[i] % 64 == 0 || cuts[i] == count);
        EXPECT_LE(cuts[i + 1] - cuts[i],
                  (count / 64 / size_t(pieces) + 1) * 64);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::detail
