// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/tcp_store_server.h"

#include <atomic>
#include <new>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/thread.h"
#include "lockstep/net/listener.h"
#include "lockstep/net/poller.h"
#include "store/connection.h"
#include "store/desk.h"

namespace lockstep {

using namespace std::chrono_literals;

namespace {

namespace codec = detail::codec;
namespace handshake = detail::handshake;
using detail::Connection;
using detail::Desk;

constexpr uint64_t kListenerToken = 0;
// A client that does not read its answers is not read from either.
constexpr size_t kMostUnsentBytes = 1 << 20;
// Other connections get their turn after so many bytes of one.
constexpr size_t kMostBytesPerTurn = 1 << 20;
constexpr int kMostAcceptsPerTurn = 64;
constexpr auto kPauseWhenFull = 50ms;

Listener listen_on(const std::string& host, uint16_t port) {
  const auto addresses = resolve({host, port}, Deadline::in(10s));
  return Listener(addresses.at(0));
}

// Thrown and caught in this file: close this connection, tell nobody.
struct Hangup {};

}  // namespace

// All of it runs on the server's thread, but for start, stop and load().
class TcpStoreServer::Impl {
 public:
  Impl(Listener listener, std::string secret, TcpStoreServerOptions options)
      : listener_(std::move(listener)),
        secret_(std::move(secret)),
        options_(options) {
    LOCKSTEP_CHECK(
        !secret_.empty() || listener_.address().is_loopback(), UsageError,
        "a store on {} can be reached from other hosts and needs a secret: "
        "give one (LOCKSTEP_SECRET, --secret-file, make_secret()), or listen "
        "on 127.0.0.1",
        to_text(listener_.address()));
    if (options_.world_size > system_backlog()) {
      log_warn(fmt::format(
          "the system queues {} new connections but {} ranks are expected; "
          "raise net.core.somaxconn if ranks are slow to connect",
          system_backlog(), options_.world_size));
    }
    poller_.add(listener_.fd(), Poller::kRead, kListenerToken);
    thread_ = Thread("lockstep-store", [this] { serve(); });
  }

  ~Impl() {
    stopping_ = true;
    poller_.wake();
    thread_.join();
  }

  SocketAddress address() const { return listener_.address(); }

  Load load() const {
    Load load;
    load.strangers = strangers_count_;
    load.clients = clients_count_;
    load.waiting = waiting_count_;
    return load;
  }

 private:
  using Connections = std::unordered_map<uint64_t, std::unique_ptr<Connection>>;

  void serve() {
    while (!stopping_) {
      for (const auto& event : poller_.wait(next_deadline())) {
        if (event.token == kListenerToken) {
          accept_all();
        } else {
          attend(event);
        }
        close_doomed();
      }
      send_answers();
      if (full_until_ && full_until_->passed()) resume_accepting();
      close_late_strangers();
      count();
    }
  }

  Deadline next_deadline() const {
    Deadline next = Deadline::in(1h);
    if (full_until_) next = *full_until_;
    if (strangers_.empty()) return next;
    return earlier(next, connections_.at(*strangers_.begin())->prove_by);
  }

  // --- coming and going ---------------------------------------------------

  void accept_all() {
    try {
      for (int i = 0; i < kMostAcceptsPerTurn; ++i) {
        auto socket = listener_.accept_now();
        if (!socket) return;
        greet(std::move(*socket));
      }
    } catch (const std::exception& error) {
      // Out of descriptors or memory: make room if a stranger holds some, and
      // in any case let a moment pass.
      if (auto skipped = full_log_.admit()) {
        log_warn(fmt::format("store: {}; trying again ({} like this before)",
                             error.what(), *skipped));
      }
      if (!strangers_.empty()) close(*strangers_.begin());
      poller_.change(listener_.fd(), 0, kListenerToken);
      full_until_ = Deadline::in(kPauseWhenFull);
    }
  }

  void resume_accepting() {
    full_until_.reset();
    poller_.change(listener_.fd(), Poller::kRead, kListenerToken);
  }

