// SPDX-License-Identifier: Apache-2.0
// A rank of rank_worker in a cell of the fault matrix: the script is there, and
// here is how a process plays it.
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "fault/matrix/script.h"
#include "support/rank_worker.h"

namespace lockstep::testing {
namespace {

class ProcessStage : public faults::Stage {
 public:
  void say(const std::string& line) override { testing::say(line); }

  void await(const std::string& cue) override {
    while (next_line() != cue) {
    }
  }

  bool has_cue() override {
    if (heard_.find('\n') != std::string::npos) return true;
    pollfd input{0, POLLIN, 0};
    return ::poll(&input, 1, 0) > 0;
  }

 private:
  std::string next_line() {
    size_t end = 0;
    while ((end = heard_.find('\n')) == std::string::npos) {
      char chunk[256];
      const ssize_t got = ::read(0, chunk, sizeof chunk);
      if (got <= 0) ::_exit(1);  // the director is gone
      heard_.append(chunk, static_cast<size_t>(got));
    }
    std::string line = heard_.substr(0, end);
    heard_.erase(0, end + 1);
    return line;
  }

  std::string heard_;
};

// Everything takes its time through this one, so that the others wait for its
// rank at each step of making a group.
class SlowStore : public Store {
 public:
  explicit SlowStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}

 private:
  StoreReply execute(StoreRequest request, Deadline deadline) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return store_->call(std::move(request), deadline);
  }

  const std::shared_ptr<Store> store_;
};

}  // namespace

void play_fault(const Seat& seat, const std::string& encoded) {
  const auto part = faults::Part::decode(encoded);
  ProcessStage stage;
  Seat mine = seat;
  const bool visited = part.fault == faults::Fault::kPortStolen ||
                       part.fault == faults::Fault::kGarbage;
  if (visited && seat.rank == part.culprit) {
    mine.store = std::make_shared<SlowStore>(seat.store);
  }
  faults::play(part, seat.rank, stage, [&](Deadline::Duration timeout) {
    return join(mine, "world", timeout);
  });
}

}  // namespace lockstep::testing
