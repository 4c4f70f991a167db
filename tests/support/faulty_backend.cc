// SPDX-License-Identifier: Apache-2.0
#include "support/faulty_backend.h"

#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep::testing {
namespace {

class FaultyBackend : public Backend {
 public:
  FaultyBackend(std::unique_ptr<Backend> inner, Fault fault)
      : inner_(std::move(inner)), fault_(std::move(fault)) {}

  const char* name() const override { return inner_->name(); }

  void run(const CollectiveOp& op, Patience& patience) override {
    misbehave();
    inner_->run(op, patience);
  }
  RegisteredMemory allocate(const CollectiveOp& op,
                            Patience& patience) override {
    misbehave();
    return inner_->allocate(op, patience);
  }

  std::unique_ptr<Transfer> send(Buffer buffer, int peer,
                                 uint32_t tag) override {
    return inner_->send(buffer, peer, tag);
  }
  std::unique_ptr<Transfer> recv(Buffer buffer, int peer_or_any,
                                 uint32_t tag) override {
    return inner_->recv(buffer, peer_or_any, tag);
  }

  void interrupt(const Failure& reason) noexcept override {
    inner_->interrupt(reason);
    interrupted_.ring();
  }

 private:
  void misbehave() {
    const int number = count_++;
    if (fault_.kind == Fault::kDelay && number >= fault_.at) {
      std::this_thread::sleep_for(fault_.delay);
    }
    if (number != fault_.at) return;
    if (fault_.kind == Fault::kThrow) std::rethrow_exception(fault_.error);
    if (fault_.kind == Fault::kHang) {
      while (interrupted_.rings() == 0) {
        interrupted_.wait(0, Deadline::in(std::chrono::hours(1)));
      }
      throw AbortedError("interrupted while hanging");
    }
  }

  const std::unique_ptr<Backend> inner_;
  const Fault fault_;
  int count_ = 0;
  Bell interrupted_;
};

}  // namespace

BackendFactory make_faulty_factory(BackendFactory inner, FaultOf fault_of) {
  return [inner = std::move(inner), fault_of = std::move(fault_of)](
             const GroupPlace& place) -> std::unique_ptr<Backend> {
    auto backend = inner(place);
    const Fault* const fault = fault_of(place);
    if (fault == nullptr) return backend;
    return std::make_unique<FaultyBackend>(std::move(backend), *fault);
  };
}

}  // namespace lockstep::testing
