// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/ready_counter.h"

#include <algorithm>

namespace lockstep::detail {

ReadyCounter::ReadyCounter(size_t parameters, bool static_graph,
                           int backwards_per_cycle)
    : static_(static_graph),
      backwards_per_cycle_(backwards_per_cycle),
      seen_(parameters),
      ready_(parameters) {}

void ReadyCounter::start_cycle() {
  backwards_ = 0;
  std::fill(seen_.begin(), seen_.end(), 0);
  std::fill(ready_.begin(), ready_.end(), false);
}

ReadyCounter::Verdict ReadyCounter::on_gradient(size_t parameter) {
  if (ready_[parameter]) return static_ ? Verdict::kChanged : Verdict::kTwice;
  ++seen_[parameter];
  if (!static_) {
    const bool last = backwards_ + 1 >= backwards_per_cycle_;
    return last ? Verdict::kReady : Verdict::kNotYet;
  }
  if (is_learning()) return Verdict::kNotYet;
  return seen_[parameter] == expected_[parameter] ? Verdict::kReady
                                                  : Verdict::kNotYet;
}

std::vector<size_t> ReadyCounter::missing() const {
  std::vector<size_t> indices;
  for (size_t i = 0; i < ready_.size(); ++i) {
    if (!ready_[i]) indices.push_back(i);
  }
  return indices;
}

std::vector<size_t> ReadyCounter::never_used() const {
  std::vector<size_t> never;
  for (size_t i = 0; i < expected_.size(); ++i) {
    if (expected_[i] == 0) never.push_back(i);
  }
  return never;
}

}  // namespace lockstep::detail
