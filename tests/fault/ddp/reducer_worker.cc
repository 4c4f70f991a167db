// SPDX-License-Identifier: Apache-2.0
// A rank that trains, for tests that kill one in the middle of backward:
//
//   reducer_worker STORE RANK SIZE kill|interleaved VICTIM BACKEND
//
// `interleaved` steps inside of backward, on a second lane.
//
// In its fifth backward, when some buckets are on their way and others are not,
// rank VICTIM kills itself. The others say "backward" when that is where their
// error came from, and then the error, as ending.h has it.
#include <csignal>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <unistd.h>

#include "lockstep/backend/init.h"
#include "lockstep/base/error.h"
#include "lockstep/ddp/reducer.h"
#include "lockstep/store/tcp_store.h"
#include "support/ending.h"
#include "support/interleaved_step.h"

namespace {

void say(const std::string& line) {
  const std::string whole = line + "\n";
  if (::write(1, whole.data(), whole.size()) < 0) ::_exit(1);
}

std::shared_ptr<lockstep::ProcessGroup> join(char** argv) {
  lockstep::InitOptions options;
  options.store = std::make_shared<lockstep::TcpStore>(
      "127.0.0.1", static_cast<uint16_t>(std::stoi(argv[1])), "");
  options.rank = std::stoi(argv[2]);
  options.size = std::stoi(argv[3]);
  options.backend = argv[6];
  options.timeout = std::chrono::seconds(60);
  return lockstep::init(options);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const auto group = join(argv);
  const int victim = std::stoi(argv[5]);
  std::vector<at::Tensor> parameters;
  parameters.reserve(6);
  for (int i = 0; i < 6; ++i) {
    parameters.push_back(at::ones({100'000}).set_requires_grad(true));
  }
  lockstep::ReducerOptions options;
  options.bucket_caps_bytes = {100'000};
  lockstep::Reducer reducer(parameters, group, options);
  if (std::string(argv[4]) == "interleaved") {
    reducer.register_comm_hook(lockstep::testing::InterleavedStep(1e-6));
  }
  say("ready");
  for (int step = 1;; ++step) {
    reducer.prepare_for_forward();
    at::Tensor x = at::ones({100'000});
    for (size_t i = 0; i < parameters.size(); ++i) {
      x = x * parameters[i];
      if (i != 3 || step != 5 || group->rank() != victim) continue;
      x.register_hook([](const at::Tensor& grad) {
        ::kill(::getpid(), SIGKILL);
        return grad;
      });
    }
    const at::Tensor loss = x.sum();
    reducer.prepare_for_backward({loss});
    try {
      loss.backward();
    } catch (const lockstep::Error& error) {
      say("backward");
      say(lockstep::testing::line_of(error));
      return 0;
    }
    for (const at::Tensor& one : parameters) one.grad().zero_();
  }
}
