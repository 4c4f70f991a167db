// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/env.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::env {

std::optional<std::string> text(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<int64_t> integer(const char* name) {
  const auto value = text(name);
  if (!value) return std::nullopt;
  int64_t number = 0;
  const char* end = value->data() + value->size();
  const auto [parsed, error] = std::from_chars(value->data(), end, number);
  LOCKSTEP_CHECK(error == std::errc() && parsed == end, UsageError,
                 "environment variable {}='{}' is not a whole number", name,
                 *value);
  return number;
}

std::optional<bool> boolean(const char* name) {
  auto value = text(name);
  if (!value) return std::nullopt;
  std::string word = *value;
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  if (word == "1" || word == "true" || word == "yes" || word == "on") {
    return true;
  }
  if (word == "0" || word == "false" || word == "no" || word == "off") {
    return false;
  }
  throw UsageError(fmt::format(
      "environment variable {}='{}' is neither true nor false; use 1 or 0",
      name, *value));
}

}  // namespace lockstep::env
