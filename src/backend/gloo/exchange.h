// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "backend/gloo/board.h"
#include "backend/gloo/bulk.h"
#include "backend/gloo/wire.h"
#include "lockstep/collective/collective_op.h"

namespace lockstep::detail {

// Where the ways part.
struct GlooTuning {
  size_t short_bytes;   // what is at most so long travels on the wire
  size_t window_bytes;  // longer reductions go in windows of this size
};

// Every rank gives every other something: the one pattern of which the
// collectives are made.
//
// What is short travels on the wire together with the words by which ranks find
// out whether they mean the same; what is long follows through Gloo, once they
// have.
//
// Threads: one at a time.
class Exchange {
 public:
  // The longest that one rank tells another in one step.
  static constexpr size_t kMostPart = size_t{8} << 20;

  Exchange(Board& board, Wire& wire, Bulk& bulk, GlooTuning tuning)
      : board_(board), wire_(wire), bulk_(bulk), tuning_(tuning) {}

  int rank() const { return board_.rank(); }
  int size() const { return board_.size(); }
  const GlooTuning& tuning() const { return tuning_; }
  Bulk& bulk() { return bulk_; }

  // What the others said in one step.
  class Parts {
   public:
    // What `peer` had for this rank; empty where move() has taken another way.
    ConstBytes payload(int peer) const;
    // How much `peer` has for this rank, short or long.
    size_t bytes(int peer) const;
    // The factor of each rank, for ReduceOp::premul_sum.
    std::vector<double> factors(const CollectiveOp& own, int rank) const;

   private:
    friend class Exchange;
    std::vector<ByteVector> messages_;
  };

  // Returns when all ranks have called it, also if one of them has failed
  // since.
  void meet(Patience& patience);

  // Sends each peer its entry of `to` on the wire, and hears all others. Steps
  // of an operation are counted from 0.
  // Errors: MismatchError on all ranks when they do not mean the same; those of
  //         Board::take_parts.
  Parts talk(const CollectiveOp& op, uint32_t step, Patience& patience,
             const std::vector<ConstBytes>& to);

  // Moves to[p] of this rank to from[this] of rank p, of any length. Entries
  // for this rank itself are not looked at.
  void move(const CollectiveOp& op, uint32_t step, Patience& patience,
            const std::vector<ConstBytes>& to, const std::vector<Bytes>& from);

 private:
  Parts talk_shortly(const CollectiveOp& op, uint32_t step, Patience& patience,
                     const std::vector<ConstBytes>& to, size_t most);
  std::vector<ByteVector> take_parts(Patience& patience);
  bool is_long(ConstBytes bytes) const {
    return bytes.size() > tuning_.short_bytes;
  }

  Board& board_;
  Wire& wire_;
  Bulk& bulk_;
  const GlooTuning tuning_;
};

}  // namespace lockstep::detail
