// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/log.h"
#include "lockstep/trace/trace.h"
#include "support/scoped_env.h"
#include "unit/ddp/wrapper_models.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;
using namespace std::chrono_literals;

TEST(DdpStats, SayWhatItWasMadeOf) {
  const ScopedEnv address("MASTER_ADDR", "10.1.2.3");
  on_ranks(2, [](const SharedGroup& group) {
    DdpOptions options;
    options.bucket_caps_bytes = {16};
    Net net;
    DistributedDataParallel ddp(net, group, options);
    const DdpStats stats = ddp.stats();
    EXPECT_THAT(stats.module_name, HasSubstr("Net"));
    EXPECT_EQ(stats.world_size, 2);
    EXPECT_EQ(stats.rank, group->rank());
    EXPECT_EQ(stats.iteration, 0);
    EXPECT_EQ(stats.num_parameter_tensors, 5U);
    EXPECT_EQ(stats.total_parameter_size_bytes, (2 + 6 + 3 + 6 + 2) * 4U);
    EXPECT_THAT(stats.dtypes, ElementsAre("Float"));
    EXPECT_THAT(stats.bucket_cap_bytes, ElementsAre(16));
    size_t sum = 0;
    for (const size_t bytes : stats.bucket_sizes) sum += bytes;
    EXPECT_EQ(sum, stats.total_parameter_size_bytes);
    EXPECT_EQ(stats.backend_name, "local");
    EXPECT_TRUE(stats.broadcast_buffers);
    EXPECT_FALSE(stats.has_sync_bn);
    EXPECT_EQ(stats.environment.at("master_addr"), "10.1.2.3");
    EXPECT_EQ(stats.environment.at("gloo_num_threads"), "N/A");
  });
}

TEST(DdpStats, SayWhatHappened) {
  on_ranks(2, [](const SharedGroup& group) {
    DdpOptions options;
    options.bucket_caps_bytes = {1};
    Net net;
    DistributedDataParallel ddp(net, group, options);
    for (int i = 0; i < 3; ++i) step(ddp, group->rank());
    const DdpStats stats = ddp.stats();
    EXPECT_EQ(stats.iteration, 3);
    EXPECT_EQ(stats.steps, 3);
    EXPECT_EQ(stats.samples, 3);
    EXPECT_TRUE(stats.has_rebuilt_buckets);
    EXPECT_EQ(stats.rebuilt_bucket_sizes.size(), 5U);
    EXPECT_EQ(stats.rebuilt_per_bucket_param_indices.size(), 5U);
    // scale is used last, so its gradient comes first.
    EXPECT_EQ(stats.prev_iteration_grad_ready_order_indices.front(), 0U);
    EXPECT_TRUE(stats.can_set_static_graph);
    EXPECT_FALSE(stats.has_error);
    EXPECT_GT(stats.forward_compute_time, 0ns);
    EXPECT_GT(stats.backward_compute_time, 0ns);
    EXPECT_GT(stats.backward_comm_time, 0ns);
    EXPECT_GT(stats.avg_backward_comm_time, 0ns);
    const StepTimes& last = stats.last_step;
    EXPECT_LE(last.forward.end, last.backward.start);
    EXPECT_LE(last.backward.start, last.communication.start);
    EXPECT_LE(last.communication.start, last.backward.end);
    EXPECT_LE(last.busy, last.communication.duration());
    EXPECT_GE(stats.overlap(), 0);
    EXPECT_LE(stats.overlap(), 1);
  });
}

