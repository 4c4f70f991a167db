// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

// What may go wrong in a job, when, on which backend; and what every rank gets
// then. The table is the specification: fault_matrix_test tries each cell, and
// docs/faults.md is printed from it.
namespace lockstep::faults {

enum class Fault {
  kKill,
  kStop,
  kStopThenContinue,
  kExitEarly,
  kException,
  kWrongOp,
  kWrongShape,
  kWrongDtype,
  kWrongRoot,
  kWrongOrder,
  kOneRankSkips,
  kAbort,
  kGroupDestroyed,
  kLinkCut,
  kLinkSlowed,
  kStoreKilled,
  kStoreUnreachable,
  kPortStolen,
  kGarbage,
};

enum class Moment { kMaking, kIdle, kInCollective, kInPointToPoint };
enum class Medium { kLocal, kShm, kGloo };

// What a rank gets from the call it is in, or from its next.
enum class Gets {
  kNothing,         // its calls succeed, with the right values
  kNothingOrError,  // one or the other on all ranks: Peer- or AbortedError
  kPeerError,
  kTimeoutError,
  kPeerOrTimeoutError,
  kMismatchError,
  kAbortedError,
  kIsGone,  // it makes no more calls on this group
};

enum class Named { kNobody, kTheRank, kTheStore };

// From the fault, or from the call that meets it, to the error.
enum class Within { kAtOnce, kTheDeadline };

// What one fault at one moment leads to on one backend. "The rank" is the one
// to which it happens, or which makes the mistake.
struct Cell {
  std::string why_not;  // why there is no such thing; else empty
  Gets others = Gets::kNothing;
  Gets itself = Gets::kNothing;
  Named named = Named::kNobody;
  Within within = Within::kAtOnce;
  bool group_goes_on = true;  // its next collective is right, on all ranks

  bool exists() const { return why_not.empty(); }
  // For others: all but `itself`, in the words of the table.
  Cell but_itself(Gets gets) const;
  Cell naming_nobody() const;
  Cell and_goes_on() const;
};

bool operator==(const Cell& a, const Cell& b);

constexpr size_t kMoments = 4;
using Cells = std::array<Cell, kMoments>;  // by Moment

// Where a backend differs from the others.
struct Deviation {
  Medium medium;
  std::optional<Moment> moment;  // none: at all of them that exist
  Cell cell;
};

struct Row {
  Fault fault;
  std::string name;    // of its tests
  std::string title;   // on the page
  std::string what;    // happened
  std::string remedy;  // what to do
  Cells cells;
  std::vector<Deviation> deviations = {};
  std::string note = {};
};

const std::vector<Row>& table();

const Row& row_of(Fault fault);
Cell cell_of(const Row& row, Moment moment, Medium medium);

// "InCollective"; as a page says it, "in a collective".
std::string name_of(Moment moment);
std::string words_for(Moment moment);
std::string name_of(Medium medium);     // "Shm"
std::string backend_of(Medium medium);  // "shm"
std::string words_for(Gets gets);

// All of them, in order.
const std::vector<Moment>& all_moments();
const std::vector<Medium>& all_media();

// docs/faults.md.
std::string page();

}  // namespace lockstep::faults
