// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "lockstep/base/thread.h"

namespace lockstep {

// The log: few lines, each worth reading. It goes to standard error; the
// variable LOCKSTEP_LOG chooses from which level on (debug, info, warn, error,
// off; info unless told).
//
// Threads: every function from any thread; a line is never torn.
enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };

void log(LogLevel level, const std::string& message);
inline void log_debug(const std::string& m) { log(LogLevel::kDebug, m); }
inline void log_info(const std::string& m) { log(LogLevel::kInfo, m); }
inline void log_warn(const std::string& m) { log(LogLevel::kWarn, m); }
inline void log_error(const std::string& m) { log(LogLevel::kError, m); }

void set_log_level(LogLevel level);

// Sends lines to `sink` instead of standard error, for a program with a log
// of its own and for tests; an empty sink goes back. Returns the one before.
// The sink is called under the log's lock and must not log.
using LogSink = std::function<void(LogLevel, const std::string&)>;
LogSink set_log_sink(LogSink sink);

// Lets one line through per interval and counts the rest, so that a flood
// from outside cannot fill the disk.
//
//   if (auto skipped = limiter.admit()) log_warn(... *skipped ...);
class LogLimiter {
 public:
  explicit LogLimiter(std::chrono::steady_clock::duration interval)
      : interval_(interval) {}

  // How many were held back since the last line, when this one may go.
  std::optional<int64_t> admit();

 private:
  const std::chrono::steady_clock::duration interval_;
  std::mutex mutex_;
  std::optional<std::chrono::steady_clock::time_point> last_
      LOCKSTEP_GUARDED_BY(mutex_);
  int64_t skipped_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep
