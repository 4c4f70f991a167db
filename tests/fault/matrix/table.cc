// SPDX-License-Identifier: Apache-2.0
#include "fault/matrix/table.h"

#include <tuple>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::faults {

Cell Cell::but_itself(Gets gets) const {
  Cell cell = *this;
  cell.itself = gets;
  return cell;
}

Cell Cell::naming_nobody() const {
  Cell cell = *this;
  cell.named = Named::kNobody;
  return cell;
}

Cell Cell::and_goes_on() const {
  Cell cell = *this;
  cell.group_goes_on = true;
  return cell;
}

namespace {

Cell ended(Gets others, Gets itself, Named named, Within within) {
  Cell cell;
  cell.others = others;
  cell.itself = itself;
  cell.named = named;
  cell.within = within;
  cell.group_goes_on = false;
  return cell;
}

Cell none(std::string why) {
  Cell cell;
  cell.why_not = std::move(why);
  return cell;
}

// ---- What the cells of the table say, in a word each.

const Cell kFine;  // as if nothing had happened
const Cell kGone =
    ended(Gets::kPeerError, Gets::kIsGone, Named::kTheRank, Within::kAtOnce);
const Cell kLate = ended(Gets::kTimeoutError, Gets::kAbortedError,
                         Named::kTheRank, Within::kTheDeadline);
const Cell kNoMessage = kLate.but_itself(Gets::kNothing).and_goes_on();
const Cell kNeverCame = kLate.but_itself(Gets::kIsGone);
const Cell kDiffers = ended(Gets::kMismatchError, Gets::kMismatchError,
                            Named::kTheRank, Within::kAtOnce);
const Cell kAborted = ended(Gets::kAbortedError, Gets::kAbortedError,
                            Named::kTheRank, Within::kAtOnce);
const Cell kStoreGone = ended(Gets::kPeerError, Gets::kPeerError,
                              Named::kTheStore, Within::kAtOnce);
const Cell kStoreSilent = ended(Gets::kTimeoutError, Gets::kTimeoutError,
                                Named::kTheStore, Within::kTheDeadline);

const Cell kMaybe = ended(Gets::kNothingOrError, Gets::kNothingOrError,
                          Named::kNobody, Within::kAtOnce);

const Cell kNoGroup = none("there is no group yet");
const Cell kNoCall = none("it takes a call to be wrong");
const Cell kOneProcess =
    none("ranks are threads: what happens to the process happens to all");
const Cell kOneMaker =
    none("one call makes the groups of all ranks; there is nobody to wait for");
const Cell kNoLink = none("ranks are on one host, and no link is between them");
const Cell kDoorsClosed = none("a rank listens only while a group is made");
const Cell kNoPort = none("no rank listens on a port");
const Cell kNoStore = none("ranks find each other without a store");

// A mistake in a call, which is found when the ranks compare what they call.
Cells mistake(const Cell& in_point_to_point) {
  return {kNoGroup, kNoCall, kDiffers, in_point_to_point};
}

const char* const kStrangers =
    "Our own ports turn strangers away. Gloo's give the place of a rank to "
    "whoever comes first; then no rank gets the group, and all are told.";

std::vector<Deviation> not_on_local(const Cell& why) {
  return {{Medium::kLocal, std::nullopt, why}};
}

std::vector<Deviation> only_on_gloo(const Cell& why) {
  return {{Medium::kLocal, std::nullopt, why},
          {Medium::kShm, std::nullopt, why}};
}

// Columns: while the group is made; idle; in a collective; in point to point.
std::vector<Row> rows() {
  return {
      {Fault::kKill,
       "Kill",
       "A rank is killed",
       "A rank's process is killed: a signal, out of memory, a crash.",
       "Look at the end of that rank's output, and at `dmesg` for the "
       "out-of-memory killer; restart the job.",
       {ended(Gets::kPeerOrTimeoutError, Gets::kIsGone, Named::kTheRank,
              Within::kTheDeadline),
        kGone, kGone, kGone},
       not_on_local(kOneProcess),
       "A rank that dies before the others know it is merely missing: then the "
       "deadline for making the group says so. `lockstep run` ends the job "
       "before that."},

      {Fault::kStop,
       "Stop",
       "A rank stands still",
       "A rank's process stands still for longer than the timeout: SIGSTOP, a "
       "debugger, a suspended machine, a step that takes for ever.",
       "See what that rank does (`gdb -p`, `/proc/PID/stack`). If it was only "
       "slow, give the call or the group a longer timeout.",
       {kLate.but_itself(Gets::kPeerOrTimeoutError), kLate, kLate,
        kNoMessage.but_itself(Gets::kTimeoutError)},
       not_on_local(kOneProcess),
       "When it goes on, the rank can harm nobody: its own calls end with an "
       "error, too."},

      {Fault::kStopThenContinue,
       "StopThenContinue",
       "A rank stands still for a while",
       "A rank's process stands still, and goes on before the timeout is over.",
       "Nothing. The log has a line that names the late rank when it took "
       "longer than `notice_after`.",
       {kFine, kFine, kFine, kFine},
       not_on_local(kOneProcess)},

      {Fault::kExitEarly,
       "ExitEarly",
       "A rank exits early",
       "A rank's process ends with exit code 0 while the others still need it: "
       "it had less data, or called `exit`.",
       "Let every rank make the same number of calls; leave the group, by "
       "destroying it, only after the last.",
       {kNeverCame, kGone, kGone, kGone},
       not_on_local(kOneProcess)},

      {Fault::kException,
       "Exception",
       "A rank throws an exception",
       "A rank throws between two calls, and the exception takes its group "
       "with it.",
       "Read that rank's output: the exception is the cause. To give the "
       "others a reason, catch it and call `abort(reason)`.",
       {kNeverCame, kGone, kGone, kGone},
       {{Medium::kLocal, Moment::kMaking, kOneMaker}}},

      {Fault::kWrongOp, "WrongOp", "Another operation",
       "One rank reduces with another operation.",
       "The message has both calls; make them the same.",
       mistake(none("a message has no operation"))},

      {Fault::kWrongShape, "WrongShape", "Another shape",
       "One rank gives another shape or size.",
       "The message has both shapes. Uneven last batches are the usual cause: "
       "drop or pad them.",
       mistake(kDiffers.but_itself(Gets::kNothing).and_goes_on())},

      {Fault::kWrongDtype,
       "WrongDtype",
       "Another type",
       "One rank gives another element type.",
       "The message has both types; convert before the call.",
       mistake(kFine),
       {},
       "A message is bytes: only its size is compared, so between types of one "
       "size it arrives as it is."},

      {Fault::kWrongRoot, "WrongRoot", "Another root",
       "One rank names another root.",
       "The message has both roots; compute it from what all ranks know.",
       mistake(none("a message has no root; a wrong peer shows as a rank that "
                    "skips"))},

      {Fault::kWrongOrder,
       "WrongOrder",
       "Another order",
       "One rank makes the same calls in another order.",
       "Look for what decides the order: a hash map, a thread, a rank's own "
       "condition. What must run side by side gets a group of its own "
       "(`duplicate`).",
       mistake(kFine),
       {},
       "Messages are matched by their tags, in whatever order. Collectives of "
       "the same kind, type and shape cannot be told apart: those are not "
       "found."},

      {Fault::kOneRankSkips,
       "OneRankSkips",
       "One rank skips a call",
       "One rank leaves out a call.",
       "Look for an `if` around a call that depends on the rank.",
       {kNeverCame, kLate, kDiffers, kNoMessage},
       {{Medium::kLocal, Moment::kMaking, kOneMaker}},
       "\"Idle\" is a rank that makes no call after that; \"in a collective\", "
       "one that goes on with its next."},

      {Fault::kAbort,
       "Abort",
       "A rank aborts",
       "A rank calls `abort(reason)`.",
       "The message of every rank has the reason.",
       {kNoGroup, kAborted, kAborted, kAborted}},

      {Fault::kGroupDestroyed,
       "GroupDestroyed",
       "A rank destroys its group",
       "A rank destroys its group while the others still use it.",
       "Keep the group as long as any rank calls; `shutdown` before the end "
       "finds works that were forgotten.",
       {kNoGroup, kGone, kGone, kGone}},

      {Fault::kLinkCut,
       "LinkCut",
       "A link is cut",
       "The network to one rank's host is cut.",
       "Look at the link of the host that is named; restart the job.",
       {kLate.but_itself(Gets::kTimeoutError),
        kLate.but_itself(Gets::kTimeoutError),
        kLate.but_itself(Gets::kTimeoutError),
        kNoMessage.but_itself(Gets::kTimeoutError)},
       only_on_gloo(kNoLink)},

      {Fault::kLinkSlowed,
       "LinkSlowed",
       "A link becomes slow",
       "The network to one rank's host has become slow.",
       "Nothing but patience; `lockstep bench` shows the bandwidth.",
       {kFine, kFine, kFine, kFine},
       only_on_gloo(kNoLink)},

      {Fault::kStoreKilled,
       "StoreKilled",
       "The store is killed",
       "The process that serves the store is killed.",
       "Save what you need, and restart the job.",
       {kStoreGone, kFine, kFine, kFine},
       not_on_local(kNoStore),
       "A group that is made needs no store. Making another from it, by "
       "`duplicate` or `split`, is a `PeerError` that names the store."},

      {Fault::kStoreUnreachable,
       "StoreUnreachable",
       "The store does not answer",
       "The store does not answer: its process stands still, or the network "
       "to it is gone.",
       "See whether the host of the store answers, and a firewall lets its "
       "port pass.",
       {kStoreSilent, kFine, kFine, kFine},
       not_on_local(kNoStore),
       "At the deadline the store gets another chance to answer, so this error "
       "may take a second longer than others do."},

      {Fault::kPortStolen,
       "PortStolen",
       "A stranger on a port, silent",
       "Something else connects to a port on which a rank listens, and says "
       "nothing.",
       "If the group was not made, make it again; find out who it was.",
       {kMaybe, kDoorsClosed, kDoorsClosed, kDoorsClosed},
       only_on_gloo(kNoPort),
       kStrangers},

      {Fault::kGarbage,
       "Garbage",
       "A stranger on a port, talking",
       "Something else connects to a port on which a rank listens, and sends "
       "garbage: a port scanner, a monitor.",
       "If the group was not made, make it again; keep such things out of the "
       "job's network.",
       {kMaybe, kDoorsClosed, kDoorsClosed, kDoorsClosed},
       only_on_gloo(kNoPort),
       kStrangers},
  };
}

}  // namespace

