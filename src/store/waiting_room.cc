// SPDX-License-Identifier: Apache-2.0
#include "store/waiting_room.h"

namespace lockstep::detail {

void WaitingRoom::add(const std::string& place, Waiter waiter) {
  const Name name{waiter.client, waiter.id};
  const uint64_t arrival = arrivals_++;
  places_[place].emplace(arrival, name);
  waiters_[name] = {place, arrival, std::move(waiter)};
}

std::vector<WaitingRoom::Waiter> WaitingRoom::take(const std::string& place) {
  std::vector<Waiter> taken;
  const auto found = places_.find(place);
  if (found == places_.end()) return taken;
  for (const auto& [arrival, name] : found->second) {
    const auto seat = waiters_.find(name);
    taken.push_back(std::move(seat->second.waiter));
    waiters_.erase(seat);
  }
  places_.erase(found);
  return taken;
}

std::optional<WaitingRoom::Waiter> WaitingRoom::take_one(uint64_t client,
                                                         uint64_t id) {
  const auto seat = waiters_.find({client, id});
  if (seat == waiters_.end()) return std::nullopt;
  leave(seat->second);
  Waiter waiter = std::move(seat->second.waiter);
  waiters_.erase(seat);
  return waiter;
}

void WaitingRoom::drop_client(uint64_t client) {
  auto seat = waiters_.lower_bound({client, 0});
  while (seat != waiters_.end() && seat->first.first == client) {
    leave(seat->second);
    seat = waiters_.erase(seat);
  }
}

void WaitingRoom::leave(const Seat& seat) {
  const auto found = places_.find(seat.place);
  found->second.erase(seat.arrival);
  if (found->second.empty()) places_.erase(found);
}

}  // namespace lockstep::detail
