// SPDX-License-Identifier: Apache-2.0
#include "hook/hook_text.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/nearest.h"

namespace lockstep::detail {
namespace {

// At the bars that stand in no parentheses.
std::vector<std::string> split_at_bars(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char letter : text) {
    if (letter == '(') ++depth;
    if (letter == ')') --depth;
    if (letter == '|' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

}  // namespace

HookText::HookText(const std::string& text) {
  const size_t end = text.find_first_of(":(");
  name_ = text.substr(0, end);
  LOCKSTEP_CHECK(!name_.empty(), UsageError,
                 "the hook '{}' has no name; expected one such as "
                 "'quantize:bits=4'",
                 text);
  if (end == std::string::npos) return;
  if (text[end] == ':') {
    take_apart_options(text.substr(end + 1));
    return;
  }
  LOCKSTEP_CHECK(text.back() == ')', UsageError,
                 "the hook '{}' has no ')' at its end", text);
  inner_ = split_at_bars(text.substr(end + 1, text.size() - end - 2));
}

void HookText::take_apart_options(const std::string& text) {
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string option = text.substr(begin, end - begin);
    const size_t equals = option.find('=');
    LOCKSTEP_CHECK(equals != std::string::npos && equals > 0, UsageError,
                   "hook '{}': '{}' is no option; expected NAME=VALUE, with "
                   "commas between options",
                   name_, option);
    const std::string key = option.substr(0, equals);
    const bool is_there =
        std::any_of(options_.begin(), options_.end(),
                    [&](const auto& other) { return other.first == key; });
    LOCKSTEP_CHECK(!is_there, UsageError,
                   "hook '{}': the option {} is given twice", name_, key);
    options_.emplace_back(key, option.substr(equals + 1));
    begin = end + 1;
  }
}

const std::string* HookText::find(const std::string& option) {
  known_.insert(option);
  for (const auto& [name, value] : options_) {
    if (name == option) return &value;
  }
  return nullptr;
}

void HookText::refuse(const std::string& option, const std::string& value,
                      const char* expected) const {
  throw UsageError(fmt::format("hook '{}': {} is '{}'; expected {}", name_,
                               option, value, expected));
}

template <class Number>
void HookText::read_number(const std::string& option, Number& value,
                           const char* expected) {
  const std::string* const text = find(option);
  if (text == nullptr) return;
  const char* const end = text->data() + text->size();
  const auto result = std::from_chars(text->data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) {
    refuse(option, *text, expected);
  }
}

void HookText::read(const std::string& option, int& value) {
  read_number(option, value, "a whole number");
}
void HookText::read(const std::string& option, int64_t& value) {
  read_number(option, value, "a whole number");
}
void HookText::read(const std::string& option, uint64_t& value) {
  read_number(option, value, "a whole number, not negative");
}
void HookText::read(const std::string& option, double& value) {
  read_number(option, value, "a number");
}

void HookText::read(const std::string& option, bool& value) {
  const std::string* const text = find(option);
  if (text == nullptr) return;
  const bool is_true = *text == "true" || *text == "1";
  const bool is_false = *text == "false" || *text == "0";
  if (!is_true && !is_false) refuse(option, *text, "true or false");
  value = is_true;
}

void HookText::check_all_read() const {
  for (const auto& [option, value] : options_) {
    if (known_.count(option) > 0) continue;
    const std::string hint = nearest(option, {known_.begin(), known_.end()});
    throw UsageError(
        fmt::format("hook '{}' has no option '{}'{}", name_, option,
                    hint.empty() ? "; it has none"
                                 : fmt::format("; did you mean '{}'?", hint)));
  }
}

void HookText::check_inner(size_t most) const {
  LOCKSTEP_CHECK(inner_.size() <= most, UsageError,
                 "hook '{}' takes {} in parentheses, and there are {}", name_,
                 most == 0   ? "no hook"
                 : most == 1 ? "one hook"
                             : fmt::format("at most {} hooks", most),
                 inner_.size());
}

}  // namespace lockstep::detail
