// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::detail {

// A hook as a program writes it, "quantize:bits=4" or "auto_compress(a|b)",
// taken apart; and its options, read one by one.
//
//   HookText text("quantize:bits=4");
//   text.read("bits", options.bits);
//   text.check_all_read();
//
// Errors: UsageError for a text that cannot be taken apart, a value that is
//         none, and by check_all_read() for an option that nobody has read.
class HookText {
 public:
  explicit HookText(const std::string& text);

  const std::string& name() const { return name_; }
  // What stands in parentheses, divided at the outermost bars.
  const std::vector<std::string>& inner() const { return inner_; }

  // Leaves `value` as it is when there is no such option.
  void read(const std::string& option, int& value);
  void read(const std::string& option, int64_t& value);
  void read(const std::string& option, uint64_t& value);
  void read(const std::string& option, double& value);
  void read(const std::string& option, bool& value);
  void check_all_read() const;
  // Errors: UsageError when there are more than `most` inner hooks.
  void check_inner(size_t most) const;

 private:
  void take_apart_options(const std::string& text);
  const std::string* find(const std::string& option);
  [[noreturn]] void refuse(const std::string& option, const std::string& value,
                           const char* expected) const;
  template <class Number>
  void read_number(const std::string& option, Number& value,
                   const char* expected);

  std::string name_;
  std::vector<std::string> inner_;
  std::vector<std::pair<std::string, std::string>> options_;
  std::set<std::string> known_;  // what was asked for
};

}  // namespace lockstep::detail
