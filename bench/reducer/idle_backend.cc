// SPDX-License-Identifier: Apache-2.0
#include "reducer/idle_backend.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

class IdleBackend : public Backend {
 public:
  const char* name() const override { return "idle"; }

  // A group is made with collectives that go from one buffer to another.
  void run(const CollectiveOp& op, Patience& /*patience*/) override {
    if (op.kind == OpKind::kAllReduce || op.in.data == op.out.data) return;
    if (op.in.bytes() > 0) {
      std::memcpy(op.out.data, op.in.data, op.in.bytes());
    }
  }

  std::unique_ptr<Transfer> send(Buffer, int, uint32_t) override {
    throw UsageError("backend 'idle' has no messages");
  }
  std::unique_ptr<Transfer> recv(Buffer, int, uint32_t) override {
    throw UsageError("backend 'idle' has no messages");
  }

  RegisteredMemory allocate(const CollectiveOp& op, Patience&) override {
    constexpr size_t kPage = 4096;
    const auto bytes = static_cast<size_t>(op.signature.dims[0]);
    const size_t whole_pages = (bytes / kPage + 1) * kPage;
    void* const data = std::aligned_alloc(kPage, whole_pages);
    if (data == nullptr) throw SystemError("cannot allocate", ENOMEM);
    std::memset(data, 0, bytes);
    return {std::shared_ptr<void>(data, std::free), data, bytes};
  }

  void interrupt(const Failure& /*reason*/) noexcept override {}
};

}  // namespace

std::shared_ptr<ProcessGroup> make_idle_group() {
  const BackendFactory factory = [](const GroupPlace&) {
    return std::make_unique<IdleBackend>();
  };
  return ProcessGroup::make(factory, nullptr, 0, 1);
}

}  // namespace lockstep::bench
