// SPDX-License-Identifier: Apache-2.0
// What is the gloo backend's own, beyond the contract of all backends.
#include "lockstep/backend/gloo.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "backend/host.h"
#include "lockstep/backend/init.h"
#include "lockstep/store/hash_store.h"
#include "support/message_of.h"
#include "support/scoped_env.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::message_of;
using testing::ScopedEnv;

GlooOptions loopback() {
  GlooOptions options;
  options.devices = {gloo_device_of_host("127.0.0.1")};
  return options;
}

// Each rank makes its group, with options of its own, and does something.
void run_ranks(const std::vector<GlooOptions>& options,
               const std::function<void(ProcessGroup&)>& body) {
  const auto store = std::make_shared<HashStore>();
  const auto size = static_cast<int>(options.size());
  testing::run_threads(size, [&](int rank) {
    GroupOptions group;
    group.timeout = 20s;
    body(*ProcessGroup::make(
        make_gloo_factory(options[static_cast<size_t>(rank)]), store, rank,
        size, group));
  });
}

// Quicker than Each() for many.
template <class T>
bool all_are(const std::vector<T>& values, double expected) {
  return std::all_of(values.begin(), values.end(), [&](T value) {
    return static_cast<double>(value) == expected;
  });
}

// One element is 1 on rank 0, 2 on rank 1, ...
template <class T>
std::vector<T> ranks_value(const ProcessGroup& group, size_t count) {
  return std::vector<T>(count, static_cast<T>(group.rank() + 1));
}

