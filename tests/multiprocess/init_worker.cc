// SPDX-License-Identifier: Apache-2.0
// Joins the job it was started for, and says by which backend:
//
//   rank 1 of 4 on shm: 6
#include <numeric>

#include <fmt/core.h>

#include "lockstep/comm.h"

int main() {
  try {
    const auto world = lockstep::init();
    std::vector<int32_t> x = {world->rank()};
    world->all_reduce(lockstep::buffer_of(x))->wait();
    // Long enough for the way that is for long ones.
    std::vector<float> y(size_t{1} << 20, 1);
    world->all_reduce(lockstep::buffer_of(y))->wait();
    const bool right =
        std::accumulate(y.begin(), y.end(), 0.0) ==
        static_cast<double>(y.size()) * static_cast<double>(world->size());
    fmt::print("rank {} of {} on {}: {}{}\n", world->rank(), world->size(),
               world->backend_name(), x[0], right ? "" : ", wrong");
    return 0;
  } catch (const std::exception& error) {
    fmt::print("error: {}\n", error.what());
    return 1;
  }
}
