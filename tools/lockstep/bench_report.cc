// SPDX-License-Identifier: Apache-2.0
#include "bench_report.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep::tool {
namespace {

// 80 columns at most. The width of the operation follows its name.
constexpr const char* kLine =
    "{:>11} {:>10} {:>8} {:>{}} {:>10} {:>6} {:>6} {:>5} {:>6}\n";

const char* op_name(const BenchOptions& options) {
  return options.collective.reduces ? to_text(options.op) : "-";
}

size_t op_width(const BenchOptions& options) {
  return std::max<size_t>(7, std::strlen(op_name(options)));
}

// A figure that may not make sense here.
std::string figure_or_dash(double value) {
  return value > 0 ? fmt::format("{:.2f}", value) : "-";
}

nlohmann::json number_or_null(double value) {
  return value > 0 ? nlohmann::json(value) : nlohmann::json();
}

// Printed for a reader who waits for it.
void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

void BenchReport::begin() const {
  write_json();  // better to hear now that it cannot be written
  const Collective& collective = options_.collective;
  print(fmt::format(
      "# {}{}: {} rank{} ({}), backend {}\n", collective.name,
      collective.has_root ? fmt::format(" (root {})", options_.root) : "",
      setting_.ranks, setting_.ranks == 1 ? "" : "s", setting_.ranks_are,
      setting_.backend));
  print(fmt::format("# memory {}; calls {}; binding: {}\n",
                    options_.registered ? "registered" : "not registered",
                    options_.sync ? "synchronous" : "asynchronous",
                    setting_.binding));
  print(fmt::format("# median of {} after {} to warm up; GB = 10^9 bytes\n",
                    options_.iterations, options_.warmup));
  const size_t width = op_width(options_);
  std::string heads = fmt::format(kLine, "size", "count", "dtype", "op", width,
                                  "time", "algbw", "busbw", "eff.", "wrong");
  std::string units = fmt::format(kLine, "bytes", "", "", "", width, "us",
                                  "GB/s", "GB/s", "", "");
  heads[0] = units[0] = '#';
  units.erase(units.find_last_not_of(" \n") + 1);
  print(heads + units + "\n");
}

void BenchReport::add(const BenchRow& row) {
  rows_.push_back(row);
  const Speed speed = speed_of(options_.collective, setting_.ranks, row.bytes,
                               row.seconds, row.copy_seconds);
  const bool moves = row.bytes > 0;
  print(fmt::format(
      kLine, row.bytes, row.bytes / size_of(options_.dtype),
      moves ? to_text(options_.dtype) : "-", op_name(options_),
      op_width(options_), figure_or_dash(row.seconds * 1e6),
      figure_or_dash(speed.algorithm_gbs), figure_or_dash(speed.bus_gbs),
      figure_or_dash(speed.efficiency),
      moves && options_.check ? fmt::format("{}", row.wrong) : "-"));
  write_json();
}

std::string BenchReport::json_text() const {
  auto rows = nlohmann::json::array();
  for (const BenchRow& row : rows_) {
    const Speed speed = speed_of(options_.collective, setting_.ranks, row.bytes,
                                 row.seconds, row.copy_seconds);
    const bool checked = options_.check && row.bytes > 0;
    rows.push_back({
        {"bytes", row.bytes},
        {"count", row.bytes / size_of(options_.dtype)},
        {"time_us", row.seconds * 1e6},
        {"copy_us", number_or_null(row.copy_seconds * 1e6)},
        {"algorithm_gbs", number_or_null(speed.algorithm_gbs)},
        {"bus_gbs", number_or_null(speed.bus_gbs)},
        {"efficiency", number_or_null(speed.efficiency)},
        {"wrong", checked ? nlohmann::json(row.wrong) : nlohmann::json()},
    });
  }
  const nlohmann::json all = {
      {"collective", options_.collective.name},
      {"backend", setting_.backend},
      {"ranks", setting_.ranks},
      {"ranks_are", setting_.ranks_are},
      {"binding", setting_.binding},
      {"registered", options_.registered},
      {"sync", options_.sync},
      {"dtype", to_text(options_.dtype)},
      {"op", op_name(options_)},
      {"root", options_.root},
      {"iterations", options_.iterations},
      {"warmup", options_.warmup},
      {"rows", rows},
  };
  return all.dump(2) + "\n";
}

void BenchReport::write_json() const {
  if (options_.json.empty()) return;
  std::ofstream file(options_.json);
  file << json_text() << std::flush;
  if (!file) throw SystemError("cannot write '" + options_.json + "'", errno);
}

}  // namespace lockstep::tool
