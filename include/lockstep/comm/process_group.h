// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/collective/types.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/registered_memory.h"
#include "lockstep/comm/work.h"

namespace lockstep {

// Holds something alive, without saying what.
using Keepalive = std::shared_ptr<const void>;

// What a single call may choose.
struct CallOptions {
  // How long it may run once its turn has come; else the group's.
  std::optional<Deadline::Duration> timeout;
  // Return only when it is done, and throw its error here. On an idle group
  // this runs on the caller's own thread, which is much quicker for small data
  // than handing over to another.
  bool sync = false;
  // Kept until the operation has completed: the owner of its memory.
  Keepalive keepalive;
  // The shape of the data, compared between ranks in place of the mere number
  // of elements.
  std::vector<int64_t> shape;
  // Whatever else ranks must agree on, as a hash; 0 for nothing.
  uint64_t agreement = 0;
  // A local step that belongs to the operation: runs after its data has
  // arrived and before it completes. If it throws, this rank's Work fails, and
  // nothing else does.
  std::function<void()> finish;
  // Something of another lane that this follows. The operation takes its place
  // in the order now, and runs when its turn has come and `after` is ready. If
  // `after` fails, so does the operation, and with it the group. Not for send
  // and recv, which have no place in the order.
  Future<void> after;
};

// What a local step may choose.
struct StepOptions {
  // As in CallOptions; if it fails, the step fails and is not run.
  Future<void> after;
  // Should the step fail, the group fails: nothing behind it may send data that
  // the step was to prepare.
  bool fatal = false;
  // How long it may wait for `after` once its turn has come; else the group's.
  std::optional<Deadline::Duration> timeout;
};

// Collectives from inside the lane: for an operation that is made of several,
// whose later ones depend on what the earlier ones brought. Each call blocks,
// on the lane's thread, and shares the sequence number of the whole.
class LaneCalls {
 public:
  using Counts = std::vector<size_t>;

  virtual void all_reduce(Buffer data, ReduceOp op) = 0;
  virtual void broadcast(Buffer data, int root) = 0;
  virtual void all_gather(Buffer in, Buffer out, const Counts& counts) = 0;

 protected:
  ~LaneCalls() = default;
};

struct GroupOptions {
  std::string name = "world";
  Deadline::Duration timeout = std::chrono::minutes(10);
  // A line in the log says which ranks an operation waits for, each time it
  // has waited that long. Zero: never.
  Deadline::Duration notice_after = std::chrono::seconds(10);
};

// A ProcessGroup is one ordered lane of collectives among fixed ranks.
//
//   std::vector<float> x = ...;
//   auto work = group->all_reduce(buffer_of(x), ReduceOp::kAverage);
//   ...
//   work->wait();
//
// Every rank makes the same calls in the same order. A call checks its
// arguments, takes the next sequence number, queues the operation and returns;
// operations run one after the other on the lane's thread, and complete in
// that order. Where ranks disagree (another collective, type, shape, root,
// operation), every one of them gets a MismatchError that says who called
// what. For things that are to run side by side, duplicate() the group.
//
// send and recv are not ordered by the lane: they are matched by peer and tag.
//
// Threads:   one thread at a time launches on a group (UsageError when two are
//            seen to); abort() from any thread. Continuations run on the
//            lane's thread: short, never waiting, launching nothing. What must
//            follow something is launched beforehand, with `after`.
// Ownership: shared. The destructor completes what was launched, within its
//            timeouts, unless the group has failed; pending receives are
//            withdrawn.
// Errors:    a wrong argument is a UsageError at the call, and takes no
//            sequence number. What fails later is thrown by Work::wait(). The
//            first failure of a collective ends the group: what is queued and
//            what is launched later fails with AbortedError, which carries the
//            cause; other ranks are told.
class ProcessGroup : public std::enable_shared_from_this<ProcessGroup> {
 public:
  using Handle = std::shared_ptr<Work>;
  using Counts = std::vector<size_t>;

  // Makes this rank's end of a group. Each rank calls it with the same name.
  static std::shared_ptr<ProcessGroup> make(const BackendFactory& factory,
                                            std::shared_ptr<Store> store,
                                            int rank, int size,
                                            GroupOptions options = {});
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const;
  int size() const;
  const std::string& name() const;
  const char* backend_name() const;
  Deadline::Duration timeout() const;

  // How many collectives this rank has launched; the number of the next.
  int64_t sequence_number() const;

  // ---- Collectives. `data` is changed in place.

  Handle all_reduce(Buffer data, ReduceOp op = ReduceOp::kSum,
                    CallOptions options = {});
  Handle all_reduce(Buffer in, Buffer out, ReduceOp op, CallOptions options);
  Handle broadcast(Buffer data, int root, CallOptions options = {});
  // `out` counts at the root only, and may be `in`.
  Handle reduce(Buffer in, Buffer out, ReduceOp op, int root,
                CallOptions options = {});

