// SPDX-License-Identifier: Apache-2.0
#include "bench_call.h"

#include <cstring>

#include <gmock/gmock.h>

#include "lockstep/backend/local.h"
#include "support/support.h"

namespace lockstep::tool {
namespace {

BenchOptions options_for(const Collective& collective, bool registered,
                         bool sync) {
  BenchOptions options;
  options.collective = collective;
  options.dtype = DType::kInt32;
  options.root = collective.has_root ? 1 : 0;
  options.registered = registered;
  options.sync = sync;
  return options;
}

// Whether this rank has a result to be wrong.
bool has_result(const BenchOptions& options, int rank) {
  const OpKind kind = options.collective.kind;
  if (kind == OpKind::kBarrier) return false;
  return (kind != OpKind::kReduce && kind != OpKind::kGather) ||
         rank == options.root;
}

void expect_finds_errors(const BenchOptions& options, int ranks) {
  constexpr size_t kBytes = 12000;
  const auto groups = make_local_groups(ranks);
  lockstep::testing::run_threads(ranks, [&](int rank) {
    ProcessGroup& group = *groups[static_cast<size_t>(rank)];
    const BenchMemory memory(options, group, kBytes);
    BenchCall call(options, group, memory, kBytes);
    call.prepare(7);
    if (has_result(options, rank) && ranks > 1) {
      const bool is_source =
          options.collective.kind == OpKind::kBroadcast && rank == options.root;
      EXPECT_EQ(call.wrong() > 0, !is_source) << "nothing has run yet";
    }
    call.run();
    EXPECT_EQ(call.wrong(), 0U);
    if (!has_result(options, rank)) return;
    const auto& result = options.collective.in_place ? memory.in : memory.out;
    result.data()[8] ^= std::byte{1};
    EXPECT_EQ(call.wrong(), 1U);
  });
}

TEST(BenchCall, RunsEveryCollectiveAndFindsAWrongElement) {
  for (const Collective& collective : all_collectives()) {
    SCOPED_TRACE(collective.name);
    for (const int ranks : {2, 3}) {
      expect_finds_errors(options_for(collective, false, true), ranks);
      expect_finds_errors(options_for(collective, true, false), ranks);
    }
  }
}

TEST(BenchCall, ARankAloneWorksToo) {
  for (const Collective& collective : all_collectives()) {
    SCOPED_TRACE(collective.name);
    BenchOptions options = options_for(collective, false, true);
    options.root = 0;
    expect_finds_errors(options, 1);
  }
}

}  // namespace
}  // namespace lockstep::tool
