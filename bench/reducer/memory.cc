// SPDX-License-Identifier: Apache-2.0
#include "reducer/memory.h"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/backend/init.h"
#include "lockstep/base/error.h"
#include "reducer/model.h"

namespace lockstep::bench {
namespace {

constexpr int kRanks = 2;
constexpr int kSteps = 3;  // the second one rebuilds the buckets
constexpr MlpShape kShape = {25, 1024, 4};

// The bytes of the memory that `tensors` lie in, each counted once.
size_t distinct_bytes(const std::vector<at::Tensor>& tensors) {
  using Range = std::pair<uintptr_t, uintptr_t>;
  std::vector<Range> ranges;
  for (const at::Tensor& tensor : tensors) {
    const auto begin = reinterpret_cast<uintptr_t>(tensor.storage().data());
    ranges.emplace_back(begin, begin + tensor.storage().nbytes());
  }
  std::sort(ranges.begin(), ranges.end());
  size_t bytes = 0;
  uintptr_t counted_to = 0;
  for (const auto& [begin, end] : ranges) {
    if (end <= counted_to) continue;
    bytes += end - std::max(begin, counted_to);
    counted_to = end;
  }
  return bytes;
}

// This process's physical memory, without files. A page that is mapped twice
// counts once.
size_t physical_bytes() {
  ::malloc_trim(0);
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  size_t kilobytes = 0, sum = 0;
  while (file >> word) {
    const bool counts = word == "Pss_Anon:" || word == "Pss_Shmem:";
    if (counts && file >> kilobytes) sum += kilobytes;
  }
  LOCKSTEP_CHECK(sum > 0, InternalError, "cannot read /proc/self/smaps_rollup");
  return sum * 1024;
}

void barrier(ProcessGroup& group) { group.barrier()->wait(); }

// One rank. What the first one sees of the process is for all.
MemoryFigures measure_rank(const std::shared_ptr<ProcessGroup>& group,
                           bool as_views) {
  // What libraries keep for themselves is not ours.
  Model small = make_mlp({2, kShape.width, kShape.batch});
  train_step(small, nullptr);
  small = {};
  Model model = make_mlp(kShape);
  barrier(*group);
  const size_t before = physical_bytes();
  barrier(*group);

  ReducerOptions options;
  options.gradient_as_bucket_view = as_views;
  Reducer reducer(model.parameters, group, options);
  for (int i = 0; i < kSteps; ++i) train_step(model, &reducer);
  barrier(*group);
  MemoryFigures figures;
  if (group->rank() == 0) figures.grown = physical_bytes() - before;
  std::vector<at::Tensor> tensors;
  for (const at::Tensor& parameter : model.parameters) {
    figures.parameters += parameter.nbytes();
    tensors.push_back(parameter.grad());
  }
  for (const GradBucket& bucket : reducer.grad_buckets(false)) {
    tensors.push_back(bucket.buffer());
  }
  figures.counted = distinct_bytes(tensors);
  barrier(*group);
  return figures;
}

}  // namespace

MemoryFigures measure_memory(const std::string& backend, bool as_views) {
  InitOptions options;
  options.backend = backend;
  options.ranks_in_process = kRanks;
  ::mallopt(M_MMAP_THRESHOLD, 64 << 10);  // what is freed goes back at once
  MemoryFigures all;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (const auto& group : init_ranks(options)) {
    threads.emplace_back([&, group] {
      const MemoryFigures one = measure_rank(group, as_views);
      const std::lock_guard lock(mutex);
      all.parameters += one.parameters;
      all.counted += one.counted;
      all.grown += one.grown;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return all;
}

}  // namespace lockstep::bench
