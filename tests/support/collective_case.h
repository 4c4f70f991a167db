// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "support/pattern.h"

namespace lockstep::testing {

// The collectives that move data, as users call them.
enum class Collective {
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllGather,
  kGather,
  kScatter,
  kReduceScatter,
  kAllToAll,
  kAllReduceCoalesced,
  kAllGatherCoalesced,
  kReduceScatterCoalesced,
};
constexpr int kCollectiveCount = 11;

const char* to_text(Collective collective);
bool has_reduction(Collective collective);

// One call of a collective with data that can be checked.
struct CollectiveCase {
  Collective collective = Collective::kAllReduce;
  ReduceOp::Kind reduce = ReduceOp::kSum;
  DType dtype = DType::kFloat32;
  size_t count = 1;  // elements of one part, or of all where there are no parts
  bool in_place = false;  // where the collective has such a form
  bool unequal = false;   // parts of `count` and less, some of them empty
  int root = 0;
  uint32_t seed = 0;
};

std::string describe(const CollectiveCase& one);

// One rank's end of it: memory, the call, the check against the reference.
//
//   CaseRun run(one, group.rank(), group.size());
//   run.start(group)->wait();
//   EXPECT_EQ(run.problem(), "");
class CaseRun {
 public:
  // Its memory comes from `pool`, or from the heap.
  CaseRun(const CollectiveCase& one, int rank, int size,
          MemoryPool* pool = nullptr);

  std::shared_ptr<Work> start(ProcessGroup& group, CallOptions options = {});

  // What is wrong with the results, with inputs that should have stayed, or
  // with memory beyond; empty when nothing is.
  std::string problem();

  // No result has been written, not even a part of one.
  bool is_untouched();

 private:
  // One buffer, or one of several in a coalesced call.
  struct Piece {
    Pattern pattern;
    FencedMemory in_memory;
    FencedMemory out_memory;
    Buffer in;
    Buffer out;
  };

  Piece make_piece(size_t count, uint32_t seed) const;
  void make_in(Piece& piece, size_t count) const;
  void make_out(Piece& piece, size_t count) const;
  std::string problem_of(Piece& piece) const;
  std::string result_problem(const Piece& piece) const;
  std::string all_to_all_problem(const Piece& piece) const;
  bool has_result() const;
  bool is_coalesced() const;

  std::vector<size_t> counts_for(size_t count) const;
  size_t sent(int from, int to) const;
  size_t sent_before(int from, int to) const;
  std::vector<size_t> sent_by_me() const;
  std::vector<size_t> sent_to_me() const;

  const CollectiveCase case_;
  const int rank_;
  const int size_;
  MemoryPool* const pool_;
  std::vector<Piece> pieces_;
};

}  // namespace lockstep::testing