  void greet(Socket socket) {
    if (!strangers_.empty() && strangers_.size() >= options_.most_strangers) {
      close(*strangers_.begin());
    }
    const uint64_t token = next_token_++;
    auto connection =
        std::make_unique<Connection>(token, std::move(socket), secret_,
                                     Deadline::in(options_.handshake_time));
    connection->out.tail() = connection->handshake->greeting();
    connection->interest = Poller::kRead;
    poller_.add(connection->socket.fd(), connection->interest, token);
    Connection& added = *(connections_[token] = std::move(connection));
    strangers_.insert(token);
    guarded(added, [&] { flush(added); });
  }

  void close_late_strangers() {
    while (!strangers_.empty()) {
      const Connection& first = *connections_.at(*strangers_.begin());
      if (!first.prove_by.passed()) return;
      complain(first, "did not prove the secret in time");
      close(first.token);
    }
  }

  void close(uint64_t token) {
    desk_.forget(token);
    strangers_.erase(token);
    connections_.erase(token);  // closes the descriptor, so epoll forgets it
  }

  void close_doomed() {
    for (uint64_t token : doomed_) close(token);
    doomed_.clear();
  }

  // One line per second at most, whatever strangers do.
  void complain(const Connection& connection, const char* what) {
    if (auto skipped = stranger_log_.admit()) {
      log_warn(fmt::format("store: {} {}; closed ({} like this before)",
                           connection.peer, what, *skipped));
    }
  }

  // --- one connection -----------------------------------------------------

  // Runs `action`; whatever goes wrong costs this connection alone. It is
  // only marked here: callers further up may still hold it.
  template <class Action>
  void guarded(Connection& connection, Action action) {
    if (connection.doomed) return;
    try {
      action();
      return watch(connection);
    } catch (const Hangup&) {
    } catch (const Error& error) {
      log_debug(
          fmt::format("store: {}: {}; closed", connection.peer, error.what()));
    } catch (const std::bad_alloc&) {
      log_error(
          fmt::format("store: out of memory for {}; closed", connection.peer));
    }
    connection.doomed = true;
    desk_.forget(connection.token);
    doomed_.push_back(connection.token);
  }

  void attend(const Poller::Event& event) {
    const auto found = connections_.find(event.token);
    if (found == connections_.end()) return;  // closed a moment ago
    Connection& connection = *found->second;
    guarded(connection, [&] {
      if (event.writable) flush(connection);
      if (event.readable) receive(connection);
      handle_all(connection);
    });
  }

  void watch(Connection& connection) {
    const bool congested = connection.out.pending().size() > kMostUnsentBytes;
    uint32_t interest = 0;
    if (!congested) interest |= Poller::kRead;
    if (!connection.out.empty() && !connection.answered) {
      interest |= Poller::kWrite;
    }
    if (interest == connection.interest) return;
    connection.interest = interest;
    poller_.change(connection.socket.fd(), interest, connection.token);
  }

  void receive(Connection& connection) {
    for (size_t total = 0; total < kMostBytesPerTurn;) {
      Bytes room = connection.in.room();
      if (connection.is_stranger()) {  // not a byte more than its hello
        room = room.first(handshake::kHelloBytes - connection.in.buffered());
        if (room.empty()) return;  // to be judged before more is read
      }
      const auto got = connection.socket.recv_some(room);
      if (!got) return;
      if (*got == 0) throw Hangup{};
      connection.in.filled(*got);
      total += *got;
      if (*got < room.size()) return;  // that was all, most likely
    }
  }

  void flush(Connection& connection) {
    while (!connection.out.empty()) {
      const auto sent = connection.socket.send_some(connection.out.pending());
      if (!sent) return;
      connection.out.sent(*sent);
    }
  }

  // Handles what has arrived, as long as the client takes the answers.
  void handle_all(Connection& connection) {
    while (connection.out.pending().size() <= kMostUnsentBytes) {
      if (connection.is_stranger()) {
        const auto hello = connection.in.next_raw(handshake::kHelloBytes);
        if (!hello) break;
        judge(connection, *hello);
      } else {
        const auto message = connection.in.next();
        if (!message) break;
        handle(connection, *message);
      }
      if (connection.in.buffered() == 0) break;
      if (connection.out.pending().size() > kMostUnsentBytes) {
        flush(connection);
      }
    }
    send_later(connection);
  }