bool operator==(const Cell& a, const Cell& b) {
  const auto all = [](const Cell& c) {
    return std::tie(c.why_not, c.others, c.itself, c.named, c.within,
                    c.group_goes_on);
  };
  return all(a) == all(b);
}

const std::vector<Row>& table() {
  static const std::vector<Row> all = rows();
  return all;
}

const Row& row_of(Fault fault) {
  const Row& row = table().at(static_cast<size_t>(fault));
  LOCKSTEP_ASSERT(row.fault == fault);
  return row;
}

Cell cell_of(const Row& row, Moment moment, Medium medium) {
  const Cell& usual = row.cells.at(static_cast<size_t>(moment));
  for (const Deviation& deviation : row.deviations) {
    if (deviation.medium != medium) continue;
    if (deviation.moment.value_or(moment) != moment) continue;
    // What exists nowhere does not need another reason here.
    if (!usual.exists() && !deviation.moment) return usual;
    return deviation.cell;
  }
  return usual;
}

const std::vector<Moment>& all_moments() {
  static const std::vector<Moment> all = {Moment::kMaking, Moment::kIdle,
                                          Moment::kInCollective,
                                          Moment::kInPointToPoint};
  return all;
}

const std::vector<Medium>& all_media() {
  static const std::vector<Medium> all = {Medium::kLocal, Medium::kShm,
                                          Medium::kGloo};
  return all;
}

