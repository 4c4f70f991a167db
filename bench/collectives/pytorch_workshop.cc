// SPDX-License-Identifier: Apache-2.0
// PyTorch, from Python: a script carries out the orders, and this hands them
// on. For collectives it is pytorch_worker.py, beside this.
#include <chrono>

#include "child_process.h"
#include "collectives/workshop.h"

using namespace std::chrono_literals;

namespace lockstep::bench {
namespace {

constexpr auto kStartTime = 60s;
constexpr auto kOrderTime = 50s;
constexpr const char* kPortKey = "pytorch/port";

class PyTorchWorkshop : public Workshop {
 public:
  explicit PyTorchWorkshop(const Place& place)
      : python_({PYTORCH_PYTHON, PYTORCH_SCRIPT, std::to_string(place.rank),
                 std::to_string(place.size), place.address,
                 std::to_string(place.spare_cpu),
                 // Rank 0 serves PyTorch's own store, on a port that is free.
                 place.rank == 0 ? "0" : to_string(place.store->get(kPortKey))},
                with_input()) {
    const auto deadline = Deadline::in(kStartTime);
    if (place.rank == 0) {
      place.store->set(kPortKey, python_.read_line(deadline));
    }
    settings_ = python_.read_line(deadline);
  }

  std::string settings() const override { return settings_; }

  std::string carry_out(const std::string& order) override {
    python_.write_line(order);
    return python_.read_line(Deadline::in(kOrderTime));
  }

 private:
  static ChildProcess::Options with_input() {
    ChildProcess::Options options;
    options.give_input = true;
    return options;
  }

  ChildProcess python_;
  std::string settings_;
};

}  // namespace

std::unique_ptr<Workshop> make_workshop(const Place& place) {
  return std::make_unique<PyTorchWorkshop>(place);
}

}  // namespace lockstep::bench
