// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/process_group.h"
#include "lockstep/ddp/wrapped_model.h"
#include "lockstep/tensor/collectives.h"

namespace lockstep::detail {

// Keeps the buffers of all ranks like rank 0's, and sends only those that have
// changed on some rank.
//
// What a rank finds changed it tells the others during backward, by a small
// collective that hides behind the first bucket; the next forward sends the
// union. So all decide alike, and a change that backward did not see is sent
// one step later. Contents are compared, not versions: batch normalisation
// changes its running values without counting that as a change.
//
// Threads: one at a time.
class BufferSync {
 public:
  // Sends all buffers: at the start, and when somebody asks for it.
  void send_all(ProcessGroup& group, const NamedTensors& buffers);
  // Sends what ranks agreed on in the last backward; before the first, all.
  void before_forward(ProcessGroup& group, const NamedTensors& buffers);
  // Compares, and launches the agreement.
  void tell_changes(ProcessGroup& group);
  // The next forward sends all.
  void forget();

 private:
  void send(ProcessGroup& group, const std::vector<size_t>& which);

  std::vector<at::Tensor> buffers_;    // of the last forward, to compare
  std::vector<at::Tensor> targets_;    // and to write to
  std::vector<at::Tensor> snapshots_;  // what they were when they were sent
  at::Tensor flags_;                   // by buffer: changed on some rank
  WorkHandle agreement_;
};

}  // namespace lockstep::detail
