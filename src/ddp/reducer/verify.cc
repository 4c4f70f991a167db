// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/verify.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// The parameters and settings of a rank, a line of text for each.
struct Description {
  std::vector<std::string> parameters;
  std::vector<std::string> settings;
};

std::string describe(const at::Tensor& parameter, const std::string& name) {
  const bool strided = parameter.layout() == at::kStrided;
  return fmt::format(
      "'{}': {} on {}, sizes [{}], strides [{}], {}", name,
      c10::toString(parameter.scalar_type()), parameter.device().str(),
      fmt::join(parameter.sizes(), ", "),
      strided ? fmt::format("{}", fmt::join(parameter.strides(), ", "))
              : "none",
      parameter.requires_grad() ? "requires a gradient" : "is frozen");
}

// Parameters, an empty line, then settings. Lines have no line breaks.
std::string to_text(const Description& one) {
  return fmt::format("{}\n\n{}", fmt::join(one.parameters, "\n"),
                     fmt::join(one.settings, "\n"));
}

Description from_text(const std::string& text) {
  Description one;
  std::istringstream lines(text);
  auto* target = &one.parameters;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      target = &one.settings;
    } else {
      target->push_back(line);
    }
  }
  return one;
}

uint64_t hash_of(const std::string& text) {  // FNV-1a
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return hash;
}

using Words = std::array<int64_t, 2>;  // length and hash of a text

std::vector<Words> gather_words(ProcessGroup& group, const std::string& mine) {
  Words words = {static_cast<int64_t>(mine.size()),
                 static_cast<int64_t>(hash_of(mine))};
  std::vector<Words> all(static_cast<size_t>(group.size()));
  CallOptions now;
  now.sync = true;
  group.all_gather(buffer_of(words.data(), words.size()),
                   buffer_of(all[0].data(), all.size() * words.size()), {},
                   now);
  return all;
}

std::vector<Description> gather_texts(ProcessGroup& group, std::string mine,
                                      const std::vector<Words>& words) {
  std::vector<size_t> lengths;
  size_t total = 0;
  for (const Words& one : words) {
    lengths.push_back(static_cast<size_t>(one[0]));
    total += lengths.back();
  }
  std::string all(total, '\0');
  group
      .all_gather({mine.data(), mine.size(), DType::kUInt8},
                  {all.data(), all.size(), DType::kUInt8}, lengths)
      ->wait();
  std::vector<Description> texts;
  size_t begin = 0;
  for (const size_t length : lengths) {
    texts.push_back(from_text(all.substr(begin, length)));
    begin += length;
  }
  return texts;
}

// A sentence about the first difference between two lists of lines. `what`
// names a line, with {} for its number.
std::string difference(const char* what, const std::vector<std::string>& first,
                       const std::vector<std::string>& other, int rank) {
  for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
    const char* none = "none";
    const std::string a = i < first.size() ? first[i] : none;
    const std::string b = i < other.size() ? other[i] : none;
    if (a == b) continue;
    return fmt::format("; {} is {} on rank 0, and {} on rank {}",
                       fmt::format(fmt::runtime(what), i), a, b, rank);
  }
  return "";
}

std::string explain(const std::vector<Description>& all) {
  const Description& first = all[0];
  std::string text;
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const Description& other = all[rank];
    const int number = static_cast<int>(rank);
    // Settings first: they may be why parameters differ.
    text += difference("a setting", first.settings, other.settings, number);
    if (other.parameters.size() != first.parameters.size()) {
      text +=
          fmt::format("; rank 0 has {} parameters and rank {} has {}",
                      first.parameters.size(), rank, other.parameters.size());
    }
    text +=
        difference("parameter {}", first.parameters, other.parameters, number);
  }
  return text;
}

}  // namespace

void verify_parameters(ProcessGroup& group,
                       const std::vector<at::Tensor>& parameters,
                       const std::vector<std::string>& names,
                       const std::vector<std::string>& settings) {
  LOCKSTEP_CHECK(names.size() == parameters.size(), UsageError,
                 "{} names for {} parameters", names.size(), parameters.size());
  Description mine;
  mine.settings = settings;
  for (size_t i = 0; i < parameters.size(); ++i) {
    std::string line = describe(parameters[i], names[i]);
    std::replace(line.begin(), line.end(), '\n', ' ');
    mine.parameters.push_back(std::move(line));
  }
  const std::string text = to_text(mine);
  const auto words = gather_words(group, text);
  const bool same =
      std::all_of(words.begin(), words.end(),
                  [&](const Words& one) { return one == words[0]; });
  if (same) return;
  throw MismatchError(fmt::format(
      "training expects same model across all ranks, and they differ{}",
      explain(gather_texts(group, text, words))));
}

}  // namespace lockstep
