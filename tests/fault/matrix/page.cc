// SPDX-License-Identifier: Apache-2.0
// The table of faults as a page for people.
#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fault/matrix/table.h"

namespace lockstep::faults {
namespace {

constexpr const char* kIntro = R"(# Faults

<!-- Printed by fault_matrix_test --print-page from the table that it tries:
     tests/fault/matrix/table.cc. Change that, not this. -->

What every rank gets when something goes wrong. Each line below is tried with
four ranks on each backend it names, by `fault_matrix_test`. *The rank* is the
one to which it happens, or which makes the mistake. Ranks that are *idle* learn
of it by their next call. *At once* is within a second; *deadline* is when the
timeout of the call is over (`CallOptions::timeout`, else that of the group),
and a second later at the most. Whoever is *named* stands in the message, and a
rank that is gone or late in `context().peer` as well. A group that *has ended*
refuses every later call, with an `AbortedError` that carries the cause or with
the same error again; to go on, make another. [errors.md](errors.md) has the
messages.
)";

// A paragraph, in lines that are not too long.
std::string wrapped(const std::string& text, const std::string& indent = "") {
  constexpr size_t kWidth = 80;
  std::istringstream words(text);
  std::string lines;
  std::string line;
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > kWidth) {
      lines += line + "\n";
      line = indent;
    } else if (!line.empty()) {
      line += " ";
    }
    line += word;
  }
  return lines + line + "\n";
}

// To the section of a fault, with the anchor that its title gets.
std::string link_to(Fault fault) {
  const std::string& title = row_of(fault).title;
  std::string anchor;
  for (const char c : title) {
    if (c == ' ') anchor += '-';
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return fmt::format("[{}](#{})", title, anchor);
}

std::string symptoms() {
  std::string text =
      "\n| what you see | look first | what it may be |\n|---|---|---|\n";
  const auto line = [&](const char* seen, const char* look,
                        const std::vector<Fault>& faults) {
    std::vector<std::string> links;
    links.reserve(faults.size());
    for (const Fault fault : faults) links.push_back(link_to(fault));
    text +=
        fmt::format("| {} | {} | {} |\n", seen, look, fmt::join(links, "; "));
  };
  line("`PeerError` that names a rank", "at that rank's output",
       {Fault::kKill, Fault::kExitEarly, Fault::kException,
        Fault::kGroupDestroyed});
  line("`TimeoutError` that names a rank", "whether it runs still, and where",
       {Fault::kStop, Fault::kOneRankSkips, Fault::kLinkCut});
  line("`MismatchError`", "at the calls in the message",
       {Fault::kWrongOp, Fault::kWrongShape, Fault::kWrongDtype,
        Fault::kWrongRoot, Fault::kWrongOrder, Fault::kOneRankSkips});
  line("`AbortedError`", "at its cause, and at the rank that is named",
       {Fault::kAbort, Fault::kStop});
  line("an error that names the store", "at the process that serves it",
       {Fault::kStoreKilled, Fault::kStoreUnreachable});
  return text;
}

std::string words_for(const Cell& cell, Moment moment) {
  if (cell == Cell()) return "go on | goes on | | | goes on";
  std::string named = "nobody";
  if (cell.named == Named::kTheRank) named = "the rank";
  if (cell.named == Named::kTheStore) named = "the store";
  std::string group = "has ended";
  if (moment == Moment::kMaking) group = "is not made";
  if (cell.group_goes_on) group = "goes on";
  return fmt::format(
      "{} | {} | {} | {} | {}", words_for(cell.others), words_for(cell.itself),
      named, cell.within == Within::kAtOnce ? "at once" : "deadline", group);
}

// Things that have the same text, in the order of the texts.
class Grouped {
 public:
  void add(const std::string& text, const std::string& thing) {
    for (auto& [known, things] : groups_) {
      if (known != text) continue;
      if (std::find(things.begin(), things.end(), thing) == things.end()) {
        things.push_back(thing);
      }
      return;
    }
    groups_.push_back({text, {thing}});
  }

  // Calls `each(text, things)`, the things as a list with commas.
  template <class Each>
  void for_each(const Each& each) const {
    for (const auto& [text, things] : groups_) {
      each(text, fmt::format("{}", fmt::join(things, ", ")));
    }
  }

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> groups_;
};

// Backends with the same cell share a line, and so do moments with the same
// line.
std::string lines_of(const Row& row) {
  Grouped lines;
  for (const Moment moment : all_moments()) {
    Grouped cells;
    for (const Medium medium : all_media()) {
      const Cell cell = cell_of(row, moment, medium);
      if (cell.exists()) {
        cells.add(words_for(cell, moment), backend_of(medium));
      }
    }
    cells.for_each([&](const std::string& cell, const std::string& media) {
      lines.add(media + " | " + cell, words_for(moment));
    });
  }
  std::string text;
  lines.for_each([&](const std::string& line, const std::string& moments) {
    text += fmt::format("| {} | {} |\n", moments, line);
  });
  return text;
}

// What does not exist, at a moment or on a backend, and why.
std::string reasons_of(const Row& row) {
  Grouped reasons;
  for (const Moment moment : all_moments()) {
    const Cell& usual = row.cells.at(static_cast<size_t>(moment));
    if (!usual.exists()) {
      reasons.add(usual.why_not, words_for(moment));
      continue;
    }
    for (const Medium medium : all_media()) {
      const Cell cell = cell_of(row, moment, medium);
      if (cell.exists()) continue;
      const bool always = std::any_of(
          row.deviations.begin(), row.deviations.end(),
          [&](const auto& one) { return one.medium == medium && !one.moment; });
      const std::string where = fmt::format("on `{}`", backend_of(medium));
      reasons.add(cell.why_not,
                  always ? where : where + " " + words_for(moment));
    }
  }
  std::string text;
  reasons.for_each([&](const std::string& why, const std::string& where) {
    text += wrapped(fmt::format("- Not {}: {}.", where, why), "  ");
  });
  return text;
}

std::string section(const Row& row) {
  std::string text = fmt::format("\n## {}\n\n", row.title);
  text += wrapped(row.what + " *What to do:* " + row.remedy) + "\n";
  text +=
      "| when | backend | the others | the rank itself | named | by when | the "
      "group |\n|---|---|---|---|---|---|---|\n";
  text += lines_of(row);
  const std::string reasons = reasons_of(row);
  if (!reasons.empty()) text += "\n" + reasons;
  if (!row.note.empty()) text += "\n" + wrapped(row.note);
  return text;
}

}  // namespace

std::string page() {
  std::string text = kIntro + symptoms();
  for (const Row& row : table()) text += section(row);
  return text;
}

}  // namespace lockstep::faults
