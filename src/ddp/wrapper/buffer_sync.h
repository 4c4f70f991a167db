// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/process_group.h"
#include "lockstep/ddp/wrapped_model.h"
#include "lockstep/tensor/collectives.h"

namespace lockstep::detail {

// Keeps the buffers of all ranks equal to rank 0's, and sends only the buffers
// that have changed on some rank.
//
// During backward each rank tells the others which buffers have changed, by a
// small collective that runs beside the first bucket; the next forward sends
// every buffer that has changed on any rank. So all ranks send the same
// buffers, and a change after this comparison is sent one step later. Contents
// are compared, not versions: batch normalisation changes its running values
// without a new version.
//
// Threads: one at a time.
class BufferSync {
 public:
  // Sends all buffers: at the start, and when the program asks for it.
  void send_all(ProcessGroup& group, const NamedTensors& buffers);
  // Sends the buffers that have changed, as the last backward found; all
  // buffers before the first backward.
  void before_forward(ProcessGroup& group, const NamedTensors& buffers);
  // Compares the buffers and launches the collective that tells the others.
  void tell_changes(ProcessGroup& group);
  // The next forward sends all.
  void forget();

 private:
  void send(ProcessGroup& group, const std::vector<size_t>& which);

  std::vector<at::Tensor> buffers_;    // of the last forward, to compare
  std::vector<at::Tensor> targets_;    // the same buffers, to write to
  std::vector<at::Tensor> snapshots_;  // copies from when they were last sent
  at::Tensor flags_;                   // by buffer: changed on some rank
  WorkHandle agreement_;
};

}  // namespace lockstep::detail