TEST(DdpStats, AreJsonWithTheSameNames) {
  on_ranks(1, [](const SharedGroup& group) {
    Net net;
    DistributedDataParallel ddp(net, group);
    step(ddp, 0);
    const DdpStats stats = ddp.stats();
    const auto json = nlohmann::json::parse(stats.to_json());
    EXPECT_EQ(json["iteration"], 1);
    EXPECT_EQ(json["num_parameter_tensors"], 5);
    EXPECT_EQ(json["backward_comm_time"], stats.backward_comm_time.count());
    EXPECT_EQ(json["last_step"]["exposed"], stats.last_step.exposed.count());
    EXPECT_EQ(json["master_addr"], "N/A");
    for (const char* name : {"module_name",
                             "world_size",
                             "rank",
                             "is_multi_device_module",
                             "total_parameter_size_bytes",
                             "dtypes",
                             "bucket_sizes",
                             "device_ids",
                             "output_device",
                             "broadcast_buffers",
                             "has_sync_bn",
                             "bucket_cap_bytes",
                             "find_unused_parameters",
                             "gradient_as_bucket_view",
                             "backend_name",
                             "static_graph",
                             "comm_hook",
                             "join_uneven_inputs",
                             "master_port",
                             "torch_distributed_debug",
                             "cuda_visible_devices",
                             "gloo_socket_ifname",
                             "gloo_device_transport",
                             "gloo_num_threads",
                             "unused_parameter_size",
                             "has_rebuilt_buckets",
                             "rebuilt_bucket_sizes",
                             "rebuilt_per_bucket_param_indices",
                             "prev_iteration_grad_ready_order_indices",
                             "can_set_static_graph",
                             "forward_compute_time",
                             "backward_compute_time",
                             "backward_compute_comm_overlap_time",
                             "avg_forward_compute_time",
                             "avg_backward_compute_time",
                             "avg_backward_comm_time",
                             "avg_backward_compute_comm_overlap_time",
                             "has_error",
                             "error"}) {
      EXPECT_TRUE(json.contains(name)) << name;
    }
  });
}

TEST(DdpStats, SampleTheFirstTenStepsAndThenSome) {
  std::vector<std::string> lines;
  set_log_level(LogLevel::kDebug);
  const LogSink before = set_log_sink([&](LogLevel, const std::string& line) {
    if (line.find("iteration ") != std::string::npos) lines.push_back(line);
  });
  on_ranks(1, [](const SharedGroup& group) {
    DdpOptions options;
    options.stats_sample_rate = 7;
    Net net;
    DistributedDataParallel ddp(net, group, options);
    std::vector<int64_t> samples;
    for (int i = 0; i < 21; ++i) {
      step(ddp, 0);
      samples.push_back(ddp.stats().samples);
      EXPECT_EQ(ddp.stats().steps, i + 1);  // every one is measured
    }
    EXPECT_EQ(samples[9], 10);
    EXPECT_EQ(samples[12], 10);
    EXPECT_EQ(samples[13], 11);  // the 14th
    EXPECT_EQ(samples[20], 12);  // the 21st
  });
  set_log_sink(before);
  set_log_level(LogLevel::kInfo);
  ASSERT_EQ(lines.size(), 12U);
  EXPECT_THAT(lines.back(), HasSubstr("rank 0, iteration 21"));
  EXPECT_THAT(lines.back(), HasSubstr("hook all_reduce"));
}

// A hook whose results come late: what backward hides and what it does not.
TEST(DdpStats, TellHiddenCommunicationFromExposed) {
  on_ranks(1, [](const SharedGroup& group) {
    DdpOptions options;
    options.bucket_caps_bytes = {1};
    Net net;
    DistributedDataParallel ddp(net, group, options);
    std::vector<std::thread> threads;
    std::vector<std::shared_ptr<Promise<at::Tensor>>> promises;
    // The first bucket lands while backward runs, the last one afterwards.
    ddp.register_comm_hook([&](const GradBucket& bucket) {
      auto promise = std::make_shared<Promise<at::Tensor>>();
      if (bucket.is_last()) {
        threads.emplace_back([promise, buffer = bucket.buffer()] {
          std::this_thread::sleep_for(200ms);
          promise->set_value(buffer);
        });
      } else {
        promise->set_value(bucket.buffer());
      }
      return promise->future();
    });
    trace::clear();
    trace::start();
    step(ddp, 0);
    trace::stop();
    for (auto& thread : threads) thread.join();
    const StepTimes last = ddp.stats().last_step;
    EXPECT_GE(last.busy, 200ms);
    EXPECT_GT(last.exposed, 50ms);
    EXPECT_LT(last.exposed, last.busy + 100ms);  // it takes time to wake up
    // The trace says the same.
    int64_t waited = -1;
    for (const auto& one : trace::snapshot()) {
      for (const auto& event : one.events) {
        if (event.name == std::string("wait for buckets")) {
          waited = event.duration_ns;
        }
      }
    }
    EXPECT_GE(waited, last.exposed.count());
    EXPECT_LT(waited, last.exposed.count() + 100'000'000);
  });
}

}  // namespace
}  // namespace lockstep
