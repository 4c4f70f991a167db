// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include "lockstep/comm/backend.h"

namespace lockstep::detail {

// How the ranks that make a group hear at once that one of them cannot: it says
// why in the store of the group, where the others look while they wait.
//
//   Refusal refusal(place, "shm/refused");
//   try {
//     ...                                 // what may fail here alone
//   } catch (const Error&) {
//     refusal.refuse(std::current_exception());
//   }
//   meet(store, ..., [&] { refusal.look(); });
class Refusal {
 public:
  // `key` belongs to this meeting alone. The time to make the group in, which
  // is also that of a store that does not answer, begins now.
  Refusal(const GroupPlace& place, std::string key);

  // Tells the others, if it is the first. look() throws `error` from now on.
  void refuse(const std::exception_ptr& error);

  // Throws when one of the ranks has refused, or there is no use in waiting.
  void look();

 private:
  const GroupPlace& place_;
  const std::string key_;
  const Deadline deadline_;
  std::exception_ptr own_;
};

}  // namespace lockstep::detail
