// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/file_store.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/thread.h"
#include "lockstep/base/turn.h"
#include "store/codec.h"
#include "store/dictionary.h"
#include "store/file_log.h"

namespace lockstep {

using namespace std::chrono_literals;

namespace {

namespace codec = detail::codec;
using detail::Dictionary;
using detail::FileLog;

// What others write is looked for this often; there is no notice over NFS.
constexpr auto kPollInterval = 10ms;

// The first byte of a record.
enum class Entry : uint8_t { kRequest = 1, kJoin = 2, kLeave = 3 };

}  // namespace

// A handle: the log, and the contents as far as the log has been read. Every
// change is decided on contents that are up to date under the exclusive lock,
// then logged as the request it was; replaying requests gives everyone the
// same contents.
class FileStore::Impl {
 public:
  Impl(const std::string& path, const FileStoreOptions& options)
      : expected_ranks_(options.expected_ranks) {
    const auto deadline = Deadline::in(options.open_timeout);
    do {
      log_ = std::make_unique<FileLog>(path, options.create, deadline);
    } while (!join(options.run_id, deadline));
  }

  // Leaves; the last one of those expected takes the file along. Not leaving
  // properly (a lock nobody gives back, a full disk) only costs a left file.
  ~Impl() {
    try {
      const FileLog::Access access(*log_, FileLog::Access::kExclusive,
                                   Deadline::in(1s));
      if (!log_->is_still_there()) return;
      catch_up();
      log_->append(entry(Entry::kLeave).bytes());
      ++left_;
      if (expected_ranks_ > 0 && left_ >= expected_ranks_ &&
          !log_->others_present()) {
        log_->remove();
      }
    } catch (const std::exception& error) {
      log_debug(fmt::format("leaving store file '{}': {}", log_->path(),
                            error.what()));
    }
  }

  StoreReply execute(const StoreRequest& request, Deadline deadline) {
    const auto allowed = deadline.remaining();
    std::optional<uint64_t> seen;  // changes when we last tried in vain
    for (;;) {
      auto turn = turn_.take(deadline);
      LOCKSTEP_CHECK(turn, TimeoutError,
                     "another thread waits for the lock on store file '{}'",
                     log_->path());
      log_->check_still_there();
      if (seen != changes() || log_->has_news()) {
        if (auto reply = attempt(request, deadline)) return std::move(*reply);
        seen = changes();
      }
      if (deadline.passed()) {
        detail::throw_store_timeout(request.op, dictionary_.missing(request),
                                    allowed);
      }
      turn.reset();
      wait_for_change(*seen, earlier(deadline, Deadline::in(kPollInterval)));
    }
  }

 private:
  static ByteWriter entry(Entry kind) {
    ByteWriter writer;
    writer.u8(static_cast<uint8_t>(kind));
    return writer;
  }

  // False when the file was removed between opening and locking it.
  bool join(const std::string& run_id, Deadline deadline) {
    const FileLog::Access access(*log_, FileLog::Access::kExclusive, deadline);
    if (!log_->is_still_there()) return false;
    const auto found = log_->run_id();
    const bool in_use = log_->others_present();
    if (!found) {
      log_->begin(run_id);
    } else if (*found != run_id) {
      LOCKSTEP_CHECK(!in_use, UsageError,
                     "store file '{}' belongs to run '{}', which is still "
                     "using it, and this is run '{}'; give each job a path of "
                     "its own",
                     log_->path(), *found, run_id);
      replace(run_id, fmt::format("of an earlier run '{}'", *found));
    } else {
      catch_up();
      if (run_id.empty() && !in_use && joined_ != left_) {
        replace(run_id, "left behind by a job that did not end properly");
      }
    }
    log_->append(entry(Entry::kJoin).bytes());
    ++joined_;
    log_->enter();
    return true;
  }

  void replace(const std::string& run_id, const std::string& what) {
    log_warn(fmt::format("store file '{}' is {}; starting it anew",
                         log_->path(), what));
    log_->begin(run_id);
    forget();
  }

  // Tries once; nothing when the request has to wait.
  std::optional<StoreReply> attempt(const StoreRequest& request,
                                    Deadline deadline) {
    if (!is_change(request.op)) {
      if (log_->has_news()) {
        const FileLog::Access access(*log_, FileLog::Access::kShared, deadline);
        catch_up();
      }
      auto outcome = dictionary_.apply(request);
      if (!outcome) return std::nullopt;
      return std::move(outcome->reply);
    }
    const FileLog::Access access(*log_, FileLog::Access::kExclusive, deadline);
    log_->check_still_there();
    catch_up();
    auto outcome = dictionary_.apply(request);
    if (!outcome) return std::nullopt;
    if (outcome->changed) {
      log_request(request);
      announce();
    }
    return std::move(outcome->reply);
  }

  void log_request(const StoreRequest& request) {
    try {
      ByteWriter writer = entry(Entry::kRequest);
      codec::encode(request, writer);
      log_->append(writer.bytes());
    } catch (...) {
      forget();  // the contents are ahead of the file: read it all again
      throw;
    }
  }

  uint64_t changes() {
    std::lock_guard<std::mutex> lock(mutex_);
    return changes_;
  }

  void wait_for_change(uint64_t seen, Deadline deadline) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_until(lock, deadline.time(),
                        [&] { return changes_ != seen; });
  }

  void announce() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ++changes_;
    }
    changed_.notify_all();
  }

  void catch_up() {
    log_->read_new([&](ConstBytes record) {
      replay(record);
      announce();
    });
  }

  void replay(ConstBytes record) {
    ByteReader reader(record);
    switch (static_cast<Entry>(reader.u8())) {
      case Entry::kJoin:
        ++joined_;
        return;
      case Entry::kLeave:
        ++left_;
        return;
      case Entry::kRequest:
        break;
      default:
        return damaged();
    }
    const auto request = codec::decode_request(reader);
    if (!request || !is_change(request->op)) return damaged();
    try {
      if (!dictionary_.apply(*request)) damaged();
    } catch (const UsageError&) {
      damaged();
    }
  }

  // Its checksum was right, so it was written like this.
  [[noreturn]] void damaged() const {
    throw SystemError(
        fmt::format("store file '{}' holds a record that makes no sense",
                    log_->path()),
        EBADMSG);
  }

  void forget() {
    dictionary_.clear();
    joined_ = left_ = 0;
    log_->rewind();
    announce();
  }

  const int expected_ranks_;
  Turn turn_;  // whose turn it is to use the log and the contents
  std::unique_ptr<FileLog> log_ LOCKSTEP_GUARDED_BY(turn_);
  Dictionary dictionary_ LOCKSTEP_GUARDED_BY(turn_);
  int64_t joined_ LOCKSTEP_GUARDED_BY(turn_) = 0;
  int64_t left_ LOCKSTEP_GUARDED_BY(turn_) = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t changes_ LOCKSTEP_GUARDED_BY(mutex_) = 0;  // made here or read
};

FileStore::FileStore(const std::string& path, const FileStoreOptions& options)
    : impl_(std::make_unique<Impl>(path, options)) {}

FileStore::~FileStore() = default;

StoreReply FileStore::execute(StoreRequest request, Deadline deadline) {
  return impl_->execute(request, deadline);
}

}  // namespace lockstep