std::string name_of(Moment moment) {
  switch (moment) {
    case Moment::kMaking:
      return "Making";
    case Moment::kIdle:
      return "Idle";
    case Moment::kInCollective:
      return "InCollective";
    case Moment::kInPointToPoint:
      return "InPointToPoint";
  }
  return "";
}

std::string words_for(Moment moment) {
  switch (moment) {
    case Moment::kMaking:
      return "while the group is made";
    case Moment::kIdle:
      return "idle";
    case Moment::kInCollective:
      return "in a collective";
    case Moment::kInPointToPoint:
      return "in point to point";
  }
  return "";
}

std::string name_of(Medium medium) {
  switch (medium) {
    case Medium::kLocal:
      return "Local";
    case Medium::kShm:
      return "Shm";
    case Medium::kGloo:
      return "Gloo";
  }
  return "";
}

std::string backend_of(Medium medium) {
  switch (medium) {
    case Medium::kLocal:
      return "local";
    case Medium::kShm:
      return "shm";
    case Medium::kGloo:
      return "gloo";
  }
  return "";
}

std::string words_for(Gets gets) {
  switch (gets) {
    case Gets::kNothing:
      return "goes on";
    case Gets::kNothingOrError:
      return "goes on, or `PeerError` or `AbortedError`";
    case Gets::kPeerError:
      return "`PeerError`";
    case Gets::kTimeoutError:
      return "`TimeoutError`";
    case Gets::kPeerOrTimeoutError:
      return "`PeerError` or `TimeoutError`";
    case Gets::kMismatchError:
      return "`MismatchError`";
    case Gets::kAbortedError:
      return "`AbortedError`";
    case Gets::kIsGone:
      return "is gone";
  }
  return "";
}

}  // namespace lockstep::faults
