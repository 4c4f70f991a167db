// SPDX-License-Identifier: Apache-2.0
#include "bench_rank.h"

#include <atomic>
#include <memory>

#include <gmock/gmock.h>

#include "lockstep/backend/local.h"
#include "lockstep/store/hash_store.h"
#include "support/support.h"

namespace lockstep::tool {
namespace {

using ::testing::HasSubstr;

// Breaks one element of what rank 1 gets by the third broadcast and later.
class WrongBackend : public Backend {
 public:
  WrongBackend(std::unique_ptr<Backend> inner, int rank)
      : inner_(std::move(inner)), rank_(rank) {}

  const char* name() const override { return "wrong"; }
  void run(const CollectiveOp& op, Patience& patience) override {
    inner_->run(op, patience);
    if (op.kind != OpKind::kBroadcast || rank_ != 1 || ++broadcasts_ < 3)
      return;
    static_cast<std::byte*>(op.out.data)[0] ^= std::byte{1};
  }
  std::unique_ptr<Transfer> send(Buffer buffer, int peer,
                                 uint32_t tag) override {
    return inner_->send(buffer, peer, tag);
  }
  std::unique_ptr<Transfer> recv(Buffer buffer, int peer,
                                 uint32_t tag) override {
    return inner_->recv(buffer, peer, tag);
  }
  RegisteredMemory allocate(const CollectiveOp& op,
                            Patience& patience) override {
    return inner_->allocate(op, patience);
  }
  void interrupt(const Failure& reason) noexcept override {
    inner_->interrupt(reason);
  }

 private:
  const std::unique_ptr<Backend> inner_;
  const int rank_;
  int broadcasts_ = 0;
};

// The exit code, the same on both ranks, and what was printed.
std::pair<int, std::string> bench(const BenchOptions& options,
                                  const BackendFactory& factory) {
  std::atomic<int> codes{0};
  const auto store = std::make_shared<HashStore>();
  ::testing::internal::CaptureStdout();
  lockstep::testing::run_threads(2, [&](int rank) {
    const auto group = ProcessGroup::make(factory, store, rank, 2);
    codes += bench_rank(options, *group, {true, true});
  });
  EXPECT_EQ(codes % 2, 0);
  return {codes / 2, ::testing::internal::GetCapturedStdout()};
}

BenchOptions a_broadcast() {
  BenchOptions options;
  options.collective = collective_of("broadcast");
  options.min_bytes = options.max_bytes = 4096;
  options.iterations = options.warmup = 2;
  return options;
}

TEST(BenchRank, PrintsALinePerSizeOnce) {
  const auto [code, text] = bench(a_broadcast(), make_local_factory());
  EXPECT_EQ(code, 0);
  EXPECT_THAT(text, HasSubstr("# broadcast (root 0): 2 ranks (threads), "
                              "backend local\n"));
  const size_t row = text.find("       4096       1024  float32       - ");
  ASSERT_NE(row, std::string::npos) << text;
  EXPECT_EQ(text.find("4096", row + 10), std::string::npos) << text;
  EXPECT_EQ(text.substr(text.size() - 8), "      0\n") << text;
}

TEST(BenchRank, WrongResultsAreCountedAndMakeTheExitCodeOne) {
  const auto local = make_local_factory();
  const auto [code, text] = bench(a_broadcast(), [&](const GroupPlace& place) {
    return std::make_unique<WrongBackend>(local(place), place.rank);
  });
  EXPECT_EQ(code, 1);
  EXPECT_EQ(text.substr(text.size() - 8), "      1\n") << text;
}

TEST(BenchRank, WithoutChecksNothingIsClaimed) {
  BenchOptions options = a_broadcast();
  options.check = false;
  const auto [code, text] = bench(options, make_local_factory());
  EXPECT_EQ(code, 0);
  EXPECT_EQ(text.substr(text.size() - 8), "      -\n") << text;
}

}  // namespace
}  // namespace lockstep::tool
