// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/base/bytes.h"
#include "lockstep/base/thread.h"
#include "lockstep/net/frame.h"
#include "lockstep/net/poller.h"
#include "lockstep/net/socket.h"

namespace lockstep::detail {

// The wire of a rank: a connection to each other rank of its group, on which
// short messages travel, in order. A message is never waited for by its sender;
// what the network does not take at once waits in a queue.
//
// It also is the ear at every peer's door: when a process ends, its connection
// does, and on_lost says so.
//
// Threads:   send, send_all, read_now and is_clear from any thread. The handler
//            is called by the wire's own thread or by read_now, one call at a
//            time; it may send.
// Ownership: the handler outlives the wire.
class Wire {
 public:
  class Handler {
   public:
    virtual void on_message(int peer, ConstBytes message) = 0;
    // Nothing comes from `peer` any more, and nothing reaches it. Once, and not
    // after close().
    virtual void on_lost(int peer, const std::string& why) = 0;
    // What was queued for `peer` is on its way.
    virtual void on_clear(int peer) = 0;
    // The time of set_alarm() has come.
    virtual void on_alarm() = 0;

   protected:
    ~Handler() = default;
  };

  // The longest message, with room for what stands before it: what is longer is
  // cut by whoever sends it.
  static constexpr size_t kMostPayload = size_t{1} << 20;

  // Takes over connections that have been made (wire_connect.h); the entry of
  // `rank` itself is not open.
  Wire(std::vector<Socket> connections, int rank, Handler& handler);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // Begins to listen: the handler may be called from now on.
  void start();

  // One message of two parts; empty ones are left out.
  void send(int peer, ConstBytes head, ConstBytes body = {});
  void send_all(ConstBytes head, ConstBytes body = {});

  // Whether little is queued for `peer`: bulky senders wait for that.
  bool is_clear(int peer);

  // Has on_alarm() called at that time; the last one set counts. It may come
  // once too often: whoever is called looks whether it is late.
  void set_alarm(Deadline deadline);

  // Handles what has arrived by now.
  void read_now();

  // Sends what is queued, until the deadline; then says goodbye, and waits so
  // long for the others to do the same. Whoever reads our last words finds them
  // whole.
  void close(Deadline deadline, Deadline::Duration farewell) noexcept;

 private:
  struct Link {
    Socket socket;
    FrameReader in;
    bool open = false;     // guarded by reading_
    bool watched = false;  // writability is; guarded by sending
    std::mutex sending;
    SendQueue out LOCKSTEP_GUARDED_BY(sending);
    bool writable LOCKSTEP_GUARDED_BY(sending) = false;  // not closed, not lost

    explicit Link(Socket connection);
  };

  Link& link(int peer) { return *links_[static_cast<size_t>(peer)]; }
  int size() const { return static_cast<int>(links_.size()); }
  void serve();
  void read(int peer);
  void lose(int peer, const std::string& why);
  void flush(int peer);
  void push(Link& link);
  void push(Link& link, ConstBytes body);
  void watch(int peer, bool for_writing);
  static void give_up(Link& link);

  const int rank_;
  Handler& handler_;
  std::vector<std::unique_ptr<Link>> links_;
  Poller poller_;
  std::atomic<bool> closing_{false};  // nobody is told of what ends
  std::atomic<bool> done_{false};
  std::atomic<Deadline::Clock::time_point> alarm_{
      Deadline::Clock::time_point::max()};
  std::mutex reading_;  // one reader at a time; the handler is called under it
  Thread thread_;
};

}  // namespace lockstep::detail