TEST(GlooBackend, EveryAlgorithmGivesTheSumAtEverySize) {
  for (const auto algorithm :
       {GlooAlgorithm::kRing, GlooAlgorithm::kBcube, GlooAlgorithm::kDirect}) {
    GlooOptions options = loopback();
    options.algorithm = algorithm;
    run_ranks({3, options}, [](ProcessGroup& group) {
      EXPECT_STREQ(group.backend_name(), "gloo");
      for (const size_t count : {size_t{0}, size_t{1}, size_t{30'000},
                                 size_t{100'000}, size_t{1'000'001}}) {
        auto x = ranks_value<float>(group, count);
        group.all_reduce(buffer_of(x))->wait();
        EXPECT_TRUE(all_are(x, 6.0));
        auto y = ranks_value<int64_t>(group, count);
        group.all_reduce(buffer_of(y), ReduceOp::kProduct)->wait();
        EXPECT_TRUE(all_are(y, 6));
        auto z = ranks_value<double>(group, count);
        group.all_reduce(buffer_of(z), ReduceOp::kAverage)->wait();
        EXPECT_TRUE(all_are(z, 2));
        auto w = ranks_value<float>(group, count);
        group.all_reduce(buffer_of(w), ReduceOp::premul_sum(0.5))->wait();
        EXPECT_TRUE(all_are(w, 3.0));
      }
    });
  }
}

// 100 + 100 is more than a byte holds; the average is not.
TEST(GlooBackend, AnAverageOfSmallIntegersDoesNotOverflow) {
  run_ranks({2, loopback()}, [](ProcessGroup& group) {
    for (const size_t count : {size_t{10}, size_t{3'000'000}}) {
      std::vector<int8_t> x(count, group.rank() == 0 ? 100 : 120);
      group.all_reduce(buffer_of(x), ReduceOp::kAverage)->wait();
      EXPECT_TRUE(all_are(x, 110));
    }
  });
}

// Unlike those whose reduce_scatter always sums.
TEST(GlooBackend, ReduceScatterHeedsTheOperation) {
  run_ranks({2, loopback()}, [](ProcessGroup& group) {
    for (const size_t count : {size_t{4}, size_t{1'000'000}}) {
      auto in = ranks_value<int32_t>(group, count);
      std::vector<int32_t> out(count / 2);
      group.reduce_scatter(buffer_of(in), buffer_of(out), ReduceOp::kMax)
          ->wait();
      EXPECT_TRUE(all_are(out, 2));
      group.reduce_scatter(buffer_of(in), buffer_of(out), ReduceOp::kProduct)
          ->wait();
      EXPECT_TRUE(all_are(out, 2));
    }
  });
}

TEST(GlooBackend, SeveralMeshesAreUsedInTurn) {
  GlooOptions options = loopback();
  options.devices.push_back(options.devices.front());
  options.threads = 2;
  run_ranks({2, options}, [](ProcessGroup& group) {
    for (int i = 0; i < 6; ++i) {
      auto x = ranks_value<float>(group, 300'000);
      group.all_reduce(buffer_of(x))->wait();
      EXPECT_TRUE(all_are(x, 3.0));
    }
  });
}

// Different ways on different ranks would end the process inside Gloo.
TEST(GlooBackend, RanksWithOtherOptionsAreAMismatchOnAll) {
  GlooOptions ring = loopback();
  ring.algorithm = GlooAlgorithm::kRing;
  GlooOptions direct = loopback();
  direct.algorithm = GlooAlgorithm::kDirect;
  const auto store = std::make_shared<HashStore>();
  testing::run_threads(2, [&](int rank) {
    const auto text = message_of<MismatchError>([&] {
      ProcessGroup::make(make_gloo_factory(rank == 0 ? ring : direct), store,
                         rank, 2, {});
    });
    EXPECT_THAT(text, HasSubstr("'ring'"));
    EXPECT_THAT(text, HasSubstr("'direct'"));
  });
}

TEST(GlooBackend, AWrongAddressOnOneRankIsSaidOnAll) {
  GlooOptions elsewhere = loopback();
  elsewhere.devices = {{"192.0.2.9"}};
  const auto store = std::make_shared<HashStore>();
  testing::run_threads(2, [&](int rank) {
    const auto text = message_of<UsageError>([&] {
      ProcessGroup::make(make_gloo_factory(rank == 0 ? loopback() : elsewhere),
                         store, rank, 2, {});
    });
    EXPECT_THAT(text, HasSubstr("192.0.2.9"));
  });
}

TEST(GlooBackend, OptionsAreChecked) {
  const auto message = [](const GlooOptions& options) {
    return message_of<UsageError>([&] {
      ProcessGroup::make(make_gloo_factory(options),
                         std::make_shared<HashStore>(), 0, 2, {});
    });
  };
  GlooOptions options = loopback();
  options.threads = 0;
  EXPECT_THAT(message(options), HasSubstr("threads is 0"));
  options = loopback();
  options.short_bytes = size_t{1} << 30;
  EXPECT_THAT(message(options), HasSubstr("short_bytes"));
  options = loopback();
  options.window_bytes = 65;
  EXPECT_THAT(message(options), HasSubstr("window_bytes is 65"));
  const ScopedEnv algorithm("LOCKSTEP_GLOO_ALGORITHM", "star");
  EXPECT_THAT(message(loopback()), HasSubstr("ring, bcube or direct"));
}

TEST(GlooBackend, ThereMustBeAStore) {
  EXPECT_THAT(message_of<UsageError>([] {
                ProcessGroup::make(make_gloo_factory(), nullptr, 0, 2, {});
              }),
              HasSubstr("store"));
}

// What has arrived of a message whose receive gave up is not lost.
TEST(GlooBackend, AMessageSurvivesReceivesThatGiveUp) {
  run_ranks({2, loopback()}, [](ProcessGroup& group) {
    std::vector<uint8_t> x(size_t{40} << 20);
    if (group.rank() == 0) {
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<uint8_t>(i % 251);
      group.send(buffer_of(x), 1)->wait();
      return;
    }
    int tries = 0;
    for (;; ++tries) {
      CallOptions options;
      options.timeout = 1ms;
      try {
        group.recv(buffer_of(x), 0, 0, options)->wait();
        break;
      } catch (const TimeoutError&) {
        ASSERT_LT(tries, 10'000);
      }
    }
    bool right = true;
    for (size_t i = 0; i < x.size(); ++i) right = right && x[i] == i % 251;
    EXPECT_TRUE(right) << "after " << tries << " tries";
  });
}

TEST(OneHost, IsFoundThroughTheStore) {
  const auto store = std::make_shared<HashStore>();
  testing::run_threads(3, [&](int rank) {
    EXPECT_TRUE(detail::is_one_host(store, rank, 3, Deadline::in(20s)));
  });
  // Somebody else was here before.
  const auto other = std::make_shared<HashStore>();
  other->set("host", "another machine");
  testing::run_threads(2, [&](int rank) {
    EXPECT_FALSE(detail::is_one_host(other, rank, 2, Deadline::in(20s)));
  });
}

}  // namespace
}  // namespace lockstep
