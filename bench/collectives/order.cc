// SPDX-License-Identifier: Apache-2.0
#include "collectives/order.h"

#include <sstream>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::bench {

const char* collective_of(Task task) {
  switch (task) {
    case Task::kBroadcast:
      return "broadcast";
    case Task::kAllGather:
      return "all_gather";
    case Task::kReduceScatter:
      return "reduce_scatter";
    default:
      return "all_reduce";
  }
}

std::string to_text(const Order& order) {
  return fmt::format("{} {:d} {} {} {:d}", static_cast<int>(order.task),
                     order.registered, order.bytes, order.times, order.single);
}

Order parse_order(const std::string& text) {
  Order order;
  int task = 0;
  std::istringstream words(text);
  words >> task >> order.registered >> order.bytes >> order.times >>
      order.single;
  LOCKSTEP_CHECK(!words.fail(), PeerError, "'{}' is no order", text);
  order.task = static_cast<Task>(task);
  return order;
}

std::string to_text(const Answer& answer) {
  return fmt::format("{} {} {}", answer.mean, answer.median, answer.p99);
}

Answer parse_answer(const std::string& text) {
  Answer answer;
  std::istringstream words(text);
  words >> answer.mean >> answer.median >> answer.p99;
  LOCKSTEP_CHECK(!words.fail(), PeerError, "'{}' is no answer", text);
  return answer;
}

std::string order_queue(int rank) { return fmt::format("orders/{}", rank); }

}  // namespace lockstep::bench
