// SPDX-License-Identifier: Apache-2.0
#include "support/fake_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace lockstep::testing {

using namespace std::chrono_literals;

void FakeScript::hold_from(int n) {
  const std::lock_guard lock(mutex_);
  held_from_ = n;
}

void FakeScript::release() {
  {
    const std::lock_guard lock(mutex_);
    held_from_.reset();
  }
  changed_.notify_all();
}

void FakeScript::fail_at(int n, std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  errors_[n] = std::move(error);
}

void FakeScript::set_late(std::vector<int> ranks) {
  const std::lock_guard lock(mutex_);
  late_ = std::move(ranks);
}

std::vector<CollectiveOp> FakeScript::ops() const {
  const std::lock_guard lock(mutex_);
  return ops_;
}

std::vector<Failure> FakeScript::interrupts() const {
  const std::lock_guard lock(mutex_);
  return interrupts_;
}

bool FakeScript::wait_for_ops(int count) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, Deadline::in(10s).time(), [&] {
    return ops_.size() >= static_cast<size_t>(count);
  });
}

bool FakeScript::is_destroyed() const {
  const std::lock_guard lock(mutex_);
  return destroyed_;
}

void FakeScript::finish_transfers(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  transfers_done_ = true;
  transfer_error_ = std::move(error);
  if (bell_) bell_->ring();
}

int FakeScript::transfer_count() const {
  const std::lock_guard lock(mutex_);
  return transfers_;
}

void FakeScript::on_run(const CollectiveOp& op, Patience& patience) {
  std::unique_lock lock(mutex_);
  const int number = static_cast<int>(ops_.size());
  ops_.push_back(op);
  changed_.notify_all();
  const auto may_go = [&] {
    return !held_from_ || number < *held_from_ || !interrupts_.empty();
  };
  while (!changed_.wait_until(lock, patience.wake_at().time(), may_go)) {
    if (patience.deadline().passed()) {
      throw TimeoutError(
          fmt::format("timed out after {}", to_text(patience.timeout())));
    }
    const std::vector<int> late = late_;
    lock.unlock();
    patience.still_waiting(late);
    lock.lock();
  }
  if (!interrupts_.empty()) {
    throw AbortedError("interrupted: " + interrupts_.front().text);
  }
  const auto error = errors_.find(number);
  if (error != errors_.end()) std::rethrow_exception(error->second);
}

void FakeScript::on_interrupt(const Failure& reason) {
  {
    const std::lock_guard lock(mutex_);
    interrupts_.push_back(reason);
  }
  changed_.notify_all();
}

void FakeScript::on_transfer(const std::shared_ptr<Bell>& bell) {
  const std::lock_guard lock(mutex_);
  bell_ = bell;
  ++transfers_;
}

bool FakeScript::test_transfer() const {
  const std::lock_guard lock(mutex_);
  if (transfer_error_) std::rethrow_exception(transfer_error_);
  if (!interrupts_.empty()) {
    throw AbortedError("interrupted: " + interrupts_.front().text);
  }
  return transfers_done_;
}

void FakeScript::on_withdraw() {
  const std::lock_guard lock(mutex_);
  --transfers_;
}

void FakeScript::on_destroyed() {
  const std::lock_guard lock(mutex_);
  destroyed_ = true;
}

namespace {

class FakeTransfer : public Transfer {
 public:
  FakeTransfer(std::shared_ptr<FakeScript> script, int peer)
      : script_(std::move(script)), peer_(peer) {}
  ~FakeTransfer() override { script_->on_withdraw(); }

  bool test() override { return script_->test_transfer(); }
  bool withdraw() override { return !script_->test_transfer(); }
  int source() const override { return std::max(peer_, 0); }

 private:
  const std::shared_ptr<FakeScript> script_;
  const int peer_;
};

}  // namespace

FakeBackend::FakeBackend(std::shared_ptr<FakeScript> script,
                         const GroupPlace& place)
    : script_(std::move(script)), place_(place) {}

FakeBackend::~FakeBackend() { script_->on_destroyed(); }

void FakeBackend::run(const CollectiveOp& op, Patience& patience) {
  script_->on_run(op, patience);
  // A world of one has the result already, perhaps in another place.
  const size_t bytes = std::min(op.in.bytes(), op.out.bytes());
  if (place_.size == 1 && bytes > 0) {
    std::memmove(op.out.data, op.in.data, bytes);
  }
}

std::unique_ptr<Transfer> FakeBackend::send(Buffer /*buffer*/, int peer,
                                            uint32_t /*tag*/) {
  script_->on_transfer(place_.bell);
  return std::make_unique<FakeTransfer>(script_, peer);
}

std::unique_ptr<Transfer> FakeBackend::recv(Buffer /*buffer*/, int peer_or_any,
                                            uint32_t /*tag*/) {
  script_->on_transfer(place_.bell);
  return std::make_unique<FakeTransfer>(script_, peer_or_any);
}

RegisteredMemory FakeBackend::allocate(const CollectiveOp& op,
                                       Patience& patience) {
  script_->on_run(op, patience);
  auto bytes =
      std::make_shared<ByteVector>(static_cast<size_t>(op.signature.dims[0]));
  return {bytes, bytes->data(), bytes->size()};
}

void FakeBackend::interrupt(const Failure& reason) noexcept {
  script_->on_interrupt(reason);
}

BackendFactory make_fake_factory(std::shared_ptr<FakeScript> script) {
  return [script = std::move(script)](const GroupPlace& place) {
    return std::make_unique<FakeBackend>(script, place);
  };
}

std::shared_ptr<ProcessGroup> make_fake_group(
    const std::shared_ptr<FakeScript>& script, int rank, int size,
    const GroupOptions& options) {
  return ProcessGroup::make(make_fake_factory(script), nullptr, rank, size,
                            options);
}

}  // namespace lockstep::testing
