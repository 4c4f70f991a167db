// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/thread.h"
#include "lockstep/comm/process_group.h"

namespace lockstep::detail {

// The lanes of a Reducer: its own, and others by name, among the same ranks.
// When one lane fails all of them fail, on all ranks, so that no rank waits on
// one lane because another has failed.
//
// Threads: as for a group; a lane may fail on any thread.
class Lanes {
 public:
  using Group = std::shared_ptr<ProcessGroup>;

  // Opens the Reducer's own lane and drops the lanes from before, so that no
  // old operation can pair with a new one. A collective that blocks.
  void open(const Group& parent, std::optional<Deadline::Duration> timeout);

  const Group& own() const { return own_; }

  // The lane of this name. The first call opens it: a collective that blocks.
  // Errors: what ended the lanes, if they have failed.
  Group get(const std::string& name);

  // Fails all lanes, unless they have failed already.
  void abort(const std::string& reason);
  // The first failure of any of them, or null.
  std::exception_ptr failure() const;

 private:
  // Fails all lanes when one fails. The lanes' notices hold it, as they may
  // outlive this object.
  class Fate;

  Group open_one(ProcessGroup& parent, const std::string& name);

  std::optional<Deadline::Duration> timeout_;
  std::shared_ptr<Fate> fate_;
  Group own_;
  std::map<std::string, Group> others_;
};

}  // namespace lockstep::detail
