// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/store/store.h"

namespace lockstep::bench {

// Where a worker stands in its team, and the store in which it may meet the
// others.
struct Place {
  std::shared_ptr<Store> store;
  int rank = 0;
  int size = 1;
  int spare_cpu = 0;      // not the one this rank is bound to, if there is one
  std::string variant;    // ours: the backend; Gloo's: the algorithm
  std::string address;    // of the driver's store, on the host of rank 0
  std::string interface;  // of this host, by which ranks reach each other
};

// A Runner carries out collectives for one rank: ours and each rival's are a
// class each, the only one in their program.
//
// All data are float32, sums are over all ranks, and a call returns when its
// rank is done. `count` is that of the largest buffer: what the ranks have
// together in all_gather and reduce_scatter, a multiple of their number.
//
// Threads: one.
// Errors:  whatever the library throws.
class Runner {
 public:
  virtual ~Runner() = default;

  // Version and options, to be printed.
  virtual std::string settings() const = 0;

  // Memory for the calls below, aligned to a page, all of it touched. All
  // ranks ask for the same. `registered` asks for the kind it is quickest on.
  virtual std::shared_ptr<float> allocate(size_t count, bool registered);

  virtual void barrier() = 0;
  virtual void all_reduce(float* data, size_t count) = 0;
  virtual void broadcast(float* data, size_t count) = 0;  // from rank 0
  // In place: rank r has part r of `data` already.
  virtual void all_gather(float* data, size_t count) = 0;
  // Part r of the sum goes to `out` of rank r; `in` may be spoiled.
  virtual void reduce_scatter(float* in, float* out, size_t count) = 0;

  // An all_reduce that is launched, and waited for after `meanwhile`. A library
  // that gains nothing by it does one after the other.
  virtual void launch(float* data, size_t count,
                      const std::function<void()>& meanwhile);
};

// Each program of a party with a Runner links one definition of it.
std::unique_ptr<Runner> make_runner(const Place& place);

}  // namespace lockstep::bench
