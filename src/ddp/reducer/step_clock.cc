// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/step_clock.h"

#include <algorithm>

#include "lockstep/trace/trace.h"

namespace lockstep::detail {
namespace {

StepTimes::TimePoint point(int64_t ns) {
  return StepTimes::TimePoint(std::chrono::nanoseconds(ns));
}

}  // namespace

void StepClock::prepare(size_t parameters) {
  prepared_ns_ = trace::now_ns();
  ready_ns_.assign(parameters, prepared_ns_);
}

void StepClock::note_ready(size_t parameter) {
  ready_ns_[parameter] = trace::now_ns();
}

void StepClock::begin_backward(size_t buckets) {
  current_ = {};
  current_.backward.start = point(trace::now_ns());
  const bool reusable =
      flights_ && flights_->size() == buckets && flights_.use_count() == 1;
  if (!reusable) flights_ = std::make_shared<std::vector<Flight>>(buckets);
  for (Flight& one : *flights_) {
    one.launched_ns = 0;
    one.landed_ns = 0;
  }
}

void StepClock::launch(size_t bucket, int64_t launched_ns,
                       const Future<at::Tensor>& result) {
  if (!flights_) return;
  (*flights_)[bucket].launched_ns = launched_ns;
  result.on_ready([flights = flights_, bucket](const auto& /*result*/) {
    (*flights)[bucket].landed_ns = trace::now_ns();
  });
}

void StepClock::begin_waits() {
  waits_began_ns_ = trace::now_ns();
  current_.backward.end = point(waits_began_ns_);
}

bool StepClock::wait(const Future<at::Tensor>& result, Deadline deadline) {
  if (result.is_ready()) return true;
  const int64_t from = trace::now_ns();
  const bool came = result.wait(deadline);
  current_.exposed += std::chrono::nanoseconds(trace::now_ns() - from);
  return came;
}

void StepClock::end_waits() {
  trace::span("wait for buckets", "ddp", waits_began_ns_, trace::now_ns());
}

// Buckets are reduced one after the other: each from its launch, or from when
// the result of the bucket before was there.
void StepClock::end() {
  last_ready_.clear();
  for (const int64_t ready : ready_ns_) {
    last_ready_.emplace_back(ready - prepared_ns_);
  }
  if (!flights_ || flights_->empty()) return;
  int64_t first = 0;
  int64_t landed = 0;
  int64_t busy = 0;
  for (const Flight& one : *flights_) {
    if (one.launched_ns == 0) continue;  // skipped
    if (first == 0) first = one.launched_ns;
    const int64_t from = std::max(one.launched_ns.load(), landed);
    // A result may be seen a moment before its time has been written.
    const int64_t end = one.landed_ns;
    landed = std::max(end == 0 ? trace::now_ns() : end, landed);
    busy += std::max<int64_t>(landed - from, 0);
  }
  current_.communication.start = point(first);
  current_.communication.end = point(landed);
  current_.busy = std::chrono::nanoseconds(busy);
  last_ = current_;
  ++totals_.steps;
  totals_.busy += current_.busy;
  totals_.exposed += current_.exposed;
}

}  // namespace lockstep::detail
