// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/store/store.h"
#include "support/message_of.h"

// The contract of every store: tests of what it holds and tests of how it
// waits, in two files; a third says which stores there are.
namespace lockstep {

// Everything one kind of store needs to live, and any number of handles.
struct StoreWorld {
  virtual ~StoreWorld() = default;
  virtual std::shared_ptr<Store> open() = 0;
};

struct StoreKind {
  const char* name;
  std::function<std::unique_ptr<StoreWorld>()> make;
};

inline void PrintTo(const StoreKind& kind, std::ostream* out) {
  *out << kind.name;
}

class StoreContract : public ::testing::TestWithParam<StoreKind> {
 protected:
  std::unique_ptr<StoreWorld> world_ = GetParam().make();
  std::shared_ptr<Store> store_ = world_->open();
  // A second rank's handle.
  std::shared_ptr<Store> other_ = world_->open();

  std::string get(const std::string& key) {
    return to_string(store_->get(key, Deadline::in(std::chrono::seconds(10))));
  }
};

}  // namespace lockstep
