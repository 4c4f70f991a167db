// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/collective/types.h"

// One collective as data: what a group hands to its backend, and the words by
// which ranks find out whether they mean the same one.
namespace lockstep {

enum class OpKind : uint8_t {
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllGather,
  kGather,
  kScatter,
  kReduceScatter,
  kAllToAll,
  kBarrier,
  kAllocate,  // registered memory
  kSend,      // these three are no collectives: they have no sequence number
  kRecv,
  kLocalStep,  // ProcessGroup::post
};

const char* to_text(OpKind kind);

// What all ranks must say alike about a collective. It is a few words without
// pointers, so that a backend can send it ahead of the data or put it into
// shared memory as it is.
struct Signature {
  static constexpr int kMostDims = 6;

  uint64_t sequence = 0;
  uint64_t counts_hash = 0;  // of the elements per rank, where those are given
  std::array<int64_t, kMostDims> dims{};
  int32_t root = -1;
  OpKind kind = OpKind::kBarrier;
  DType dtype = DType::kFloat32;
  ReduceOp::Kind reduce = ReduceOp::kSum;
  uint8_t dim_count = 0;

  // The shape; dimensions beyond the last place are multiplied into it.
  void set_dims(const int64_t* sizes, size_t count);
};
bool operator==(const Signature& a, const Signature& b);
inline bool operator!=(const Signature& a, const Signature& b) {
  return !(a == b);
}

// All of it in one word: equal signatures have equal digests, and differing
// ones do not meet by chance.
uint64_t digest_of(const Signature& signature);

// A hash of a list of numbers that ranks must agree on; 0 for no list.
uint64_t agreement_of(const std::vector<size_t>& numbers);

// As a person would say it: "all_reduce #4 (sum) of float32 [2, 3]".
std::string describe(const Signature& signature);

// Says who called what. `signatures` has one entry per rank.
// Throws MismatchError.
[[noreturn]] void throw_mismatch(const std::vector<Signature>& signatures);

// For all_to_all with given parts: checks that what each rank has for another,
// given(from, to), is what that one expects, expected(by, from). All ranks know
// all numbers, so all find the same mistake. Throws MismatchError.
using SplitCount = std::function<size_t(int, int)>;
void check_splits(int size, const SplitCount& given,
                  const SplitCount& expected);

// One collective. Everything in it has been checked on this rank.
//
// Which of the buffers count, and where:
//   all_reduce       in, out: all elements (in may be out)
//   broadcast        out: at the root the source, elsewhere the target
//   reduce           in; out at the root
//   all_gather       in: this rank's part; out: all parts by rank
//   gather           in: this rank's part; out at the root: all parts
//   scatter          in at the root: all parts; out: this rank's part
//   reduce_scatter   in: all parts; out: this rank's part, reduced
//   all_to_all       in: a part for each rank; out: a part from each rank
//
// Parts are equal, unless `in_counts` or `out_counts` say how many elements
// belong to each rank.
struct CollectiveOp {
  OpKind kind = OpKind::kBarrier;
  Buffer in;
  Buffer out;
  ReduceOp reduce;
  int root = -1;
  std::vector<size_t> in_counts;
  std::vector<size_t> out_counts;
  Signature signature;
};

// The part of a rank among all.
struct Part {
  size_t offset = 0;
  size_t count = 0;
};

// Part `rank` of `total` elements: by `counts`, or equal when that is empty.
Part part_of(const std::vector<size_t>& counts, size_t total, int rank,
             int size);

// A slice of `total` for each rank that begins on a cache line of its own, so
// that ranks writing side by side do not disturb each other. The last ones may
// be shorter or empty.
Part slice_of(size_t total, DType dtype, int rank, int size);

}  // namespace lockstep
