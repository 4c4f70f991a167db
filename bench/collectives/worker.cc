// SPDX-License-Identifier: Apache-2.0
// One rank of a team, whichever library it is for: bound to its core, it waits
// in the driver's store for orders, carries them out and answers.
//
//   worker ADDRESS PORT RANK SIZE [VARIANT]
#include <signal.h>
#include <sys/prctl.h>

#include <chrono>
#include <string>

#include <fmt/format.h>

#include "binding.h"
#include "collectives/order.h"
#include "collectives/runner.h"
#include "collectives/workshop.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/store/tcp_store.h"

namespace lockstep::bench {
namespace {

constexpr auto kConnectTime = std::chrono::seconds(10);
constexpr auto kIdleTime = std::chrono::hours(1);

std::string error_text(const Place& place, const std::exception& error) {
  return fmt::format("{}rank {}: {}", kErrorMark, place.rank, error.what());
}

// A failed order is answered at once, before the library is closed: that may
// wait for ranks which wait for us.
std::string answer_to(const std::string& order, const Place& place,
                      Workshop& workshop) {
  try {
    return workshop.carry_out(order);
  } catch (const std::exception& error) {
    return error_text(place, error);
  }
}

void serve(const Place& place) {
  const auto workshop = make_workshop(place);
  place.store->push(kAnswerQueue, workshop->settings());
  for (;;) {
    const std::string order = to_string(
        place.store->pop(order_queue(place.rank), Deadline::in(kIdleTime)));
    if (order.empty()) return;
    place.store->push(kAnswerQueue, answer_to(order, place, *workshop));
  }
}

int work(int argc, char** argv) {
  LOCKSTEP_CHECK(argc >= 5, UsageError,
                 "usage: worker ADDRESS PORT RANK SIZE [VARIANT]");
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Place place;
  place.address = argv[1];
  place.rank = std::stoi(argv[3]);
  place.size = std::stoi(argv[4]);
  if (argc > 5) place.variant = argv[5];
  place.interface = env::text(kInterfaceVariable).value_or("lo");
  const auto port = static_cast<uint16_t>(std::stoi(argv[2]));
  TcpStoreOptions soon;
  soon.connect_timeout = kConnectTime;
  place.store =
      std::make_shared<TcpStore>(place.address, port, kTeamSecret, soon);
  // A rank whose launcher has bound it has no other choice, and keeps it. The
  // spare core is nobody's own when there are enough, else the next rank's.
  const auto cpus = allowed_cpus();
  const auto rank = static_cast<size_t>(place.rank);
  const auto size = static_cast<size_t>(place.size);
  const size_t spare = rank + (size < cpus.size() ? size : 1);
  place.spare_cpu = cpus[spare % cpus.size()];
  const Binding here(cpus[rank % cpus.size()]);
  try {
    serve(place);
    return 0;
  } catch (const std::exception& error) {
    place.store->push(kAnswerQueue, error_text(place, error));
    return 1;
  }
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  try {
    return lockstep::bench::work(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", argv[0], error.what());
    return 1;
  }
}
