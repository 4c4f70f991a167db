// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep::testing {

// What a test and the FakeBackend it watches share: what was asked of the
// backend, and how it should answer.
//
// Threads: any.
class FakeScript {
 public:
  // ---- The test's side. Operations are counted from 0, as they arrive.

  // Keeps every operation from `n` on until release().
  void hold_from(int n);
  void release();
  // Operation `n` throws `error`.
  void fail_at(int n, std::exception_ptr error);
  // Says, while an operation is held, that these ranks are late.
  void set_late(std::vector<int> ranks);

  std::vector<CollectiveOp> ops() const;
  int op_count() const { return static_cast<int>(ops().size()); }
  std::vector<Failure> interrupts() const;
  // Waits until so many operations have arrived.
  bool wait_for_ops(int count) const;
  bool is_destroyed() const;

  // Sends and receives end when this is called, or fail.
  void finish_transfers(std::exception_ptr error = nullptr);
  int transfer_count() const;

  // ---- The backend's side.

  void on_run(const CollectiveOp& op, Patience& patience);
  void on_interrupt(const Failure& reason);
  void on_transfer(const std::shared_ptr<Bell>& bell);
  bool test_transfer() const;
  void on_withdraw();
  void on_destroyed();

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<CollectiveOp> ops_ LOCKSTEP_GUARDED_BY(mutex_);
  std::map<int, std::exception_ptr> errors_ LOCKSTEP_GUARDED_BY(mutex_);
  std::optional<int> held_from_ LOCKSTEP_GUARDED_BY(mutex_);
  std::vector<int> late_ LOCKSTEP_GUARDED_BY(mutex_);
  std::vector<Failure> interrupts_ LOCKSTEP_GUARDED_BY(mutex_);
  bool destroyed_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  bool transfers_done_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  std::exception_ptr transfer_error_ LOCKSTEP_GUARDED_BY(mutex_);
  int transfers_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<Bell> bell_ LOCKSTEP_GUARDED_BY(mutex_);
};

// A backend for one rank in a world of any size that moves nothing (in a world
// of one, from input to output): for tests of what a group does with a backend.
//
//   auto script = std::make_shared<FakeScript>();
//   auto group = make_fake_group(script, 2, 8);     // rank 2 of 8
class FakeBackend : public Backend {
 public:
  FakeBackend(std::shared_ptr<FakeScript> script, const GroupPlace& place);
  ~FakeBackend() override;

  const char* name() const override { return "fake"; }
  void run(const CollectiveOp& op, Patience& patience) override;
  std::unique_ptr<Transfer> send(Buffer buffer, int peer,
                                 uint32_t tag) override;
  std::unique_ptr<Transfer> recv(Buffer buffer, int peer_or_any,
                                 uint32_t tag) override;
  RegisteredMemory allocate(const CollectiveOp& op,
                            Patience& patience) override;
  void interrupt(const Failure& reason) noexcept override;

 private:
  const std::shared_ptr<FakeScript> script_;
  const GroupPlace place_;
};

BackendFactory make_fake_factory(std::shared_ptr<FakeScript> script);
std::shared_ptr<ProcessGroup> make_fake_group(
    const std::shared_ptr<FakeScript>& script, int rank = 0, int size = 1,
    const GroupOptions& options = {});

}  // namespace lockstep::testing
