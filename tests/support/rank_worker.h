// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/comm.h"
#include "support/ending.h"

// What the parts of rank_worker share; its usage is in rank_worker.cc.
namespace lockstep::testing {

// Who this process is, and where and how it meets the others.
struct Seat {
  int rank = 0;
  int size = 1;
  std::shared_ptr<Store> store;
  std::string backend = "shm";
};

// Makes this rank's end of a group. Groups of other names do not see each
// other's keys.
std::shared_ptr<ProcessGroup> join(
    const Seat& seat, const std::string& name,
    Deadline::Duration timeout = std::chrono::seconds(60));

// Prints one line, at once.
void say(const std::string& line);

// Runs `body` and says how it ended, as ending.h has it. Of a call that was
// refused because the group had failed before, the cause is told.
template <class Body>
void tell_the_end(const Body& body);
void tell(const Error& error);
void tell_cause(const AbortedError& error);

template <class Body>
void tell_the_end(const Body& body) {
  try {
    body();
    say("done");
  } catch (const AbortedError& error) {
    tell_cause(error);
  } catch (const Error& error) {
    tell(error);
  }
}

// Random collectives and messages until an error comes: all kinds, small and
// large, on registered and on ordinary memory. The same for equal seeds.
void play_for_ever(ProcessGroup& group, uint32_t seed);

// Every kind of thing once, with values checked; throws when one is wrong.
void smoke(ProcessGroup& group);

// Sums until a peer does not come, then goes on with those that are left; see
// shm_stop_test.cc.
void sum_and_move_on(const Seat& seat, uint32_t seed);

// A part in a cell of the fault matrix, as fault/matrix/script.h encodes it.
void play_fault(const Seat& seat, const std::string& encoded);

}  // namespace lockstep::testing
