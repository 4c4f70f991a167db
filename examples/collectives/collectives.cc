// SPDX-License-Identifier: Apache-2.0
// Four ranks, as threads of one process, average their numbers.
#include <cstdio>
#include <thread>
#include <vector>

#include <lockstep/comm.h>

namespace {

void one_rank(lockstep::ProcessGroup& world) {
  std::vector<float> x(1000, static_cast<float>(world.rank()));

  // Launch, compute meanwhile, then wait: an error is thrown here.
  auto work =
      world.all_reduce(lockstep::buffer_of(x), lockstep::ReduceOp::kAverage);
  work->wait();

  // Everybody tells the next rank something, past the collectives.
  int mine = world.rank();
  int received = -1;
  world.send(lockstep::buffer_of(&mine, 1), (world.rank() + 1) % world.size());
  auto message = world.recv_any(lockstep::buffer_of(&received, 1));
  message->wait();

  // A barrier, so that lines come in the order of ranks.
  for (int turn = 0; turn < world.size(); ++turn) {
    if (turn == world.rank()) {
      std::printf("rank %d of %d: the average is %g, and rank %d wrote %d\n",
                  world.rank(), world.size(), static_cast<double>(x[0]),
                  message->source_rank(), received);
    }
    world.barrier()->wait();
  }
}

}  // namespace

int main() {
  lockstep::InitOptions options;
  options.ranks_in_process = 4;
  auto worlds = lockstep::init_ranks(options);

  std::vector<std::thread> threads;
  for (auto& world : worlds) {
    threads.emplace_back([&world] { one_rank(*world); });
  }
  for (auto& thread : threads) thread.join();
}
