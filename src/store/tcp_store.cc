// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/tcp_store.h"

#include <poll.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/thread.h"
#include "lockstep/base/turn.h"
#include "store/connection.h"
#include "store/tcp_connect.h"

namespace lockstep {

using namespace std::chrono_literals;

namespace {

namespace codec = detail::codec;

// How long a call that timed out waits for the server to take it back, which
// is when it learns which keys were missing.
constexpr auto kCancelGrace = 500ms;

// Most requests fit and so are built without moving.
constexpr size_t kUsualMessageBytes = 256;

// Whether a reply has the values that were asked for.
bool fits(const StoreReply& reply, const StoreRequest& request) {
  const size_t values = reply.values.size();
  switch (request.op) {
    case StoreOp::kGet:
    case StoreOp::kPop:
      return values == request.keys.size();
    case StoreOp::kCompareSet:
      return values <= 1;
    default:
      return values == 0;
  }
}

// One request in flight.
struct Call {
  std::condition_variable woken;
  bool sleeping = false;  // until woken, while somebody else reads
  std::optional<codec::Answer> answer;
};

}  // namespace

// Whoever waits for an answer and finds nobody reading becomes the reader: it
// hands the answers of others to them, and when its own has come it wakes one
// of those who still wait to read on. So a lone caller pays for no second
// thread, and no caller is ever stuck behind another.
class TcpStore::Impl {
 public:
  Impl(Address address, const std::string& secret,
       const TcpStoreOptions& options)
      : address_(std::move(address)),
        socket_(detail::connect_to_store(
            address_, secret, Deadline::in(options.connect_timeout))) {}

  StoreReply execute(const StoreRequest& request, Deadline deadline) {
    const auto allowed = deadline.remaining();
    Call call;
    const uint64_t id = enroll(call);
    std::optional<codec::Answer> answer;
    try {
      ByteVector message;
      message.reserve(kUsualMessageBytes);
      detail::append_message(id, request, message);
      send(message, deadline);
      answer = await(call, deadline);
      if (!answer) {
        const auto grace = Deadline::in(kCancelGrace);
        send(cancellation(id), grace);
        answer = await(call, grace);
      }
    } catch (...) {
      dismiss(id);
      throw;
    }
    dismiss(id);
    if (!answer) {
      throw TimeoutError(fmt::format(
          "the store server at {} did not answer within {}; is it running?",
          to_text(address_), to_text(allowed)));
    }
    switch (answer->status) {
      case codec::Status::kDone:
        LOCKSTEP_CHECK(fits(answer->reply, request), PeerError,
                       "the store server at {} sent {} values for {} keys",
                       to_text(address_), answer->reply.values.size(),
                       request.keys.size());
        return std::move(answer->reply);
      case codec::Status::kRefused:
        throw UsageError(answer->text);
      case codec::Status::kCancelled:
        break;
    }
    detail::throw_store_timeout(request.op, answer->missing, allowed);
  }

 private:
  static ByteVector cancellation(uint64_t id) {
    return ByteWriter().u32(16).u64(detail::kCancelId).u64(id).take();
  }

  uint64_t enroll(Call& call) {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t id = next_id_++;
    calls_.emplace(id, &call);
    return id;
  }

  void dismiss(uint64_t id) {
    std::lock_guard<std::mutex> lock(mutex_);
    calls_.erase(id);
  }

  void throw_if_broken() const {
    LOCKSTEP_CHECK(broken_.empty(), PeerError,
                   "the connection to the store server at {} is gone: {}",
                   to_text(address_), broken_);
  }

  // --- sending --------------------------------------------------------------

  void send(ConstBytes message, Deadline deadline) {
    const auto turn = sending_.take(deadline);
    LOCKSTEP_CHECK(turn, TimeoutError,
                   "the store server at {} takes no data; is it running?",
                   to_text(address_));
    {
      std::lock_guard<std::mutex> lock(mutex_);
      throw_if_broken();
    }
    const size_t size = message.size();
    try {
      while (!message.empty()) {
        if (auto sent = socket_.send_some(message)) {
          message = message.from(*sent);
        } else {
          wait_for_room(message.size() == size, deadline);
        }
      }
    } catch (const PeerError& error) {
      fail(error.what());
    } catch (const SystemError& error) {
      fail(error.what());
    }  // and await() tells the caller
  }

