// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/collective/types.h"

namespace lockstep {

// Memory that a group moves fastest, made by ProcessGroup::allocate: where
// ranks share a host, each sees that of all others, and a collective works in
// it without copies.
//
// Ownership: a handle; copies share the memory, and the last one frees it. The
//            memory may outlive its group. After the group has failed, do not
//            use what is in it: a peer that was only stopped may still write
//            there. Allocate anew from a new group.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  RegisteredMemory(std::shared_ptr<void> owner, void* data, size_t bytes)
      : owner_(std::move(owner)),
        data_(static_cast<std::byte*>(data)),
        bytes_(bytes) {}

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }
  const std::shared_ptr<void>& owner() const { return owner_; }

  // `count` elements that begin `offset` bytes into it.
  Buffer buffer(DType dtype, size_t count, size_t offset = 0) const {
    LOCKSTEP_ASSERT(offset <= bytes_ &&
                    count <= (bytes_ - offset) / size_of(dtype));
    return {data_ + offset, count, dtype};
  }

 private:
  std::shared_ptr<void> owner_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace lockstep
