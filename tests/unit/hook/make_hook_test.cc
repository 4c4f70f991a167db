// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/make_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::by_name {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace lockstep::testing;

std::string refusal_of(const std::string& text) {
  return message_of<UsageError>([&] { hooks::make(text); });
}

TEST(MakeHook, KnowsEveryBuiltinByNameAndByEnum) {
  const auto& names = hooks::names();
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(hooks::make(names[i]).name(), names[i]);
    EXPECT_EQ(hooks::make(static_cast<hooks::Builtin>(i)).name(), names[i]);
  }
  EXPECT_EQ(names[static_cast<size_t>(hooks::Builtin::kAutoCompress)],
            "auto_compress");
  EXPECT_EQ(names.back(), "auto_compress");
}

TEST(MakeHook, ReadsOptionsAndInnerHooks) {
  for (const char* text :
       {"quantize:bits=4,block=256,error_feedback=false,seed=7",
        "sign:block=1024,error_feedback=true", "top_k:ratio=0.5",
        "power_sgd:rank=2,start_iter=100,min_compression_rate=1.5",
        "batched_power_sgd:rank=1,start_iter=2,warm_start=0",
        "post_local_sgd:start_iter=5,reduce_locally=false",
        "fp16_compress(all_reduce)", "bf16_compress(noop)",
        "auto_compress(fp16_compress|quantize:bits=4,block=64|"
        "bf16_compress(all_reduce))"}) {
    EXPECT_EQ(hooks::make(text).name(), text);
  }
}

TEST(MakeHook, WorksAsARegisteredHook) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    reducer.register_comm_hook(hooks::make("bf16_compress"));
    EXPECT_EQ(reducer.comm_hook_name(), "bf16_compress");
    step(reducer, parameters, group->rank());
    EXPECT_TRUE(is_all(parameters[0].grad(), 1.5));
  });
}

TEST(MakeHook, AnswersAnUnknownNameOrOptionWithTheNearest) {
  EXPECT_THAT(refusal_of("power_sdg"), HasSubstr("did you mean 'power_sgd'?"));
  EXPECT_THAT(refusal_of("quantise:bits=4"),
              HasSubstr("did you mean 'quantize'?"));
  EXPECT_THAT(refusal_of("quantize:bit=4"),
              AllOf(HasSubstr("no option 'bit'"), HasSubstr("'bits'?")));
  EXPECT_THAT(refusal_of("noop:x=1"), HasSubstr("has none"));
  EXPECT_THAT(refusal_of("auto_compress(fp16_compres)"),
              HasSubstr("did you mean 'fp16_compress'?"));
}

TEST(MakeHook, RefusesValuesThatAreNone) {
  EXPECT_THAT(refusal_of("quantize:bits=four"),
              HasSubstr("bits is 'four'; expected a whole number"));
  EXPECT_THAT(refusal_of("quantize:bits=8x"), HasSubstr("bits is '8x'"));
  EXPECT_THAT(refusal_of("quantize:seed=-1"), HasSubstr("not negative"));
  EXPECT_THAT(refusal_of("quantize:bits="), HasSubstr("bits is ''"));
  EXPECT_THAT(refusal_of("top_k:error_feedback=maybe"),
              HasSubstr("expected true or false"));
  EXPECT_THAT(refusal_of("quantize:bits=3"), HasSubstr("bits is 3"));
  EXPECT_THAT(refusal_of("top_k:ratio=0"), HasSubstr("ratio is 0"));
  EXPECT_THAT(refusal_of("power_sgd:rank=0"), HasSubstr("rank is 0"));
  EXPECT_THAT(refusal_of("power_sgd:start_iter=1"), HasSubstr("start_iter"));
}

TEST(MakeHook, RefusesTextsThatCannotBeTakenApart) {
  EXPECT_THAT(refusal_of(""), HasSubstr("has no name"));
  EXPECT_THAT(refusal_of(":bits=4"), HasSubstr("has no name"));
  EXPECT_THAT(refusal_of("quantize:bits"), HasSubstr("expected NAME=VALUE"));
  EXPECT_THAT(refusal_of("quantize:"), HasSubstr("expected NAME=VALUE"));
  EXPECT_THAT(refusal_of("quantize:bits=4,"), HasSubstr("expected NAME=VALUE"));
  EXPECT_THAT(refusal_of("quantize:bits=4,bits=8"), HasSubstr("given twice"));
  EXPECT_THAT(refusal_of("auto_compress(noop"), HasSubstr("no ')'"));
  EXPECT_THAT(refusal_of("quantize(noop)"), HasSubstr("takes no hook"));
  EXPECT_THAT(refusal_of("fp16_compress(noop|noop)"), HasSubstr("one hook"));
  EXPECT_THAT(refusal_of("auto_compress()"), HasSubstr("has no name"));
}

}  // namespace
}  // namespace lockstep::by_name
