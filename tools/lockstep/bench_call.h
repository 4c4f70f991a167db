// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench_data.h"
#include "bench_options.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/comm/registered_memory.h"

namespace lockstep::tool {

// The memory of one rank, for the largest size. Each rank has its own.
struct BenchMemory {
  // A collective when options.registered.
  BenchMemory(const BenchOptions& options, ProcessGroup& group, size_t bytes);

  RegisteredMemory in;
  RegisteredMemory out;  // empty for what works in place
};

// Memory of this process alone, at the beginning of a page.
// Errors: SystemError.
RegisteredMemory plain_memory(size_t bytes);

// One rank's end of a collective of `bytes`.
//
//   call.prepare(1);     // fills the inputs, spoils the outputs
//   call.run();          // every rank
//   call.wrong();        // elements that are not what they should be
//
// Without prepare() between, run() works on what the last one has left.
class BenchCall {
 public:
  BenchCall(const BenchOptions& options, ProcessGroup& group,
            const BenchMemory& memory, size_t bytes);

  void prepare(uint32_t seed);
  void run();
  size_t wrong() const;

 private:
  void send_in_a_ring(const CallOptions& call);
  Buffer part_of_rank(const Buffer& all, int rank) const;

  const BenchOptions& options_;
  ProcessGroup& group_;
  const size_t part_;  // elements; all where there are no parts
  Buffer in_;
  Buffer out_;
  BenchData data_;
};

}  // namespace lockstep::tool
