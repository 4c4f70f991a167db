// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

// What all benchmarks share: the command line, rounds, and rows.
//
//   int main(int argc, char** argv) {
//     return bench::run("store", argc, argv, [](bench::Report& report) {
//       const auto result = bench::compare(report.rounds(), Better::kMore,
//                                          measure_ours, measure_rival);
//       report.add({"set+get", "redis", 32, 8, result});
//     });
//   }
namespace lockstep::bench {

// Which of two figures wins: rates want more, times want less.
enum class Better { kMore, kLess };

// What rounds of ours and a rival's came to. A ratio above 1 means that ours
// is better, whichever way the figure counts.
struct Comparison {
  double ours = 0;  // medians
  double rival = 0;
  double best_ours = 0;
  double best_rival = 0;
  double ratio = 0;  // median of the ratios of single rounds
  double lowest_ratio = 0;
  double highest_ratio = 0;
};

// One round measures ours, the rival twice, then ours again, and takes the mean
// of each: what disturbs the machine disturbs both, and neither gains from
// coming first or from what ran just before, which on a small machine decides
// on which core a thread wakes. An uncounted round comes first, to warm up.
using Measure = std::function<double()>;
Comparison compare(int rounds, Better better, const Measure& ours,
                   const Measure& rival);
// For rounds that were measured in another way: a value of each per round.
Comparison compare(Better better, const std::vector<double>& ours,
                   const std::vector<double>& rival);

// The middle value; the mean of the two in the middle when there are two.
// `values` must not be empty.
double median(std::vector<double> values);

struct Row {
  std::string name;   // "case" in the file
  std::string rival;  // who it is compared with
  size_t bytes = 0;   // of the payload of one operation
  int ranks = 0;      // or clients: how many at once
  Comparison result;
  std::string collective = {};  // which one, where there are several
  double goal = 0;              // what the ratio should reach; 0: none
  std::string hook = {};        // ours, where there are several
  size_t wire_bytes = 0;        // that one of its steps sends; with a hook only
};

// Collects rows: each is printed at once, all go to the file at the end.
class Report {
 public:
  struct Options {
    bool quick = false;
    std::string json_file;  // empty: none
  };

  Report(std::string bench, Options options);

  bool is_quick() const { return options_.quick; }
  // How many to measure: enough for a median, or a glance with --quick.
  int rounds() const { return options_.quick ? 3 : 15; }

  // A line about the settings, ours or the rival's.
  void note(const std::string& line) const;
  void add(Row row);

  // Writes the file, if one was asked for: an array with an object per row.
  // Errors: SystemError names the file.
  void write() const;

 private:
  const std::string bench_;
  const Options options_;
  std::vector<Row> rows_;
};

// An option of one benchmark's own.
struct TextOption {
  std::string name;  // "--only"
  std::string help;
  std::string* value;
};

// Parses --quick, --json FILE and `more`, runs `body` and writes the rows.
// Returns what main() should return; an error is printed and makes that
// nonzero, and then no file is written.
int run(const std::string& bench, int argc, char** argv,
        const std::function<void(Report&)>& body,
        const std::vector<TextOption>& more = {});

}  // namespace lockstep::bench
