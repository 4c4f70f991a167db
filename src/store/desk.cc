// SPDX-License-Identifier: Apache-2.0
#include "store/desk.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

// Whether it can make something appear that others wait for.
bool is_making(StoreOp op) {
  return is_change(op) && op != StoreOp::kPop && op != StoreOp::kDelete;
}

}  // namespace

void Desk::ask(uint64_t client, uint64_t id, StoreRequest request,
               std::vector<Ready>& ready) {
  LOCKSTEP_CHECK(!waiting_.has(client, id), PeerError,
                 "a request with the number {} of one that still waits", id);
  // The places where others may wait for this; mostly nobody waits at all.
  std::vector<std::string> places;
  if (waiting_.size() > 0 && is_making(request.op)) {
    for (const auto& key : request.keys) {
      places.push_back(WaitingRoom::place(request.op, key));
    }
  }
  if (!attempt({client, id, std::move(request)}, ready)) return;
  // Those who waited change nothing that others wait for: a pop takes away.
  for (const auto& place : places) {
    for (auto& waiter : waiting_.take(place)) {
      attempt(std::move(waiter), ready);
    }
  }
}

// Answers, or seats it in the waiting room. True when something has changed.
bool Desk::attempt(WaitingRoom::Waiter waiter, std::vector<Ready>& ready) {
  Ready one{waiter.client, waiter.id, {}};
  bool changed = false;
  try {
    auto outcome = dictionary_.apply(waiter.request);
    if (!outcome) {
      const auto missing = dictionary_.first_missing(waiter.request);
      waiting_.add(WaitingRoom::place(waiter.request.op, *missing),
                   std::move(waiter));
      return false;
    }
    changed = outcome->changed;
    one.answer.reply = std::move(outcome->reply);
  } catch (const UsageError& error) {
    one.answer.status = codec::Status::kRefused;
    one.answer.text = error.what();
  }
  ready.push_back(std::move(one));
  return changed;
}

void Desk::take_back(uint64_t client, uint64_t id, std::vector<Ready>& ready) {
  const auto waiter = waiting_.take_one(client, id);
  if (!waiter) return;
  Ready one{client, id, {}};
  one.answer.status = codec::Status::kCancelled;
  one.answer.missing = dictionary_.missing(waiter->request);
  ready.push_back(std::move(one));
}

}  // namespace lockstep::detail
