// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/lanes.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {

class Lanes::Fate : public std::enable_shared_from_this<Fate> {
 public:
  void add(const Group& lane) {
    std::exception_ptr too_late;
    {
      const std::lock_guard lock(mutex_);
      lanes_.push_back(lane);
      too_late = first_;
    }
    if (too_late) lane->abort(too_late);
    // Weakly, because the lane owns the notice.
    lane->on_failure([weak = weak_from_this()](const auto& cause) {
      if (const auto self = weak.lock()) self->end_all(cause);
    });
  }

  void end_all(const std::exception_ptr& cause) {
    std::vector<std::weak_ptr<ProcessGroup>> lanes;
    {
      const std::lock_guard lock(mutex_);
      if (first_) return;
      first_ = cause;
      lanes = lanes_;
    }
    for (const auto& one : lanes) {
      const Group lane = one.lock();
      if (lane && !lane->failure()) lane->abort(cause);
    }
  }

  std::exception_ptr first() const {
    const std::lock_guard lock(mutex_);
    return first_;
  }

 private:
  mutable std::mutex mutex_;
  std::exception_ptr first_ LOCKSTEP_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<ProcessGroup>> lanes_ LOCKSTEP_GUARDED_BY(mutex_);
};

void Lanes::open(const Group& parent,
                 std::optional<Deadline::Duration> timeout) {
  others_.clear();
  timeout_ = timeout;
  fate_ = std::make_shared<Fate>();
  own_ = open_one(*parent, "ddp");
}

Lanes::Group Lanes::open_one(ProcessGroup& parent, const std::string& name) {
  Group lane = parent.duplicate(name, timeout_);
  fate_->add(lane);
  return lane;
}

Lanes::Group Lanes::get(const std::string& name) {
  Group& lane = others_[name];
  if (!lane) lane = open_one(*own_, name);
  return lane;
}

void Lanes::abort(const std::string& reason) {
  if (own_ && !own_->failure()) own_->abort(reason);
}

std::exception_ptr Lanes::failure() const {
  return fate_ ? fate_->first() : nullptr;
}

}  // namespace lockstep::detail
