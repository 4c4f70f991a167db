// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench_collective.h"
#include "lockstep/base/deadline.h"
#include "lockstep/collective/types.h"

namespace lockstep::tool {

// What the command line says, before it is checked.
struct BenchArguments {
  std::string collective;
  std::string backend = "auto";
  std::string ranks = "auto";
  std::optional<std::string> bytes;
  double step = 2;
  std::string dtype = "float32";
  std::optional<std::string> op;
  std::optional<int> root;
  int iterations = 20;
  int warmup = 5;
  bool registered = false;
  bool sync = true;
  bool check = true;
  std::string json;
  std::string bind = "core";
  int timeout = 60;
};

// The same, checked.
struct BenchOptions {
  Collective collective{};
  std::string backend;   // "auto" or one that there is
  int ranks = 0;         // 0: auto
  size_t min_bytes = 0;  // both whole numbers of elements
  size_t max_bytes = 0;
  double step = 2;
  DType dtype = DType::kFloat32;
  ReduceOp::Kind op = ReduceOp::kSum;
  int root = 0;
  int iterations = 20;
  int warmup = 5;
  bool registered = false;  // memory from ProcessGroup::allocate
  bool sync = true;         // else launched and waited for
  bool check = true;
  std::string json;  // a file, or empty
  std::string bind;
  Deadline::Duration timeout{};
};

// Errors: UsageError says which option is wrong, and what it may be.
BenchOptions options_of(const BenchArguments& arguments);

// "1024", "25M": K, M and G are powers of 1024. Errors: UsageError.
size_t bytes_of(const std::string& text);

// The sizes to measure among `ranks`: from the smallest, each `step` times the
// one before, and always the largest; cut to whole elements, and where each
// rank has a part, to equal parts.
// Errors: UsageError when there is not an element for every rank, or no rank
//         that could be the root.
std::vector<size_t> sizes_for(const BenchOptions& options, int ranks);

}  // namespace lockstep::tool
