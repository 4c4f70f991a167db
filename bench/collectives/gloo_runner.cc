// SPDX-License-Identifier: Apache-2.0
// Gloo, through its own C++ API, over TCP.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "binding.h"
#include "collectives/runner.h"

namespace lockstep::bench {
namespace {

// Gloo's ranks meet in our store, so that no file is left by a killed run.
class Meeting : public gloo::rendezvous::Store {
 public:
  explicit Meeting(std::shared_ptr<lockstep::Store> store)
      : store_(std::move(store)) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_->set(key, std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = to_string(store_->get(key));
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    store_->wait(keys);
  }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    store_->wait(keys, Deadline::in(timeout));
  }

 private:
  const std::shared_ptr<lockstep::Store> store_;
};

class GlooRunner : public Runner {
 public:
  using Algorithm = gloo::AllreduceOptions::Algorithm;

  explicit GlooRunner(const Place& place)
      : interface_(place.interface),
        algorithm_(place.variant == "bcube" ? Algorithm::BCUBE
                                            : Algorithm::UNSPECIFIED) {
    auto device = make_device(place);
    auto context =
        std::make_shared<gloo::rendezvous::Context>(place.rank, place.size);
    Meeting meeting(place.store);
    context->connectFullMesh(meeting, device);
    context_ = std::move(context);
  }

  std::string settings() const override {
    return fmt::format(
        "Gloo {}.{}.{}, TCP on {}, {} all-reduce, its device's thread bound to "
        "another core than the rank",
        GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH, interface_,
        algorithm_ == Algorithm::BCUBE ? "bcube" : "ring (its default)");
  }

  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  void all_reduce(float* data, size_t count) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(data, count);
    options.setAlgorithm(algorithm_);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(
            &gloo::sum<float>));
    gloo::allreduce(options);
  }
  void broadcast(float* data, size_t count) override {
    gloo::BroadcastOptions options(context_);
    options.setOutput(data, count);
    options.setRoot(0);
    gloo::broadcast(options);
  }
  void all_gather(float* data, size_t count) override {
    gloo::AllgatherOptions options(context_);
    options.setOutput(data, count);
    gloo::allgather(options);
  }
  // What Gloo has of it is no whole operation: it returns while its input is
  // still being sent. Its users do as we do here.
  void reduce_scatter(float* in, float* out, size_t count) override {
    all_reduce(in, count);
    const size_t part = count / static_cast<size_t>(context_->size);
    std::copy_n(in + part * static_cast<size_t>(context_->rank), part, out);
  }

 private:
  // Its thread asks again and again for a lock that the rank's own thread may
  // hold. On one core that costs a tick of the scheduler at each turn, 4 ms in
  // place of 0.3 ms for 1 KB; and it may start anywhere if it is not bound.
  static std::shared_ptr<gloo::transport::Device> make_device(
      const Place& place) {
    const Binding there(place.spare_cpu);
    gloo::transport::tcp::attr way;
    way.iface = place.interface;
    return gloo::transport::tcp::CreateDevice(way);
  }

  const std::string interface_;
  const Algorithm algorithm_;

  std::shared_ptr<gloo::Context> context_;
};

}  // namespace

std::unique_ptr<Runner> make_runner(const Place& place) {
  return std::make_unique<GlooRunner>(place);
}

}  // namespace lockstep::bench