  // The server stops reading from a client that does not take its answers, so
  // while it takes nothing from us we take what it has for us.
  void wait_for_room(bool nothing_sent, Deadline deadline) {
    const short events = poll_one(socket_.fd(), POLLOUT | POLLIN, deadline);
    if (events == 0 || deadline.passed()) {  // it may send us more for ever
      // Half a message on the wire spoils all that would follow.
      if (!nothing_sent) fail("it takes no more data");
      throw TimeoutError(
          fmt::format("the store server at {} takes no data; is it running?",
                      to_text(address_)));
    }
    if ((events & POLLIN) == 0) return;
    std::unique_lock<std::mutex> lock(mutex_);
    if (reading_) return;
    read(lock, Deadline::in(0ms));
    pass_on_reading();
  }

  // --- receiving ------------------------------------------------------------

  // The answer to `call`; nothing when the deadline passed first.
  std::optional<codec::Answer> await(Call& call, Deadline deadline) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!call.answer && broken_.empty() && !deadline.passed()) {
      if (reading_) {
        call.sleeping = true;
        call.woken.wait_until(lock, deadline.time());
        call.sleeping = false;
      } else {
        read(lock, deadline);
      }
    }
    pass_on_reading();
    if (!call.answer) throw_if_broken();
    return std::move(call.answer);
  }

  // Whoever stops reading wakes one who waits, to read on.
  void pass_on_reading() {
    if (reading_) return;
    for (auto& [id, call] : calls_) {
      if (call->sleeping && !call->answer) return call->woken.notify_one();
    }
  }

  // Reads once and hands out what came. Called with the lock, which is open
  // while it waits.
  void read(std::unique_lock<std::mutex>& lock, Deadline deadline) {
    reading_ = true;
    lock.unlock();
    std::vector<std::pair<uint64_t, codec::Answer>> answers;
    std::string failure;
    try {
      receive(answers, deadline);
    } catch (const std::exception& error) {  // no memory, too
      failure = error.what();
    }
    lock.lock();
    reading_ = false;
    for (auto& [id, answer] : answers) deliver(id, std::move(answer));
    if (!failure.empty()) fail_locked(failure);
  }

  void receive(std::vector<std::pair<uint64_t, codec::Answer>>& answers,
               Deadline deadline) {
    const auto got = socket_.recv_by(in_.room(), deadline);
    if (!got) return;
    LOCKSTEP_CHECK(*got > 0, PeerError, "it closed the connection");
    in_.filled(*got);
    while (const auto message = in_.next()) {
      ByteReader reader(*message);
      const uint64_t id = reader.u64();
      auto answer = codec::decode_answer(reader);
      LOCKSTEP_CHECK(answer, PeerError, "it sent a malformed answer");
      answers.emplace_back(id, std::move(*answer));
    }
  }

  void deliver(uint64_t id, codec::Answer answer) {
    const auto found = calls_.find(id);
    if (found == calls_.end()) {
      log_debug("store: a late answer to a call that was given up");
      return;
    }
    found->second->answer = std::move(answer);
    found->second->woken.notify_one();
  }

  void fail(const std::string& reason) {
    std::lock_guard<std::mutex> lock(mutex_);
    fail_locked(reason);
  }

  // From now on every call fails, and those that wait wake.
  void fail_locked(const std::string& reason) {
    if (broken_.empty()) broken_ = reason;
    socket_.shutdown();
    for (auto& [id, call] : calls_) call->woken.notify_one();
  }

  const Address address_;
  Socket socket_;
  Turn sending_;  // one message at a time on the wire
  FrameReader in_{detail::kMostMessageBytes};  // used by whoever is the reader

  mutable std::mutex mutex_;
  bool reading_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  std::string broken_ LOCKSTEP_GUARDED_BY(mutex_);
  uint64_t next_id_ LOCKSTEP_GUARDED_BY(mutex_) = detail::kCancelId + 1;
  std::map<uint64_t, Call*> calls_ LOCKSTEP_GUARDED_BY(mutex_);
};

TcpStore::TcpStore(const std::string& host, uint16_t port,
                   const std::string& secret, TcpStoreOptions options)
    : impl_(std::make_unique<Impl>(Address{host, port}, secret, options)) {
  set_timeout(options.timeout);
}

TcpStore::~TcpStore() = default;

StoreReply TcpStore::execute(StoreRequest request, Deadline deadline) {
  return impl_->execute(request, deadline);
}

}  // namespace lockstep
