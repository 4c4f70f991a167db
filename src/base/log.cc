// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/log.h"

#include <memory>
#include <utility>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "lockstep/base/env.h"

namespace lockstep {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

struct Log {
  Log() : logger("lockstep", std::make_shared<Console>()) {
    logger.set_pattern("%H:%M:%S.%e lockstep %^%l%$: %v");
    const std::string wish = env::text("LOCKSTEP_LOG").value_or("info");
    const auto level = spdlog::level::from_str(wish == "error" ? "err" : wish);
    logger.set_level(level);
    logger.flush_on(spdlog::level::debug);
    if (level == spdlog::level::off && wish != "off") {
      logger.set_level(spdlog::level::info);
      logger.warn(
          "LOCKSTEP_LOG='{}' is no level; using info (choose among "
          "debug, info, warn, error, off)",
          wish);
    }
  }

  using Console = spdlog::sinks::stderr_color_sink_mt;
  spdlog::logger logger;
  std::mutex mutex;
  LogSink sink LOCKSTEP_GUARDED_BY(mutex);
};

// Never destroyed: threads may log while the process ends.
Log& the_log() {
  static Log* log = new Log;
  return *log;
}

}  // namespace

void log(LogLevel level, const std::string& message) {
  Log& log = the_log();
  {
    std::lock_guard<std::mutex> lock(log.mutex);
    if (log.sink) return log.sink(level, message);
  }
  log.logger.log(spdlog_level(level), "{}", message);
}

void set_log_level(LogLevel level) {
  the_log().logger.set_level(spdlog_level(level));
}

LogSink set_log_sink(LogSink sink) {
  Log& log = the_log();
  std::lock_guard<std::mutex> lock(log.mutex);
  return std::exchange(log.sink, std::move(sink));
}

std::optional<int64_t> LogLimiter::admit() {
  const auto now = std::chrono::steady_clock::now();
  std::lock_guard<std::mutex> lock(mutex_);
  if (last_ && now - *last_ < interval_) {
    ++skipped_;
    return std::nullopt;
  }
  last_ = now;
  return std::exchange(skipped_, 0);
}

}  // namespace lockstep
