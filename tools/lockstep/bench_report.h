// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench_options.h"

namespace lockstep::tool {

// What was measured at one size.
struct BenchRow {
  size_t bytes = 0;
  double seconds = 0;       // of one operation: the median
  double copy_seconds = 0;  // of one copy by each rank; 0: not measured
  int64_t wrong = 0;        // elements, over all ranks; with options.check
};

// Where and how the ranks run.
struct BenchSetting {
  int ranks = 1;
  std::string backend;
  std::string ranks_are;  // "threads" or "processes"
  std::string binding;    // as people say it
};

// The table on standard output, and the file if options.json names one. Both
// have each row as soon as it is known.
//
// Errors: SystemError names the file when it cannot be written.
class BenchReport {
 public:
  BenchReport(const BenchOptions& options, BenchSetting setting)
      : options_(options), setting_(std::move(setting)) {}

  void begin() const;
  void add(const BenchRow& row);

 private:
  void write_json() const;
  std::string json_text() const;

  const BenchOptions& options_;
  const BenchSetting setting_;
  std::vector<BenchRow> rows_;
};

}  // namespace lockstep::tool
