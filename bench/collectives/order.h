// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace lockstep::bench {

// What the workers of a team are to do, all of them at the same time.
enum class Task {
  kAllReduce,
  kLaunch,  // an all-reduce too: launched, then waited for
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kCopy,           // no collective: each rank copies memory of its own
  kCompute,        // no collective: rank 0 computes
  kComputeBeside,  // the same while an all-reduce waits for a late peer
};

// As in the JSON: kLaunch is an "all_reduce", and so is what compares with one.
const char* collective_of(Task task);

// One order from the driver to its workers, as a line of text between them.
struct Order {
  Task task = Task::kAllReduce;
  bool registered = false;  // memory of the group's own; else any memory
  size_t bytes = 0;         // of the largest buffer of a rank
  int times = 1;            // how many operations
  bool single = false;      // each timed by itself, for median and p99
};

// What a worker answers: seconds per operation, as its rank saw it.
struct Answer {
  double mean = 0;
  double median = 0;  // these two of single ones only
  double p99 = 0;
};

// Errors: PeerError for a text that is none.
std::string to_text(const Order& order);
Order parse_order(const std::string& text);
std::string to_text(const Answer& answer);
Answer parse_answer(const std::string& text);

// Where they meet: queues in the driver's store. Waiting there costs no
// processor time, so a team that has nothing to do disturbs nobody.
std::string order_queue(int rank);  // an empty order is the last
constexpr const char* kTeamSecret = "the same for all, who are on one machine";
constexpr const char* kAnswerQueue = "answers";
constexpr const char* kErrorMark = "error: ";  // an answer that begins so

// In the environment of a worker: the interface to reach the other ranks by.
// All who use Gloo look there.
constexpr const char* kInterfaceVariable = "GLOO_SOCKET_IFNAME";

}  // namespace lockstep::bench
