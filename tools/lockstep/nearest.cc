// SPDX-License-Identifier: Apache-2.0
#include "nearest.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

namespace lockstep::tool {
namespace {

// How many letters must be changed, added or dropped.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1,
                         diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// The words that stand where options and commands may stand.
std::set<std::string> known_words(const CLI::App& app) {
  std::set<std::string> words;
  for (const auto* command : app.get_subcommands({})) {
    words.insert(command->get_name());
  }
  std::vector<const CLI::App*> apps = {&app};
  for (const auto* command : app.get_subcommands()) apps.push_back(command);
  for (const auto* one : apps) {
    for (const auto* option : one->get_options()) {
      for (const auto& name : option->get_lnames()) words.insert("--" + name);
      for (const auto& name : option->get_fnames()) words.insert("--" + name);
    }
  }
  return words;
}

}  // namespace

std::string nearest_to(const CLI::App& app, int argc, char** argv) {
  const auto known = known_words(app);
  for (int i = 1; i < argc && std::string(argv[i]) != "--"; ++i) {
    std::string word = argv[i];
    word = word.substr(0, word.find('='));
    if (known.count(word) > 0) continue;
    if (i > 1 && word.compare(0, 2, "--") != 0) continue;
    const auto closest = std::min_element(
        known.begin(), known.end(), [&](const auto& a, const auto& b) {
          return distance(word, a) < distance(word, b);
        });
    if (distance(word, *closest) <= 2 + word.size() / 5) return *closest;
  }
  return "";
}

}  // namespace lockstep::tool
