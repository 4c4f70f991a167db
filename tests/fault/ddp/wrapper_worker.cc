// SPDX-License-Identifier: Apache-2.0
// A program that trains a wrapped module, for tests of how it ends:
//
//   lockstep run -n 3 -- wrapper_worker VICTIM STEP
//
// Rank VICTIM kills itself in that step, with its buckets half sent. The others
// print their error and exit with 1; they do not heed SIGTERM, so that it is
// their own error that ends them.
#include <csignal>
#include <iostream>
#include <string>

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <unistd.h>

#include "lockstep/backend/init.h"
#include "lockstep/base/error.h"
#include "lockstep/ddp/distributed_data_parallel.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::signal(SIGTERM, SIG_IGN);
  const int victim = std::stoi(argv[1]);
  const int last_step = std::stoi(argv[2]);
  const auto world = lockstep::init();
  torch::nn::Sequential net(torch::nn::Linear(100, 300),
                            torch::nn::Linear(300, 300),
                            torch::nn::Linear(300, 1));
  lockstep::DdpOptions options;
  options.bucket_caps_bytes = {100'000};
  lockstep::DistributedDataParallel ddp(net, world, options);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  try {
    for (int step = 1;; ++step) {
      if (step == last_step && world->rank() == victim) {
        // Its gradient comes after those of the layers behind it.
        net->parameters()[2].register_hook([](const at::Tensor& grad) {
          ::kill(::getpid(), SIGKILL);
          return grad;
        });
      }
      optimizer.zero_grad();
      ddp(at::ones({8, 100})).pow(2).mean().backward();
      optimizer.step();
      if (step == last_step) std::cout << "too far" << std::endl;
    }
  } catch (const lockstep::PeerError& error) {
    std::cout << "step of rank " << world->rank() << " ended: " << error.what()
              << std::endl;
    return 1;
  }
}
