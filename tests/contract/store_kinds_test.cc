// SPDX-License-Identifier: Apache-2.0
// The stores that keep the contract: each of them, and a PrefixStore over each.
#include "contract/store_contract.h"
#include "lockstep/comm.h"
#include "support/support.h"

namespace lockstep {
namespace {

struct HashWorld : StoreWorld {
  std::shared_ptr<Store> open() override { return store; }
  std::shared_ptr<Store> store = std::make_shared<HashStore>();
};

struct FileWorld : StoreWorld {
  std::shared_ptr<Store> open() override {
    return std::make_shared<FileStore>(directory.file("store"));
  }
  testing::TempDir directory;
};

struct TcpWorld : StoreWorld {
  std::shared_ptr<Store> open() override {
    return std::make_shared<TcpStore>("127.0.0.1", server.port(), "secret");
  }
  TcpStoreServer server{"127.0.0.1", 0, "secret"};
};

template <class Inner>
struct PrefixWorld : StoreWorld {
  std::shared_ptr<Store> open() override {
    return std::make_shared<PrefixStore>("p", inner.open());
  }
  Inner inner;
};

template <class W>
StoreKind kind_of(const char* name) {
  return {name, [] { return std::make_unique<W>(); }};
}

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreContract,
    ::testing::Values(kind_of<HashWorld>("Hash"), kind_of<FileWorld>("File"),
                      kind_of<TcpWorld>("Tcp"),
                      kind_of<PrefixWorld<HashWorld>>("PrefixHash"),
                      kind_of<PrefixWorld<FileWorld>>("PrefixFile"),
                      kind_of<PrefixWorld<TcpWorld>>("PrefixTcp"),
                      kind_of<PrefixWorld<PrefixWorld<TcpWorld>>>("Nested")),
    [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace lockstep
