// SPDX-License-Identifier: Apache-2.0
// A backend for a world of one: collectives are copies, messages go to oneself.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "lockstep/collective/reduce.h"
#include "lockstep/comm/process_group.h"

namespace {

using namespace lockstep;

// What a backend and its transfers share; the mutex guards the rest.
struct Mail {
  std::mutex mutex;
  std::shared_ptr<Bell> bell;
  std::list<class SoloTransfer*> waiting;  // for their other half
  std::optional<Failure> failure;

  void check() const {
    if (failure) std::rethrow_exception(error_of(*failure, 0));
  }
};

class SoloTransfer : public Transfer {
 public:
  SoloTransfer(std::shared_ptr<Mail> mail, bool is_send, Buffer buffer,
               uint32_t tag)
      : mail_(std::move(mail)), is_send_(is_send), buffer_(buffer), tag_(tag) {
    const std::lock_guard lock(mail_->mutex);
    for (SoloTransfer* other : mail_->waiting) {
      if (other->tag_ != tag_ || other->is_send_ == is_send_) continue;
      is_send_ ? other->take(*this) : take(*other);
      mail_->waiting.remove(other);
      mail_->bell->ring();
      return;
    }
    mail_->waiting.push_back(this);
  }
  ~SoloTransfer() override {
    const std::lock_guard lock(mail_->mutex);
    mail_->waiting.remove(this);
  }

  bool test() override {
    const std::lock_guard lock(mail_->mutex);
    mail_->check();
    LOCKSTEP_CHECK(error_.empty(), MismatchError, "{}", error_);
    return done_;
  }
  bool withdraw() override {
    const std::lock_guard lock(mail_->mutex);
    mail_->waiting.remove(this);
    return !done_;
  }
  int source() const override { return 0; }

 private:
  void take(SoloTransfer& message) {
    const size_t bytes = message.buffer_.bytes();
    done_ = message.done_ = true;
    if (bytes != buffer_.bytes()) {
      error_ = fmt::format("rank 0 sent {} bytes, but the receive is for {}",
                           bytes, buffer_.bytes());
    } else if (bytes > 0) {
      std::memcpy(buffer_.data, message.buffer_.data, bytes);
    }
  }

  const std::shared_ptr<Mail> mail_;
  const bool is_send_;
  const Buffer buffer_;
  const uint32_t tag_;
  bool done_ = false;
  std::string error_;
};

class SoloBackend : public Backend {
 public:
  explicit SoloBackend(const GroupPlace& place)
      : mail_(std::make_shared<Mail>()) {
    LOCKSTEP_CHECK(place.size == 1, UsageError,
                   "backend 'solo' is for a world of one, not of {}",
                   place.size);
    mail_->bell = place.bell;
  }

  const char* name() const override { return "solo"; }

  // Nobody to compare op.signature with, and nobody to wait for.
  void run(const CollectiveOp& op, Patience& /*patience*/) override {
    check();
    if (op.in.count == 0) return;  // a barrier, a broadcast, or no data
    if (op.kind == OpKind::kAllReduce || op.kind == OpKind::kReduce ||
        op.kind == OpKind::kReduceScatter) {
      const double factor = op.reduce.factor();
      reduce({op.reduce.kind(), op.in.dtype, &factor}, &op.in.data, 1,
             &op.out.data, 1, op.in.count);
    } else if (op.in.data != op.out.data) {
      std::memcpy(op.out.data, op.in.data, op.in.bytes());
    }
  }

  std::unique_ptr<Transfer> send(Buffer buffer, int, uint32_t tag) override {
    return std::make_unique<SoloTransfer>(mail_, true, buffer, tag);
  }
  std::unique_ptr<Transfer> recv(Buffer buffer, int, uint32_t tag) override {
    return std::make_unique<SoloTransfer>(mail_, false, buffer, tag);
  }

  RegisteredMemory allocate(const CollectiveOp& op, Patience&) override {
    check();
    constexpr size_t kPage = 4096;
    const auto bytes = static_cast<size_t>(op.signature.dims[0]);
    const size_t whole_pages = (bytes / kPage + 1) * kPage;
    void* const data = std::aligned_alloc(kPage, whole_pages);
    if (data == nullptr) throw SystemError("cannot allocate", ENOMEM);
    std::memset(data, 0, bytes);
    return {std::shared_ptr<void>(data, std::free), data, bytes};
  }

  void interrupt(const Failure& reason) noexcept override {
    const std::lock_guard lock(mail_->mutex);
    if (!mail_->failure) mail_->failure = reason;
    mail_->bell->ring();
  }

 private:
  void check() const override {
    const std::lock_guard lock(mail_->mutex);
    mail_->check();
  }

  const std::shared_ptr<Mail> mail_;
};

}  // namespace

BackendFactory make_solo_factory() {
  return [](const GroupPlace& place) {
    return std::make_unique<SoloBackend>(place);
  };
}

int main() {
  auto group = ProcessGroup::make(make_solo_factory(), nullptr, 0, 1);
  std::vector<float> x = {1, 2, 3};
  group->all_reduce(buffer_of(x), ReduceOp::premul_sum(2))->wait();
  float message = 0;
  auto received = group->recv(buffer_of(&message, 1), 0, 7);
  group->send(buffer_of(x.data() + 2, 1), 0, 7);
  received->wait();
  fmt::print("{} on backend '{}'\n", message, group->backend_name());
}
