// SPDX-License-Identifier: Apache-2.0
// What a store server that is broken, or none, can answer: every call on the
// client ends in time, with a result of the right shape or with an Error.
//
// Input: how to read it, the calls to make; then bytes for the wire as they
// are, or a script of answers, or what comes in place of the handshake.

#include <memory>
#include <vector>

#include "fuzz/fuzz_mad_server.h"
#include "lockstep/base/log.h"
#include "lockstep/base/thread.h"
#include "lockstep/store/tcp_store.h"

namespace lockstep::fuzz {
namespace {

using namespace std::chrono_literals;

// More than a server that does not read lets us send.
const ByteVector& large() {
  static const ByteVector value(6 << 20);
  return value;
}

void make_call(TcpStore& store, uint8_t call) {
  switch (call % 15) {
    case 0:
      return store.set("key", "value");
    case 1:
      return store.multi_set({"a", "b"}, {{}, {}});
    case 2:
      store.get("key");
      return;
    case 3:
      return require(store.multi_get({"a", "b"}).size() == 2,
                     "as many values as keys");
    case 4:
      return store.wait({"a", "b"});
    case 5:
      store.check({"a"});
      return;
    case 6:
      store.add("key", 1);
      return;
    case 7:
      return store.append("key", "value");
    case 8:
      store.compare_set("key", "old", "new");
      return;
    case 9:
      store.delete_key("key");
      return;
    case 10:
      store.num_keys("k");
      return;
    case 11:
      return store.push("queue", "value");
    case 12:
      store.pop("queue");
      return;
    case 13:
      return store.set("key", large());
    default:
      store.length("queue");
  }
}

// Anything but an Error goes through, and is a finding.
template <class Action>
void expect_end(Action action) {
  const auto deadline = soon();
  try {
    action();
  } catch (const Error& error) {
    require(error.kind() != ErrorKind::kInternal, "no invariant of ours");
  }
  require(!deadline.passed(), "every call ends");
}

// What the client is to do.
struct Plan {
  explicit Plan(Input& input) {
    const uint8_t how = input.u8();
    mode = static_cast<Mode>(how % 3);
    together = how >= 0x80;
    calls.resize(1 + input.u8() % kMostCalls);
    for (auto& call : calls) call = input.u8();
  }
  Mode mode;
  bool together;  // each call on a thread of its own
  std::vector<uint8_t> calls;
};

void run(const Listener& listener, const Plan& plan) {
  const bool will_connect = plan.mode != Mode::kImpostor;
  const TcpStoreOptions options{will_connect ? 5s : 3 * kCallTimeout,
                                kCallTimeout};
  std::unique_ptr<TcpStore> store;
  expect_end([&] {
    store = std::make_unique<TcpStore>("127.0.0.1", listener.address().port(),
                                       kSecret, options);
  });
  require((store != nullptr) == will_connect, "a handshake decides");
  if (!store) return;
  std::vector<Thread> threads;
  for (const uint8_t call : plan.calls) {
    const auto make = [&, call] {
      expect_end([&] { make_call(*store, call); });
    };
    if (plan.together) threads.emplace_back("caller", make);
    if (!plan.together) make();
  }
}

// Its connections have little room, so that a client soon has to wait.
Listener listen() {
  Listener listener(resolve({"127.0.0.1", 0}, soon()).front());
  const int room = 4096;
  ::setsockopt(listener.fd(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  return listener;
}

}  // namespace
}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::fuzz;
  lockstep::set_log_level(lockstep::LogLevel::kOff);
  static lockstep::Listener listener = listen();
  Input input(data, size);
  const Plan plan(input);
  {
    const lockstep::Thread server("mad-server",
                                  [&] { serve(listener, plan.mode, input); });
    run(listener, plan);
  }
  while (listener.accept_now()) continue;  // who tried again
  return 0;
}
