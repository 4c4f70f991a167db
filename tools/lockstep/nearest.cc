// SPDX-License-Identifier: Apache-2.0
#include "nearest.h"

#include <set>
#include <vector>

#include "lockstep/base/nearest.h"

namespace lockstep::tool {
namespace {

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
    const auto closest = detail::nearest(word, {known.begin(), known.end()},
                                         2 + word.size() / 5);
    if (!closest.empty()) return closest;
  }
  return "";
}

}  // namespace lockstep::tool
