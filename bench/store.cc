// SPDX-License-Identifier: Apache-2.0
// How many operations per second a store server acknowledges: ours and Redis.
//
// Every client is a thread with a connection of its own and one request in
// flight: it sets a key, then gets it back and looks at what it got. Both
// servers are processes of their own, on loopback TCP. More is better.
//
// In the case "set+get" threads run where the system puts them: what a program
// sees, and at its mercy. In "set+get/core" server and clients share one core:
// what a pair costs, all in all, and much steadier.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "binding.h"
#include "child_process.h"
#include "lockstep/base/error.h"
#include "lockstep/store/tcp_store.h"
#include "lockstep/store/tcp_store_server.h"
#include "redis.h"
#include "support.h"

using namespace std::chrono_literals;

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kMeasureTime = 100ms;  // twice per round for each of both
const std::string kValue(32, 'v');

std::string key_of(int client) { return fmt::format("client/{}/key", client); }

// One client's next set and get, which are two operations.
using Pair = std::function<void()>;

void check_got(bool same) {
  LOCKSTEP_CHECK(same, InternalError, "a get did not return what was set");
}

std::vector<Pair> connect_to_ours(uint16_t port, int clients) {
  std::vector<Pair> pairs;
  for (int i = 0; i < clients; ++i) {
    auto store = std::make_shared<TcpStore>("127.0.0.1", port, "");
    store->set_timeout(10s);
    pairs.push_back([store, key = key_of(i)] {
      store->set(key, kValue);
      check_got(ConstBytes(store->get(key)) == ConstBytes(kValue));
    });
  }
  return pairs;
}

std::vector<Pair> connect_to_redis(uint16_t port, int clients) {
  std::vector<Pair> pairs;
  for (int i = 0; i < clients; ++i) {
    auto client = std::make_shared<RedisClient>(port);
    pairs.push_back([client, key = key_of(i)] {
      client->set(key, kValue);
      check_got(client->get(key) == kValue);
    });
  }
  return pairs;
}

// Operations per second of all clients together, from the moment they start
// together until the last has its last answer.
double measure(const std::vector<Pair>& clients) {
  std::atomic<bool> stop{false};
  std::vector<std::future<int64_t>> counts;  // joins its threads at the end
  std::promise<void> start;  // goes first: if never kept, no thread starts
  const std::shared_future<void> started = start.get_future().share();
  counts.reserve(clients.size());
  for (const Pair& pair : clients) {
    counts.push_back(std::async(std::launch::async, [&pair, &stop, started] {
      started.get();
      int64_t count = 0;
      for (; !stop.load(std::memory_order_relaxed); count += 2) pair();
      return count;
    }));
  }
  const auto begin = Clock::now();
  start.set_value();
  std::this_thread::sleep_for(kMeasureTime);
  stop = true;
  int64_t operations = 0;
  for (auto& count : counts) operations += count.get();
  return static_cast<double>(operations) /
         std::chrono::duration<double>(Clock::now() - begin).count();
}

// Our server, when this program was started as that: tells its port and serves
// until it is killed.
int serve() {
  TcpStoreServer server("127.0.0.1", 0, "");
  fmt::print("{}\n", server.port());
  std::fflush(stdout);
  for (;;) ::pause();
}

uint16_t port_of(ChildProcess& server) {
  return static_cast<uint16_t>(std::stoi(server.read_line(Deadline::in(10s))));
}

// All client counts, each against servers of this case's own.
void run_case(const std::string& name, const std::string& where,
              Report& report) {
  ChildProcess server({"/proc/self/exe", "--serve"});
  const uint16_t port = port_of(server);
  const RedisServer redis;
  report.note(fmt::format("{}: {}; rival: {}", name, where, redis.settings()));
  for (const int clients : {1, 8, 64}) {
    const auto ours = connect_to_ours(port, clients);
    const auto rival = connect_to_redis(redis.port(), clients);
    const auto result = compare(
        report.rounds(), Better::kMore, [&] { return measure(ours); },
        [&] { return measure(rival); });
    report.add({name, "redis", kValue.size(), clients, result});
  }
}

void run_store(Report& report) {
  report.note(fmt::format("operations per second, {} rounds of 2 x {} ms each",
                          report.rounds(), kMeasureTime.count()));
  report.note("ours: TcpStoreServer, TcpStore; a TCP connection per client");
  run_case("set+get", "bound to no core", report);
  const Binding one_core(allowed_cpus().back());
  run_case("set+get/core", "servers and clients bound to one core", report);
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--serve") {
    return lockstep::bench::serve();
  }
  return lockstep::bench::run("store", argc, argv, lockstep::bench::run_store);
}
