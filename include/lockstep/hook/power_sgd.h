// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>

#include "lockstep/hook/comm_hook.h"

// PowerSGD: gradients travel as products of two thin matrices.
//
//   hooks::PowerSgdOptions options;
//   options.rank = 4;
//   options.start_iter = 500;
//   hooks::PowerSgd state(options);
//   ddp.register_comm_hook(state.hook());
//
// A gradient of `rows` x `cols` numbers is replaced by (rows + cols) * rank
// numbers: its best approximation of that rank, as found by one step of power
// iteration (Vogels, Karimireddy, Jaggi: PowerSGD, 2019). For a layer of
// 1024 x 1024 and rank 2 this is 1/256 of the bytes. What the approximation has
// left out is kept on each rank and added to the next gradient (error
// feedback), so in the long run nothing is lost.
//
// It pays where the network is slow compared to the processor, and where
// training bears approximate gradients. The first iterations, in which
// gradients change quickly, are averaged exactly.
namespace lockstep {

namespace detail {
class PowerSgdState;
}  // namespace detail

namespace hooks {

// All ranks choose the same.
struct PowerSgdOptions {
  // More is more accurate and sends more.
  int rank = 1;

  // So many reductions are plain averages first. More than 1 with error
  // feedback or warm start.
  int64_t start_iter = 1000;

  // A matrix is compressed if that saves at least this factor:
  // (rows + cols) * rank * min_compression_rate < rows * cols.
  double min_compression_rate = 2;

  // Add what was left out to the next gradient. Costs as much memory as the
  // gradients.
  bool error_feedback = true;

  // Begin with the directions that the last step has found, instead of random
  // ones.
  bool warm_start = true;

  // Added to the length of a column before the column is divided by it.
  double epsilon = 0;

  // Of the random directions. The program's own generators are not touched.
  uint64_t seed = 0;

  // A line in the log with the bytes saved, after so many reductions; 0: never.
  int64_t log_stats_every = 10000;

  // Multiply matrices of one shape together. Saves calls where a bucket has
  // many small matrices, and costs a copy of them.
  bool batch_same_shapes = false;
};

// What went through the hook since it has begun to compress.
struct PowerSgdStats {
  int64_t iterations = 0;          // all reductions, plain ones too
  int64_t bytes_uncompressed = 0;  // of dense gradients
  int64_t bytes_sent = 0;          // in their place
  // How many times fewer; 1 before anything was compressed.
  double compression_rate() const;
};

// The state of PowerSGD, which the hook and the program share: residuals, the
// directions found so far, and the number of reductions.
//
// Compressed are dense float32 gradients of two or more dimensions, taken as
// matrices of size(0) rows. All others are averaged as they are.
//
// State is kept by parameter, so it survives when buckets are rebuilt. On the
// first bucket with a new group, which comes with a new Reducer and after a
// reset, ranks compare their states in one small collective that blocks: the
// largest number of reductions counts for all, and if directions differ,
// because a step has failed on some ranks only, all begin with random ones
// again. Residuals are each rank's own and are kept.
//
// A step with infinite gradients or NaN gives NaN for the whole matrix, on all
// ranks, and leaves no trace in the state: a program may skip the update.
//
// Threads:   as for a Reducer: between steps, one thread at a time.
// Ownership: copies share one state, hooks keep it alive. For one Reducer at a
//            time, and for one of the two hooks.
// Errors:    UsageError for options that make no sense. MismatchError out of
//            backward when options differ between ranks.
class PowerSgd {
 public:
  explicit PowerSgd(PowerSgdOptions options = {});

  // A matrix for each parameter.
  CommHook hook();

  // A square matrix for each bucket, whatever its parameters: fewer and larger
  // messages, and much less accurate. Residuals are kept by parameter,
  // directions by bucket.
  CommHook batched_hook();

  const PowerSgdOptions& options() const;
  PowerSgdStats stats() const;

  // Between steps: writes and reads all of the state except options, without
  // any communication. Residuals differ, so each rank has a file of its own;
  // all ranks load. Training goes on as if it had not been interrupted.
  // Errors: SystemError when the stream cannot be written. UsageError for
  // anything that save() has not written; the state is as before.
  void save(std::ostream& out) const;
  void load(std::istream& in);

 private:
  std::shared_ptr<detail::PowerSgdState> state_;
};

// The same where nobody needs the state.
CommHook power_sgd(PowerSgdOptions options = {});
CommHook batched_power_sgd(PowerSgdOptions options = {});

}  // namespace hooks
}  // namespace lockstep
