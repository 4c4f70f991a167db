// SPDX-License-Identifier: Apache-2.0
// One rank of ours: trains as it is ordered to. A trainer is made by the first
// order of its kind and kept, so that those to be compared live in the same
// processes.
#include "collectives/workshop.h"

#include <ctime>

#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "ddp/step_order.h"
#include "ddp/trainer.h"
#include "lockstep/backend/init.h"
#include "lockstep/base/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of_processor() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

// Bytes that have left this host; none when all ranks are on one.
double sent_bytes(const std::string& interface) {
  if (interface == "lo") return 0;
  // Ours by the namespace: /sys would show the machine's own.
  std::ifstream lines("/proc/self/net/dev");
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(' ');
    if (line.substr(begin, colon - begin) != interface) continue;
    constexpr int kSentColumn = 8;
    std::istringstream numbers(line.substr(colon + 1));
    double number = 0;
    for (int column = 0; column <= kSentColumn; ++column) numbers >> number;
    LOCKSTEP_CHECK(!numbers.fail(), InternalError, "cannot read: {}", line);
    return number;
  }
  throw UsageError("there is no interface " + interface);
}

bool is_collective(const trace::Event& event) {
  return std::strcmp(event.category, "comm") == 0 &&
         event.arg_key[0] != nullptr &&
         std::strcmp(event.arg_key[0], "sequence") == 0;
}

// Sums of recorded spans: waiting at the end of backward, and the lane's.
void add_spans(StepTimes& times) {
  double wait = 0;
  for (const auto& thread : trace::snapshot()) {
    for (const auto& event : thread.events) {
      if (event.kind != trace::EventKind::kSpan) continue;
      const double seconds = static_cast<double>(event.duration_ns) * 1e-9;
      if (std::strcmp(event.name, "wait for buckets") == 0) {
        wait += seconds;
      } else if (std::strcmp(event.name, "local step") == 0) {
        times.local_steps += seconds;
      } else if (is_collective(event)) {
        times.lane += seconds;
      }
    }
  }
  times.wait = times.longest_wait = wait;
}

class StepWorkshop : public Workshop {
 public:
  explicit StepWorkshop(const Place& place) : interface_(place.interface) {
    at::set_num_threads(1);
    InitOptions options;
    options.backend = place.variant;
    options.timeout = std::chrono::minutes(1);
    options.store = place.store;
    options.rank = place.rank;
    options.size = place.size;
    world_ = init(options);
  }

  std::string settings() const override {
    return fmt::format("backend {}, {} thread of torch's",
                       world_->backend_name(), at::get_num_threads());
  }

  std::string carry_out(const std::string& text) override {
    const StepOrder order = parse_step_order(text);
    Trainer& trainer = trainer_for(order);
    StepTimes times;
    trainer.run(1, times);  // its data are in the caches now, not another's
    times = {};
    CallOptions sync;
    sync.sync = true;
    trace::clear();
    world_->barrier(sync);
    if (order.traced) trace::start();
    const double sent = sent_bytes(interface_);
    const double processor = seconds_of_processor();
    const auto begin = Clock::now();
    trainer.run(order.steps, times);
    times.step = std::chrono::duration<double>(Clock::now() - begin).count();
    times.processor = seconds_of_processor() - processor;
    times.wire_bytes = sent_bytes(interface_) - sent;
    if (order.traced) {
      trace::stop();
      add_spans(times);
    }
    return to_text(times / order.steps);
  }

 private:
  Trainer& trainer_for(StepOrder kind) {
    kind.steps = 0;  // not a property of the trainer
    kind.traced = false;
    auto& trainer = trainers_[to_text(kind)];
    if (!trainer) trainer = make_trainer(kind, world_);
    return *trainer;
  }

  const std::string interface_;
  std::shared_ptr<ProcessGroup> world_;
  std::map<std::string, std::unique_ptr<Trainer>> trainers_;
};

}  // namespace

std::unique_ptr<Workshop> make_workshop(const Place& place) {
  return std::make_unique<StepWorkshop>(place);
}

}  // namespace lockstep::bench
