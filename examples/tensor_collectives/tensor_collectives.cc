// SPDX-License-Identifier: Apache-2.0
// Two ranks, as threads, average a tensor, and add up sparse gradients.
#include <iostream>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <lockstep/lockstep.h>

namespace {

void one_rank(lockstep::ProcessGroup& world) {
  // Any strides: the transposed tensor is averaged where it is.
  const at::Tensor weights = at::full({2, 3}, world.rank() + 1.0).t();
  lockstep::all_reduce(world, weights, lockstep::ReduceOp::kAverage)->wait();

  // Each rank has touched another row of a table of five.
  const at::Tensor rows = at::full({1, 1}, world.rank() * 2, at::kLong);
  const at::Tensor gradient =
      at::sparse_coo_tensor(rows, at::ones({1, 3}), {5, 3});
  lockstep::all_reduce(world, gradient)->wait();

  if (world.rank() == 0) {
    std::cout << "the average:\n"
              << weights << "\n"
              << "rows that have a gradient: " << gradient._indices() << "\n";
  }
}

}  // namespace

int main() {
  lockstep::InitOptions options;
  options.ranks_in_process = 2;
  auto worlds = lockstep::init_ranks(options);

  std::vector<std::thread> threads;
  for (auto& world : worlds) {
    threads.emplace_back([&world] { one_rank(*world); });
  }
  for (auto& thread : threads) thread.join();
}