  // Answers go out when all that came in this turn has been handled. So the
  // clients they wake do not push us off the processor in between, and what
  // those ask next comes as one batch.
  void send_later(Connection& connection) {
    if (connection.answered || connection.out.empty()) return;
    connection.answered = true;
    answered_.push_back(connection.token);
  }

  void send_answers() {
    // It may grow meanwhile. NOLINTNEXTLINE(modernize-loop-convert)
    for (size_t i = 0; i < answered_.size(); ++i) {
      const auto found = connections_.find(answered_[i]);
      if (found == connections_.end()) continue;  // closed a moment ago
      Connection& connection = *found->second;
      connection.answered = false;
      guarded(connection, [&] {
        flush(connection);
        // Requests may have been left because it took no answers; if it took
        // them now, no event would come to remind us.
        if (connection.out.empty()) handle_all(connection);
      });
    }
    answered_.clear();
    close_doomed();
  }

  void judge(Connection& connection, ConstBytes hello) {
    auto [verdict, reply] = connection.handshake->judge(hello);
    auto& out = connection.out.tail();
    out.insert(out.end(), reply.begin(), reply.end());
    if (verdict == handshake::Verdict::kAccepted) {
      connection.handshake.reset();
      strangers_.erase(connection.token);
      return;
    }
    flush(connection);
    complain(connection, verdict == handshake::Verdict::kRefused
                             ? "gave a wrong secret"
                         : verdict == handshake::Verdict::kOtherVersion
                             ? "speaks another version of the protocol"
                             : "is no lockstep client");
    throw Hangup{};
  }

  // --- requests -----------------------------------------------------------

  void handle(Connection& connection, ConstBytes message) {
    ByteReader reader(message);
    const uint64_t id = reader.u64();
    ready_.clear();
    if (id == detail::kCancelId) {
      const uint64_t cancelled = reader.u64();
      LOCKSTEP_CHECK(reader.finished(), PeerError, "a malformed cancellation");
      desk_.take_back(connection.token, cancelled, ready_);
    } else {
      auto request = codec::decode_request(reader);
      LOCKSTEP_CHECK(request, PeerError, "a malformed request");
      desk_.ask(connection.token, id, std::move(*request), ready_);
    }
    for (const auto& one : ready_) {
      Connection& asker = *connections_.at(one.client);
      detail::append_message(one.id, one.answer, asker.out.tail());
      send_later(asker);
    }
  }

  void count() {
    clients_count_ = connections_.size() - strangers_.size();
    strangers_count_ = strangers_.size();
    waiting_count_ = desk_.waiting();
  }

  Listener listener_;
  const std::string secret_;
  const TcpStoreServerOptions options_;
  Poller poller_;
  Desk desk_;
  std::vector<Desk::Ready> ready_;  // of the message being handled
  Connections connections_;
  std::set<uint64_t> strangers_;    // tokens grow, so the first came first
  std::vector<uint64_t> doomed_;    // to be closed
  std::vector<uint64_t> answered_;  // with answers to send
  uint64_t next_token_ = kListenerToken + 1;
  std::optional<Deadline> full_until_;  // accepting pauses until then
  LogLimiter stranger_log_{1s};
  LogLimiter full_log_{10s};

  std::atomic<bool> stopping_{false};
  std::atomic<size_t> clients_count_{0};
  std::atomic<size_t> strangers_count_{0};
  std::atomic<size_t> waiting_count_{0};
  Thread thread_;  // last: it uses all of the above
};

TcpStoreServer::TcpStoreServer(const std::string& host, uint16_t port,
                               std::string secret,
                               TcpStoreServerOptions options)
    : impl_(std::make_unique<Impl>(listen_on(host, port), std::move(secret),
                                   options)) {}

TcpStoreServer::TcpStoreServer(Fd listening, std::string secret,
                               TcpStoreServerOptions options)
    : impl_(std::make_unique<Impl>(Listener::adopt(std::move(listening)),
                                   std::move(secret), options)) {}

TcpStoreServer::~TcpStoreServer() = default;

SocketAddress TcpStoreServer::address() const { return impl_->address(); }
uint16_t TcpStoreServer::port() const { return impl_->address().port(); }
TcpStoreServer::Load TcpStoreServer::load() const { return impl_->load(); }

std::string make_secret() { return handshake::make_secret(); }

}  // namespace lockstep