  // In these, `counts` says how many elements belong to each rank; empty means
  // all equal. `in` or `out` of one rank may be its own part of the other.
  Handle all_gather(Buffer in, Buffer out, const Counts& counts = {},
                    CallOptions options = {});
  Handle gather(Buffer in, Buffer out, int root, const Counts& counts = {},
                CallOptions options = {});
  Handle scatter(Buffer in, Buffer out, int root, const Counts& counts = {},
                 CallOptions options = {});
  Handle reduce_scatter(Buffer in, Buffer out, ReduceOp op,
                        const Counts& counts = {}, CallOptions options = {});
  // Part i of `in` goes to rank i; part i of `out` comes from rank i. The two
  // must not overlap.
  Handle all_to_all(Buffer in, Buffer out, const Counts& in_counts = {},
                    const Counts& out_counts = {}, CallOptions options = {});

  // Several of one type as one operation: one sequence number, one trip.
  Handle all_reduce_coalesced(const std::vector<Buffer>& data, ReduceOp op,
                              CallOptions options = {});
  Handle all_gather_coalesced(const std::vector<Buffer>& in,
                              const std::vector<Buffer>& out,
                              CallOptions options = {});
  Handle reduce_scatter_coalesced(const std::vector<Buffer>& in,
                                  const std::vector<Buffer>& out, ReduceOp op,
                                  CallOptions options = {});

  // Completes when every rank has come here, and with it everything this rank
  // launched before.
  Handle barrier(CallOptions options = {});

  // A barrier that names who is missing. Rank 0 keeps the time: its error
  // names the lowest missing rank, or with `wait_all_ranks` all of them; the
  // others are told. Blocks; all leave it or none do. The group stays usable.
  void monitored_barrier(std::optional<Deadline::Duration> timeout = {},
                         bool wait_all_ranks = false);

  // ---- Point to point. Tags go from 0 to 2^31-1; a message and its receive
  // must have the same size. Sending to oneself works. A transfer that times
  // out is withdrawn, and the group stays usable.

  Handle send(Buffer data, int peer, int64_t tag = 0, CallOptions options = {});
  Handle recv(Buffer data, int peer, int64_t tag = 0, CallOptions options = {});
  // From whoever sends first: Work::source_rank() says who.
  Handle recv_any(Buffer data, int64_t tag = 0, CallOptions options = {});

  // ---- The lane.

  // Runs a local step on the lane's thread, between the collectives before and
  // after it. It takes no sequence number and must not wait for a Work.
  Handle post(std::function<void()> step, StepOptions options = {});

  // The same for a step that is itself a collective, of the given kind: every
  // rank composes the same calls. All of them together have the timeout.
  Handle compose(OpKind kind, std::function<void(LaneCalls&)> steps,
                 CallOptions options = {});

  // Memory for fast collectives. A collective that blocks: every rank asks for
  // the same number of bytes. They are zero, and aligned to a page.
  RegisteredMemory allocate(size_t bytes, CallOptions options = {});

  // ---- Other groups, from this one. Collectives that block.

  // Another lane among the same ranks, with this one's timeout unless told.
  std::shared_ptr<ProcessGroup> duplicate(
      const std::string& name, std::optional<Deadline::Duration> timeout = {});

  // A group for each color, its ranks in the order of (key, rank here). Null
  // for a rank whose color is kNoGroup.
  static constexpr int kNoGroup = -1;
  std::shared_ptr<ProcessGroup> split(int color, int key = 0);

  // ---- The end.

  // Waits for all collectives and sends that were launched, then closes: later
  // calls are a UsageError. Receives stay pending until the group goes.
  // Errors: the first failure of the group; TimeoutError when the deadline
  //         passes first.
  void shutdown(Deadline deadline);

  // Fails everything pending, now, here and on the other ranks.
  void abort(const std::string& reason);
  // The same because of an error that happened elsewhere, on another group say:
  // all ranks get an error of its kind.
  void abort(const std::exception_ptr& cause);

  // The failure that ended this group, or null while it is healthy.
  std::exception_ptr failure() const;

  // Calls `notice` when this group fails here, on the thread that finds out,
  // or now if it has. The notice must neither wait nor throw.
  using FailureNotice = std::function<void(const std::exception_ptr& cause)>;
  void on_failure(FailureNotice notice);

 private:
  class Impl;
  explicit ProcessGroup(std::unique_ptr<Impl> impl);
  // A group made from this one; when this one fails meanwhile, that ends it.
  std::shared_ptr<ProcessGroup> make_child(int rank, int size,
                                           GroupOptions options);
  static std::shared_ptr<ProcessGroup> make(const BackendFactory& factory,
                                            std::shared_ptr<Store> store,
                                            GroupPlace place,
                                            GroupOptions options);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
