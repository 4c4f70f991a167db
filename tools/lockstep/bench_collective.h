// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/collective/collective_op.h"

namespace lockstep::tool {

// What `lockstep bench` can measure, and what the figures in its table mean.
//
// The size S of a row is the larger of a rank's two buffers: for all_gather the
// output, for reduce_scatter the input, with a part for each rank in it.
struct Collective {
  const char* name;
  OpKind kind;  // kSend: a ring, in which all send to the next rank at once
  bool reduces;
  bool has_root;
  bool has_parts;  // S is divided among the ranks
  bool in_place;   // it has one buffer
};

// Errors: UsageError lists those that there are.
const Collective& collective_of(const std::string& name);
const std::vector<Collective>& all_collectives();

// What a rank's link must carry for each byte of S, by the best algorithm:
// bus bandwidth is S / time times this, and can be compared with the speed of
// the hardware whatever the number of ranks.
double bus_factor(const Collective& collective, int ranks);

// How many times S must be read and written on a host with all the ranks:
// each input byte once and each output byte once. 2·ranks for all_reduce.
double moved_factor(const Collective& collective, int ranks);

// The figures of one row.
struct Speed {
  double algorithm_gbs = 0;  // S / time, in 10^9 bytes per second
  double bus_gbs = 0;
  // Bytes that must be moved, per second, by what the ranks reach when each
  // copies a buffer of S bytes at the same time. 0: not measured.
  double efficiency = 0;
};

// `copy_seconds` is what one such copy takes; 0: not measured.
Speed speed_of(const Collective& collective, int ranks, size_t bytes,
               double seconds, double copy_seconds);

}  // namespace lockstep::tool
