// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

double best_of(const std::vector<double>& values, Better better) {
  return better == Better::kMore
             ? *std::max_element(values.begin(), values.end())
             : *std::min_element(values.begin(), values.end());
}

std::string hook_text(const Row& row) {
  if (row.hook.empty()) return "";
  return fmt::format("{} ({} bytes on the wire)", row.hook, row.wire_bytes);
}

std::string goal_text(const Row& row) {
  if (row.goal == 0) return "";
  return fmt::format("  goal {:.3g}: {}", row.goal,
                     row.result.ratio >= row.goal ? "met" : "MISSED");
}

}  // namespace

Comparison compare(int rounds, Better better, const Measure& ours,
                   const Measure& rival) {
  ours();
  rival();
  std::vector<double> our_values, rival_values;
  for (int round = 0; round < rounds; ++round) {
    double mine = ours();
    double theirs = rival();
    theirs = (theirs + rival()) / 2;
    mine = (mine + ours()) / 2;
    our_values.push_back(mine);
    rival_values.push_back(theirs);
  }
  return compare(better, our_values, rival_values);
}

Comparison compare(Better better, const std::vector<double>& ours,
                   const std::vector<double>& rival) {
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.size(); ++i) {
    ratios.push_back(better == Better::kMore ? ours[i] / rival[i]
                                             : rival[i] / ours[i]);
  }
  Comparison result;
  result.ours = median(ours);
  result.rival = median(rival);
  result.best_ours = best_of(ours, better);
  result.best_rival = best_of(rival, better);
  result.ratio = median(ratios);
  result.lowest_ratio = *std::min_element(ratios.begin(), ratios.end());
  result.highest_ratio = *std::max_element(ratios.begin(), ratios.end());
  return result;
}

double median(std::vector<double> values) {
  LOCKSTEP_ASSERT(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

Report::Report(std::string bench, Options options)
    : bench_(std::move(bench)), options_(std::move(options)) {}

void Report::note(const std::string& line) const {
  fmt::print("{}: {}\n", bench_, line);
  std::fflush(stdout);
}

void Report::add(Row row) {
  const Comparison& result = row.result;
  if (rows_.empty()) {
    fmt::print("{:<20}{:<18}{:>10}{:>6} {:>12}{:>12} {:>7}  {:<14}{}\n", "case",
               "rival", "bytes", "ranks", "ours", "rival", "ratio",
               "lowest-highest", "  best ours/rival");
  }
  fmt::print(
      "{:<20}{:<18}{:>10}{:>6} {:>12.6g}{:>12.6g} {:>7.3f}  {:>6.3f}-{:<7.3f}"
      "  {:.6g}/{:.6g}  {}{}{}\n",
      row.name, row.rival, row.bytes, row.ranks, result.ours, result.rival,
      result.ratio, result.lowest_ratio, result.highest_ratio, result.best_ours,
      result.best_rival, row.collective, hook_text(row), goal_text(row));
  std::fflush(stdout);
  rows_.push_back(std::move(row));
}

void Report::write() const {
  if (options_.json_file.empty()) return;
  auto all = nlohmann::ordered_json::array();
  for (const Row& row : rows_) {
    all.push_back({{"bench", bench_},
                   {"case", row.name},
                   {"rival", row.rival},
                   {"bytes", row.bytes},
                   {"ranks", row.ranks},
                   {"ours", row.result.ours},
                   {"rival_value", row.result.rival},
                   {"ratio", row.result.ratio}});
    if (!row.collective.empty()) all.back()["collective"] = row.collective;
    if (!row.hook.empty()) {
      all.back()["hook"] = row.hook;
      all.back()["wire_bytes"] = row.wire_bytes;
    }
    if (row.goal > 0) all.back()["goal"] = row.goal;
  }
  errno = 0;
  std::ofstream file(options_.json_file);
  file << all.dump(2) << '\n' << std::flush;
  if (!file) throw SystemError("cannot write " + options_.json_file, errno);
}

int run(const std::string& bench, int argc, char** argv,
        const std::function<void(Report&)>& body,
        const std::vector<TextOption>& more) {
  CLI::App app("Compares lockstep with its rivals.", "bench_" + bench);
  Report::Options options;
  app.add_flag("--quick", options.quick, "3 rounds of each case, not 15");
  app.add_option("--json", options.json_file, "Write the rows to this file");
  for (const auto& option : more) {
    app.add_option(option.name, *option.value, option.help);
  }
  CLI11_PARSE(app, argc, argv);
  try {
    Report report(bench, options);
    body(report);
    report.write();
    return 0;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    fmt::print(stderr, "bench_{}: {}\n", bench, error.what());
    return 1;
  }
}

}  // namespace lockstep::bench
