// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/base/bell.h"
#include "lockstep/collective/collective_op.h"
#include "lockstep/collective/failure.h"
#include "lockstep/collective/patience.h"
#include "lockstep/comm/registered_memory.h"
#include "lockstep/store/store.h"

namespace lockstep {

// Any sender, for recv.
constexpr int kAnyRank = -1;

// One send or receive in flight. Once it is withdrawn or destroyed it touches
// its memory no more, and if it was not matched yet it never will be.
class Transfer {
 public:
  virtual ~Transfer() = default;

  // Whether it is done; never waits. Throws its error.
  virtual bool test() = 0;

  // Takes it back. False when it is done already, or has failed: then test()
  // says so, and what was received is there.
  virtual bool withdraw() = 0;

  // The sender of what was received, once that is done.
  virtual int source() const = 0;
};

// A Backend moves bytes between the ranks of one group: one collective at a
// time, blocking, on raw buffers. It knows neither Work nor Future, neither
// queue nor order; the group has all that, once. docs/backends.md shows how to
// write one.
//
// Threads: run and allocate are called by one thread at a time; send, recv,
//          interrupt by any thread at any time, beside them.
// Errors:  thrown; what a backend says of rank, operation and number is filled
//          in by the group. After run has thrown the group is finished with
//          it: only interrupt and the destructor follow.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const char* name() const = 0;

  // Carries out `op`, after all ranks have been found to mean the same: that
  // is compared here, by op.signature, before any of the data is touched.
  // Waits for peers no longer than `patience`. When it returns or throws, no
  // other rank reads or writes this rank's memory any more.
  virtual void run(const CollectiveOp& op, Patience& patience) = 0;

  // Matched by (peer, tag), in order among equals, not ordered with run. A
  // message whose size is not that of the receive is an error of the receive.
  // A small message (64 KB) does not wait for its receive, within reason.
  // Whenever a transfer may have moved, the bell of the place is rung.
  virtual std::unique_ptr<Transfer> send(Buffer buffer, int peer,
                                         uint32_t tag) = 0;
  virtual std::unique_ptr<Transfer> recv(Buffer buffer, int peer_or_any,
                                         uint32_t tag) = 0;

  // Memory this backend moves fastest; on one host visible to every rank.
  // Collective: op.signature.dims[0] is the number of bytes.
  virtual RegisteredMemory allocate(const CollectiveOp& op,
                                    Patience& patience) = 0;

  // Throws what run would throw at once because a peer has died or the group
  // was interrupted; not when one has left it in good order. From any thread.
  // Before a transfer fails for such a reason, check throws, and no transfer of
  // this rank touches its memory any more.
  virtual void check() const {}

  // Makes run and every transfer end with an error, now and ever after, here
  // and, with the reason, on the other ranks. When it returns, no transfer of
  // this rank touches its memory any more; run may take a moment to throw.
  virtual void interrupt(const Failure& reason) noexcept = 0;
};

// Where a backend stands: what a factory needs to make one.
struct GroupPlace {
  std::string name;  // of the group, the same on all its ranks and unique
  int rank = 0;
  int size = 1;
  std::shared_ptr<Store>
      store;  // of the group alone; null where none is needed
  Deadline::Duration timeout{};  // to find the others in
  std::shared_ptr<Bell> bell;    // rung when a transfer may have moved
  // Throws when there is no use in waiting for the others any more: the group
  // from which this one is made has failed. Null where nobody knows.
  std::function<void()> check;
};

// Makes the backend of one rank of a new group; all its ranks call it. A group
// keeps it to make sub-groups of the same kind.
using BackendFactory =
    std::function<std::unique_ptr<Backend>(const GroupPlace& place)>;

}  // namespace lockstep
