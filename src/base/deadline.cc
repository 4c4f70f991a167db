// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/deadline.h"

#include <algorithm>
#include <climits>

#include <fmt/format.h>

namespace lockstep {

using std::chrono::milliseconds;

Deadline Deadline::in(Duration duration) {
  const auto now = Clock::now();
  const auto room = Clock::time_point::max() - now;
  return Deadline(duration < room ? now + duration : Clock::time_point::max());
}

Deadline::Duration Deadline::remaining() const {
  return std::max(time_ - Clock::now(), Duration::zero());
}

int Deadline::poll_timeout() const {
  const auto left = std::chrono::ceil<milliseconds>(remaining()).count();
  return static_cast<int>(std::min<decltype(left)>(left, INT_MAX));
}

std::string to_text(Deadline::Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  if (seconds >= 120) return fmt::format("{:.3g} min", seconds / 60);
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds <= 0) return "0 ms";
  return fmt::format("{:.3g} us", seconds * 1e6);
}

}  // namespace lockstep
