// SPDX-License-Identifier: Apache-2.0
#include "backend/gloo/wire.h"

#include <sys/socket.h>

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

constexpr std::chrono::seconds kLongestSleep(10);
constexpr size_t kCopiedBytes = size_t{8} * 1024;
// So much may be queued before is_clear() says no.
constexpr size_t kClearBytes = size_t{256} * 1024;

}  // namespace

Wire::Link::Link(Socket connection)
    : socket(std::move(connection)),
      in(kMostPayload + 4096),
      open(socket.is_open()),
      writable(socket.is_open()) {
  if (open) socket.allow_slow_reader();
}

Wire::Wire(std::vector<Socket> connections, int rank, Handler& handler)
    : rank_(rank), handler_(handler) {
  for (Socket& connection : connections) {
    links_.push_back(std::make_unique<Link>(std::move(connection)));
  }
}

void Wire::start() {
  for (int peer = 0; peer < size(); ++peer) {
    if (!link(peer).open) continue;
    poller_.add(link(peer).socket.fd(), Poller::kRead,
                static_cast<uint64_t>(peer));
  }
  if (size() > 1) thread_ = Thread("gloo wire", [this] { serve(); });
}

Wire::~Wire() {
  done_ = true;
  poller_.wake();
}

void Wire::serve() {
  while (!done_) {
    const Deadline alarm = Deadline::at(alarm_);
    // Senders change the poller meanwhile, which it allows.
    for (const auto& event :
         poller_.wait(earlier(alarm, Deadline::in(kLongestSleep)))) {
      const auto peer = static_cast<int>(event.token);
      if (event.writable) flush(peer);
      if (event.readable) {
        const std::lock_guard lock(reading_);
        read(peer);
      }
    }
    if (!alarm.passed()) continue;
    auto time = alarm.time();
    alarm_.compare_exchange_strong(time, Deadline::Clock::time_point::max());
    handler_.on_alarm();
  }
}

void Wire::set_alarm(Deadline deadline) {
  alarm_ = deadline.time();
  // One that is far away is found when the thread has slept long enough.
  if (deadline.remaining() < kLongestSleep) poller_.wake();
}

// Holding reading_.
void Wire::read(int peer) {
  Link& from = link(peer);
  while (from.open) {
    try {
      const auto got = from.socket.recv_some(from.in.room());
      if (!got) return;
      if (*got == 0) return lose(peer, "its connection has ended");
      from.in.filled(*got);
      while (const auto message = from.in.next()) {
        handler_.on_message(peer, *message);
      }
    } catch (const Error& error) {
      lose(peer, error.message());
    }
  }
}

// Holding reading_. Our side is closed too: whoever waits for that sees it.
void Wire::lose(int peer, const std::string& why) {
  Link& from = link(peer);
  from.open = false;
  {
    const std::lock_guard lock(from.sending);
    give_up(from);
  }
  poller_.remove(from.socket.fd());
  if (!closing_) handler_.on_lost(peer, why);
}

// Holding the link's mutex. The reader sees its end, and tells.
void Wire::give_up(Link& link) {
  link.writable = false;
  link.out = SendQueue();
  link.socket.shutdown();
}

void Wire::read_now() {
  const std::lock_guard lock(reading_);
  for (int peer = 0; peer < size(); ++peer) read(peer);
}

void Wire::send(int peer, ConstBytes head, ConstBytes body) {
  Link& to = link(peer);
  const std::lock_guard lock(to.sending);
  if (!to.writable) return;  // on_lost tells, or has told
  ByteWriter writer(std::move(to.out.tail()));
  writer.u32(static_cast<uint32_t>(head.size() + body.size())).raw(head);
  // What is long goes straight from its memory, if it is its turn.
  const bool is_long = body.size() > kCopiedBytes;
  if (!is_long) writer.raw(body);
  to.out.tail() = writer.take();
  push(to);
  if (is_long) push(to, body);
  if (!to.out.empty()) watch(peer, true);
}

void Wire::send_all(ConstBytes head, ConstBytes body) {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_) send(peer, head, body);
  }
}

bool Wire::is_clear(int peer) {
  Link& to = link(peer);
  const std::lock_guard lock(to.sending);
  return to.out.pending().size() < kClearBytes;
}

void Wire::flush(int peer) {
  Link& to = link(peer);
  {
    const std::lock_guard lock(to.sending);
    if (!to.writable) return;
    push(to);
    if (!to.out.empty()) return;
    watch(peer, false);
  }
  handler_.on_clear(peer);
}

// Holding the link's mutex.
void Wire::push(Link& to, ConstBytes body) {
  try {
    while (to.writable && to.out.empty() && !body.empty()) {
      const auto sent = to.socket.send_some(body);
      if (!sent) break;
      body = body.from(*sent);
    }
    if (!to.writable || body.empty()) return;
    ByteWriter writer(std::move(to.out.tail()));
    to.out.tail() = writer.raw(body).take();
  } catch (const Error&) {
    give_up(to);
  }
}

void Wire::push(Link& to) {
  try {
    while (!to.out.empty()) {
      const auto sent = to.socket.send_some(to.out.pending());
      if (!sent) return;
      to.out.sent(*sent);
    }
  } catch (const Error&) {
    give_up(to);
  }
}

// Holding the link's mutex.
void Wire::watch(int peer, bool for_writing) {
  Link& to = link(peer);
  if (to.watched == for_writing) return;
  to.watched = for_writing;
  uint32_t interest = Poller::kRead;
  if (for_writing) interest |= Poller::kWrite;
  poller_.change(to.socket.fd(), interest, static_cast<uint64_t>(peer));
}

// The order matters: a connection that is closed while something unread is in
// it is reset, and a reset may destroy our last words on their way.
void Wire::close(Deadline deadline, Deadline::Duration farewell) noexcept {
  closing_ = true;
  const auto wait_while = [](Deadline until, const auto& busy) {
    while (busy() && !until.passed()) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  };
  for (int peer = 0; peer < size(); ++peer) {
    Link& to = link(peer);
    wait_while(deadline, [&] {
      const std::lock_guard lock(to.sending);
      return to.writable && !to.out.empty();
    });
    const std::lock_guard lock(to.sending);
    if (to.writable) ::shutdown(to.socket.fd(), SHUT_WR);
    to.writable = false;
  }
  const Deadline goodbye = Deadline::in(farewell);
  for (const auto& to : links_) {
    wait_while(goodbye, [&] {
      const std::lock_guard lock(reading_);
      return to->open;
    });
  }
}

}  // namespace lockstep::detail
