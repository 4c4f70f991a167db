// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/base/bytes.h"
#include "lockstep/base/thread.h"
#include "lockstep/collective/failure.h"
#include "lockstep/collective/patience.h"

namespace lockstep::detail {

// What a rank knows of the others of its group: whether the group has failed,
// who has left it, who answers, and what they have said about the collective
// that is running or comes next.
//
// Threads: any.
class Board {
 public:
  Board(int rank, int size);

  int rank() const { return rank_; }
  int size() const { return size_; }

  // The first failure counts. True when it was this one.
  bool fail(const Failure& failure);
  bool has_failed() const;
  // Throws what this rank throws because of the failure, if there is one.
  void check() const;
  // Waits a moment for a failure to become known; then as check().
  void check_soon(Deadline deadline) const;

  // Nothing comes from `peer` any more: it has left in good order, or there is
  // a failure that tells more.
  void leave(int peer);
  bool has_left(int peer) const;
  bool have_all_left() const;

  // One part per peer and step of a collective, of `bytes`. It begins with
  // `first`; the rest follows.
  void begin_part(int peer, size_t bytes, ConstBytes first);
  void add_to_part(int peer, ConstBytes more);
  // Waits until there is a whole one from each peer, and takes them.
  // Errors: TimeoutError names who is missing, PeerError who has left; those of
  //         check().
  // Which failures end the waiting: all, or only those of ranks that have not
  // sent theirs and will not.
  enum class Failures { kAll, kOfTheMissing };
  std::vector<ByteVector> take_parts(Patience& patience,
                                     Failures failures = Failures::kAll);

  // How many messages through Gloo a peer has received from this rank.
  void set_received(int peer, uint64_t count);
  // Waits until all who are still there have received so many, by rank.
  void wait_received(const std::vector<uint64_t>& counts, Deadline deadline);

  // Questions to all, and answers.
  uint64_t new_question();
  void answer(int peer, uint64_t question);
  // Who has not answered when the deadline has passed.
  std::vector<int> silent(uint64_t question, Deadline deadline);

 private:
  struct Part {
    ByteVector bytes;  // as many as there are going to be
    size_t arrived = 0;

    bool is_whole() const { return arrived == bytes.size(); }
    void add(ConstBytes more);
  };

  struct Peer {
    bool left = false;
    uint64_t received = 0;
    uint64_t answered = 0;
    std::deque<Part> parts;

    bool has_part() const { return !parts.empty() && parts.front().is_whole(); }
  };

  template <class Matches>
  std::vector<int> ranks_where(const Matches& matches) const;
  void check_locked() const;

  const int rank_;
  const int size_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Peer> peers_ LOCKSTEP_GUARDED_BY(mutex_);
  std::optional<Failure> failure_ LOCKSTEP_GUARDED_BY(mutex_);
  uint64_t questions_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::detail
