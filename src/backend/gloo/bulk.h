// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/gloo/board.h"
#include "backend/gloo/wire.h"
#include "lockstep/comm/backend.h"

namespace lockstep::detail {

using GlooDevices = std::vector<std::shared_ptr<gloo::transport::Device>>;

// The heavy side of a group: a full mesh of Gloo's connections per device. What
// Gloo throws becomes an error of ours here, and nowhere else.
//
// Gloo ends the process when a message is longer than its receive, so sizes
// have been agreed on before anything comes here; and none of its waits can be
// called back, but all of them end when the mesh is closed.
//
// Threads: one thread moves data; close() from any.
class Bulk {
 public:
  Bulk(Board& board, Wire& wire);
  ~Bulk();
  Bulk(const Bulk&) = delete;
  Bulk& operator=(const Bulk&) = delete;

  // Makes the connections; all ranks of the group call it, before anything
  // else. `look` as in meet().
  // Errors: PeerError with the ranks that did not answer.
  void connect(const GroupPlace& place, const GlooDevices& devices,
               Deadline deadline, const std::function<void()>& look);

  // Runs `action`: one operation, which sends, receives and finishes pieces. It
  // has the number `sequence` on all ranks, and one of the meshes.
  void run(uint64_t sequence, Patience& patience,
           const std::function<void()>& action);

  // One message of that operation, on its way until finish() has returned.
  class Piece {
   private:
    friend class Bulk;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;  // null: empty
    int peer_ = 0;
    bool is_send_ = false;
  };
  // Both sides name the same slot.
  Piece send(int peer, uint32_t slot, ConstBytes bytes);
  Piece recv(int peer, uint32_t slot, Bytes bytes);
  void finish(Piece& piece, Patience& patience);
  void finish(std::vector<Piece>& pieces, Patience& patience);

  // For Gloo's own algorithms, in which every rank may send to every other.
  const std::shared_ptr<gloo::Context>& context() const { return *current_; }
  void count_all();

  // Asks all ranks whether they are there; those that do not answer.
  std::vector<int> silent_ranks();

  // What is left of the time, as Gloo takes it.
  static std::chrono::milliseconds milliseconds_of(Deadline deadline);

  // Waits until the others have received all that was sent to them: what has
  // not left this host is lost when the mesh is closed.
  void wait_received(Deadline deadline);

  // Closes it if an operation runs whose time is over: Gloo gives each of its
  // waits all of the time.
  void close_if_late() noexcept;

  // Makes whoever waits here, and on the other ranks, fail. Again does nothing.
  void close() noexcept;

 private:
  uint64_t slot_of(uint32_t slot) const { return (sequence_ << 32) | slot; }
  [[noreturn]] void explain(Patience& patience, const std::string& what);
  void confirm();
  bool set_running_until(std::optional<Deadline> deadline);
  void close_locked() noexcept;

  Board& board_;
  Wire& wire_;
  std::mutex mutex_;  // guards contexts_ while they are made, and the next two
  std::vector<std::shared_ptr<gloo::Context>> contexts_;
  bool closed_ = false;
  std::optional<Deadline> running_until_;
  const std::shared_ptr<gloo::Context>* current_ = nullptr;
  uint64_t sequence_ = 0;
  int waiting_for_ = -1;  // a rank, if one is known
  // Messages by rank: sent there, received from there, and the latter as the
  // sender was last told.
  std::vector<uint64_t> sent_;
  std::vector<uint64_t> received_;
  std::vector<uint64_t> confirmed_;
};

}  // namespace lockstep::detail
