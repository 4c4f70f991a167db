// SPDX-License-Identifier: Apache-2.0
#include "bench_options.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"

namespace lockstep::tool {
namespace {

using lockstep::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

BenchArguments asking_for(const char* collective, const char* bytes) {
  BenchArguments arguments;
  arguments.collective = collective;
  arguments.backend = "local";
  arguments.bytes = bytes;
  return arguments;
}

std::vector<size_t> sizes(const BenchArguments& arguments, int ranks) {
  return sizes_for(options_of(arguments), ranks);
}

TEST(BenchOptions, SizesAreReadWithTheirUnits) {
  EXPECT_EQ(bytes_of("4096"), 4096U);
  EXPECT_EQ(bytes_of("1K"), 1024U);
  EXPECT_EQ(bytes_of("25m"), 25U << 20);
  EXPECT_EQ(bytes_of("3G"), size_t{3} << 30);
  for (const char* text : {"", "K", "1KB", "-1", "1.5M", "1 K", "1T",
                           "99999999999999999999", "9999999999G"}) {
    EXPECT_THAT(message_of<UsageError>([&] { bytes_of(text); }),
                HasSubstr("sizes like 4096, 1K"))
        << text;
  }
}

TEST(BenchOptions, SizesGrowByTheStepAndEndWithTheLargest) {
  EXPECT_THAT(sizes(asking_for("all_reduce", "1K:4K"), 2),
              ElementsAre(1024, 2048, 4096));
  EXPECT_THAT(sizes(asking_for("all_reduce", "1K:5K"), 2),
              ElementsAre(1024, 2048, 4096, 5120));
  EXPECT_THAT(sizes(asking_for("all_reduce", "8"), 2), ElementsAre(8));
  auto slowly = asking_for("all_reduce", "4:12");
  slowly.step = 1.3;
  EXPECT_THAT(sizes(slowly, 2), ElementsAre(4, 8, 12));
}

TEST(BenchOptions, PartsAreEqualWholeElements) {
  EXPECT_THAT(sizes(asking_for("all_gather", "1K:2K"), 3),
              ElementsAre(1020, 2040));
  EXPECT_THAT(message_of<UsageError>(
                  [] { sizes(asking_for("all_to_all", "8:64"), 3); }),
              HasSubstr("one float32 for each of 3 ranks: 12 bytes"));
}

TEST(BenchOptions, ABarrierHasNoSizes) {
  auto barrier = asking_for("barrier", "");
  barrier.bytes.reset();
  EXPECT_THAT(sizes(barrier, 2), ElementsAre(0));
}

TEST(BenchOptions, WhatDoesNotFitIsToldClearly) {
  using Change = void (*)(BenchArguments&);
  struct Case {
    Change change;
    const char* text;
  };
  const std::vector<Case> cases = {
      {[](auto& a) { a.collective = "x"; }, "no collective 'x'; there are"},
      {[](auto& a) { a.backend = "x"; }, "no backend 'x'; there are auto"},
      {[](auto& a) { a.ranks = "0"; }, "1 or more"},
      {[](auto& a) { a.bytes = "2K:1K"; }, "the smaller one first"},
      {[](auto& a) { a.bytes = "6:12"; },
       "6 bytes are not one or more float32"},
      {[](auto& a) { a.bytes = "4:13"; }, "13 bytes are not one or more"},
      {[](auto& a) { a.bytes = "0"; }, "0 bytes are not one or more"},
      {[](auto& a) { a.step = 1; }, "--step must be above 1"},
      {[](auto& a) { a.dtype = "float"; }, "--dtype knows float32, float64"},
      {[](auto& a) { a.op = "avg"; }, "--op knows sum, average"},
      {[](auto& a) { a.op = "band"; }, "'band' is not defined for float32"},
      {[](auto& a) { a.root = 0; }, "all_reduce has no root"},
      {[](auto& a) { a.iterations = 0; }, "--iterations must be 1 or more"},
      {[](auto& a) { a.warmup = 0; }, "--warmup must be 1 or more"},
      {[](auto& a) { a.timeout = 0; }, "--timeout must be 1 or more"},
      {[](auto& a) { a.collective = "barrier"; }, "barrier moves no data"},
      {[](auto& a) {
         a.collective = "broadcast";
         a.op = "sum";
       },
       "broadcast reduces nothing"},
  };
  for (const Case& one : cases) {
    auto arguments = asking_for("all_reduce", "1K");
    one.change(arguments);
    EXPECT_THAT(message_of<UsageError>([&] { options_of(arguments); }),
                HasSubstr(one.text));
  }
}

TEST(BenchOptions, TheRootIsARank) {
  auto arguments = asking_for("broadcast", "1K");
  arguments.root = 2;
  EXPECT_THAT(message_of<UsageError>([&] { sizes(arguments, 2); }),
              HasSubstr("--root 2 is not in 0..1"));
}

}  // namespace
}  // namespace lockstep::tool
