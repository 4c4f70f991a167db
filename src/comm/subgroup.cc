// SPDX-License-Identifier: Apache-2.0
// Groups made from groups.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "comm/group_impl.h"

namespace lockstep {
namespace {

constexpr size_t kMostName = 64;

CallOptions blocking() {
  CallOptions options;
  options.sync = true;
  return options;
}

}  // namespace

std::shared_ptr<ProcessGroup> ProcessGroup::make_child(int rank, int size,
                                                       GroupOptions options) {
  GroupPlace place;
  place.rank = rank;
  place.size = size;
  place.check = [parent = weak_from_this()] {
    if (const auto group = parent.lock()) group->impl_->backend().check();
  };
  return make(impl_->factory(), impl_->place().store, std::move(place),
              std::move(options));
}

std::shared_ptr<ProcessGroup> ProcessGroup::duplicate(
    const std::string& name, std::optional<Deadline::Duration> timeout) {
  const auto where = [&] { return impl_->context("duplicate"); };
  return detail::with_context(where, [&] {
    LOCKSTEP_CHECK(!name.empty() && name.size() < kMostName, UsageError,
                   "the name of a group has 1 to {} characters, '{}' has {}",
                   kMostName - 1, name, name.size());
    LOCKSTEP_CHECK(name.find_first_of("/:") == std::string::npos, UsageError,
                   "the name '{}' has a '/' or ':', which names of sub-groups "
                   "use themselves",
                   name);
    const int64_t number = sequence_number();
    std::array<uint8_t, kMostName> mine{};
    std::memcpy(mine.data(), name.data(), name.size());
    std::vector<uint8_t> all(kMostName * static_cast<size_t>(size()));
    all_gather(buffer_of(mine.data(), mine.size()), buffer_of(all), {},
               blocking());
    for (int rank = 0; rank < size(); ++rank) {
      const std::string theirs(reinterpret_cast<const char*>(
          all.data() + static_cast<size_t>(rank) * kMostName));
      LOCKSTEP_CHECK(theirs == name, MismatchError,
                     "rank {} names the new group '{}', rank {} '{}'",
                     this->rank(), name, rank, theirs);
    }
    GroupOptions options = impl_->options();
    options.name = fmt::format("{}/{}.{}", this->name(), name, number);
    if (timeout) options.timeout = *timeout;
    return make_child(rank(), size(), std::move(options));
  });
}

std::shared_ptr<ProcessGroup> ProcessGroup::split(int color, int key) {
  const auto where = [&] { return impl_->context("split"); };
  return detail::with_context(where, [&]() -> std::shared_ptr<ProcessGroup> {
    LOCKSTEP_CHECK(color >= 0 || color == kNoGroup, UsageError,
                   "color is {}; it is 0 or more, or kNoGroup", color);
    const int64_t number = sequence_number();
    std::vector<int64_t> mine = {color, key};
    std::vector<int64_t> all(2 * static_cast<size_t>(size()));
    all_gather(buffer_of(mine), buffer_of(all), {}, blocking());
    if (color == kNoGroup) return nullptr;
    std::vector<std::pair<int64_t, int>> members;  // (key, rank here)
    for (int rank = 0; rank < size(); ++rank) {
      const size_t at = 2 * static_cast<size_t>(rank);
      if (all[at] == color) members.emplace_back(all[at + 1], rank);
    }
    std::sort(members.begin(), members.end());
    const auto me = std::find_if(
        members.begin(), members.end(),
        [&](const auto& member) { return member.second == rank(); });
    GroupOptions options = impl_->options();
    options.name = fmt::format("{}/{}:{}", this->name(), number, color);
    return make_child(static_cast<int>(me - members.begin()),
                      static_cast<int>(members.size()), std::move(options));
  });
}

}  // namespace lockstep
