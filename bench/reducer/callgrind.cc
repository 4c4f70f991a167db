// SPDX-License-Identifier: Apache-2.0
#include "reducer/callgrind.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "child_process.h"
#include "command.h"
#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

bool starts_with(const std::string& line, const std::string& begin) {
  return line.compare(0, begin.size(), begin) == 0;
}

// A profile is a list of lines. "(7) name" gives a function a number, under
// which it comes again as "(7)". A line "cfn=(7)" names who is called, and
// after the line "calls=" that follows come a position and the instructions of
// these calls.
class Reader {
 public:
  explicit Reader(Profile& profile) : profile_(profile) {}

  // Returns the instructions of the whole file, which is of one thread.
  double read(std::istream& file) {
    double total = 0;
    bool is_call = false;
    std::string line, callee;
    while (std::getline(file, line)) {
      if (is_call) profile_.calls[callee] += second_number(line);
      is_call = starts_with(line, "calls=");
      if (starts_with(line, "fn=")) name_of(line.substr(3));
      if (starts_with(line, "cfn=")) callee = name_of(line.substr(4));
      if (starts_with(line, "totals: ")) total = second_number(line);
    }
    return total;
  }

 private:
  static double second_number(const std::string& line) {
    std::istringstream words(line);
    std::string first;
    double number = 0;
    words >> first >> number;
    return number;
  }

  std::string name_of(const std::string& text) {
    const size_t end = text.find(')') + 1;
    std::string& name = names_[text.substr(0, end)];
    if (end < text.size()) name = text.substr(end + 1);
    return name;
  }

  Profile& profile_;
  std::map<std::string, std::string> names_;
};

}  // namespace

double Profile::inside(const std::string& begin) const {
  double sum = 0;
  for (const auto& [name, instructions] : calls) {
    if (starts_with(name, begin)) sum += instructions;
  }
  LOCKSTEP_CHECK(sum > 0, InternalError,
                 "callgrind has seen no call of a function '{}...'; was it "
                 "renamed, or is it inlined?",
                 begin);
  return sum;
}

Profile profile(const std::string& command) {
  const TemporaryDirectory directory;
  const auto result = run_command(
      "valgrind --tool=callgrind --instr-atstart=no --separate-threads=yes "
      "--callgrind-out-file=" +
      directory.path() + "/profile " + command);
  LOCKSTEP_CHECK(result.exit_code == 0, InternalError,
                 "'{}' under valgrind ended with {}: {}", command,
                 result.exit_code, result.output);
  Profile profile;
  for (const auto& entry :
       std::filesystem::directory_iterator(directory.path())) {
    std::ifstream file(entry.path());
    const double total = Reader(profile).read(file);
    const bool is_main = entry.path().filename() == "profile-01";
    (is_main ? profile.main_thread : profile.other_threads) += total;
  }
  return profile;
}

}  // namespace lockstep::bench
