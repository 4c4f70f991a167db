// SPDX-License-Identifier: Apache-2.0
// What a rank of rank_worker does when another one is stopped in the middle of
// a sum: it is told so, goes on with the others, and later, when the stopped
// one goes on as well, finds all its values as they were.
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "support/pattern.h"
#include "support/rank_worker.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 2s;
constexpr size_t kCount = size_t{4} << 20;

using Words = std::vector<int32_t>;

Buffer all_of(const RegisteredMemory& memory) {
  return memory.buffer(DType::kInt32, kCount);
}

Words copy_of(const RegisteredMemory& memory) {
  const auto* const begin = static_cast<const int32_t*>(all_of(memory).data);
  return Words(begin, begin + kCount);
}

// Sums until that is not possible any more, and returns who was missing.
int sum_until_error(ProcessGroup& group, Words& ordinary) {
  try {
    const RegisteredMemory memory = group.allocate(kCount * sizeof(int32_t));
    group.barrier()->wait();
    say("ready");
    CallOptions options;
    options.timeout = kPatience;
    while (true) {
      group.all_reduce(all_of(memory), ReduceOp::kSum, options)->wait();
      group.all_reduce(buffer_of(ordinary), ReduceOp::kMax, options)->wait();
    }
  } catch (const Error& error) {
    tell(error);
    return error.kind() == ErrorKind::kTimeout ? error.context().peer : -1;
  }
}

// One sum on new memory, its values checked.
void sum_once(ProcessGroup& group, const RegisteredMemory& memory,
              uint32_t seed) {
  const Pattern pattern(DType::kInt32, ReduceOp::kSum, group.size(), seed);
  pattern.fill_input(all_of(memory), group.rank());
  group.all_reduce(all_of(memory))->wait();
  const std::string problem = pattern.reduced_problem(all_of(memory));
  LOCKSTEP_CHECK(problem.empty(), InternalError, "{}", problem);
}

// The first rank asks, so that all end in the same round.
bool has_gone_on(ProcessGroup& group, Store& store) {
  std::vector<int32_t> answer = {0};
  if (group.rank() == 0 && store.check({"continued"})) answer = {1};
  group.broadcast(buffer_of(answer), 0)->wait();
  return answer[0] == 1;
}

}  // namespace

void sum_and_move_on(const Seat& seat, uint32_t seed) {
  auto group = join(seat, "all");
  Words ordinary(kCount, seat.rank);
  const int stopped = sum_until_error(*group, ordinary);
  if (stopped < 0) return;  // this is the one that was stopped
  const Words ordinary_then = ordinary;
  if (seed % 2 == 0) group.reset();  // both must do: keep it, or let it go

  Seat mine = seat;
  mine.rank -= seat.rank > stopped ? 1 : 0;
  mine.size -= 1;
  const auto rest = join(mine, "rest");
  const RegisteredMemory kept = rest->allocate(kCount * sizeof(int32_t));
  const RegisteredMemory moving = rest->allocate(kCount * sizeof(int32_t));
  sum_once(*rest, kept, seed);
  const Words kept_then = copy_of(kept);
  sum_once(*rest, moving, seed);
  say("moved on");
  for (uint32_t round = 0; !has_gone_on(*rest, *seat.store); ++round) {
    sum_once(*rest, moving, round);
  }
  sum_once(*rest, moving, seed);
  LOCKSTEP_CHECK(ordinary == ordinary_then, InternalError,
                 "ordinary memory has changed");
  LOCKSTEP_CHECK(copy_of(kept) == kept_then, InternalError,
                 "registered memory of the new group has changed");
  rest->shutdown(Deadline::in(60s));
}

}  // namespace lockstep::testing
