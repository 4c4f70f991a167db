// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::bench {

// What the ranks of a team are to train, all of them at the same time; as a
// line of text between driver and worker, in the order of these fields.
// pytorch_worker.py reads it too.
struct StepOrder {
  std::string model;  // as in models.h
  int64_t batch = 1;  // of one rank
  // local     no communication
  // overlap   data-parallel, buckets leave while backward runs
  // after     the same with one bucket, which leaves when backward is done
  // exchange  no training: all buckets are reduced, launched at once
  std::string mode = "local";
  int64_t bucket_bytes = 0;  // of all buckets; 0: as the library does it
  // For hooks::make(), and the same one of PyTorch's where there is one; of
  // overlap and after.
  std::string hook = "all_reduce";
  // keep      gradients are set to zero in place
  // drop      they are dropped, and the next backward makes new ones
  std::string gradients = "drop";
  int steps = 1;
  bool traced = false;  // waits and the lane's times are wanted, ours only
};

// Seconds of a step, the mean of all steps of an order. Of PyTorch's only
// `step` and `processor` are known, the rest is 0.
struct StepTimes {
  double step = 0;
  // Of which:
  double zero = 0;  // zeroing or dropping gradients
  double forward = 0;
  double backward = 0;
  double update = 0;
  // Of backward: waiting for buckets, when all is computed. Once as the rank
  // says that waits least, the one that computed longest: the others have to
  // wait for it, whatever communication does. And as the one that waits most.
  double wait = 0;
  double longest_wait = 0;
  // Beside it: the lane has a collective, and carries it out or waits for
  // others; it carries out local steps, such as the arithmetic of a hook;
  // processor time of the whole process.
  double lane = 0;
  double local_steps = 0;
  double processor = 0;
  // No seconds: what left the host of a rank, with headers and answers, as the
  // kernel counts it; 0 where all ranks are on one host.
  double wire_bytes = 0;
};

// Errors: PeerError for a text that is none.
std::string to_text(const StepOrder& order);
StepOrder parse_step_order(const std::string& text);
std::string to_text(const StepTimes& times);
StepTimes parse_step_times(const std::string& text);

StepTimes operator+(StepTimes a, const StepTimes& b);
StepTimes operator/(StepTimes times, double divisor);
// Of each part what the slowest rank says, but see `wait`.
StepTimes slowest(const std::vector<std::string>& answers);

}  // namespace lockstep::bench
