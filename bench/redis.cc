// SPDX-License-Identifier: Apache-2.0
#include "redis.h"

#include <array>
#include <cerrno>
#include <thread>

#include <fmt/format.h>
#include <hiredis/hiredis.h>

#include "lockstep/base/error.h"
#include "lockstep/net/address.h"
#include "lockstep/net/listener.h"

namespace lockstep::bench {

using namespace std::chrono_literals;

namespace {

constexpr int kTries = 5;
constexpr auto kStartTime = 10s;
constexpr timeval kAnswerTime{10, 0};
const std::vector<std::string> kOptions = {
    "--bind", "127.0.0.1",   "--save", "",           "--appendonly",
    "no",     "--daemonize", "no",     "--loglevel", "warning"};

// Free now; somebody else may still take it before Redis does.
uint16_t free_port() {
  const auto loopback = resolve({"127.0.0.1", 0}, Deadline::in(1s));
  return Listener(loopback.at(0)).address().port();
}

struct FreeReply {
  void operator()(redisReply* reply) const { ::freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

// Sends the words of a command and waits for the answer.
template <class... Words>
Reply ask(redisContext* context, Words... words) {
  std::array<const char*, sizeof...(words)> data = {words.data()...};
  std::array<size_t, sizeof...(words)> sizes = {words.size()...};
  Reply reply(static_cast<redisReply*>(::redisCommandArgv(
      context, static_cast<int>(data.size()), data.data(), sizes.data())));
  LOCKSTEP_CHECK(reply != nullptr, PeerError, "redis: {}", context->errstr);
  LOCKSTEP_CHECK(reply->type != REDIS_REPLY_ERROR, PeerError, "redis: {}",
                 std::string_view(reply->str, reply->len));
  return reply;
}

std::string text_of(const Reply& reply) {
  LOCKSTEP_CHECK(reply->type == REDIS_REPLY_STRING, PeerError,
                 "redis: an answer that is no string");
  return {reply->str, reply->len};
}

}  // namespace

RedisServer::RedisServer() {
  for (int i = 0; i < kTries; ++i) {
    if (start()) return;
  }
  throw PeerError(fmt::format(
      "redis-server ended or did not answer, {} times in a row", kTries));
}

// False when it ended or stayed silent: likely its port was taken meanwhile.
bool RedisServer::start() {
  port_ = free_port();
  std::vector<std::string> arguments = {"redis-server", "--port",
                                        std::to_string(port_)};
  arguments.insert(arguments.end(), kOptions.begin(), kOptions.end());
  // It runs in a directory nobody else uses, and needs that only to start:
  // with nothing to save it writes nothing.
  const TemporaryDirectory directory;
  ChildProcess::Options options;
  options.directory = directory.path();
  options.keep_output = false;
  try {
    process_ = std::make_unique<ChildProcess>(arguments, options);
  } catch (const SystemError& error) {
    LOCKSTEP_CHECK(error.error_number() != ENOENT, UsageError,
                   "THE RIVAL IS ABSENT: there is no redis-server here, so "
                   "nothing was compared; install redis-server");
    throw;
  }
  const auto deadline = Deadline::in(kStartTime);
  while (process_->is_running() && !deadline.passed()) {
    try {
      RedisClient client(port_);
      version_ = client.info("redis_version");
      // Not somebody else's Redis on that port.
      return client.info("process_id") == std::to_string(process_->pid());
    } catch (const PeerError&) {
      std::this_thread::sleep_for(10ms);  // not listening yet
    }
  }
  return false;
}

std::string RedisServer::settings() const {
  std::string text = fmt::format("Redis {}, redis-server", version_);
  for (const auto& word : kOptions) {
    text += " " + (word.empty() ? "''" : word);
  }
  return text + fmt::format(
                    "; hiredis {}.{}.{}, redisCommandArgv, a TCP connection "
                    "per client",
                    HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
}

RedisClient::RedisClient(uint16_t port)
    : context_(::redisConnectWithTimeout("127.0.0.1", port, kAnswerTime)) {
  LOCKSTEP_CHECK(context_ != nullptr, PeerError, "redis: out of memory");
  LOCKSTEP_CHECK(context_->err == 0, PeerError, "redis: {}", context_->errstr);
  ::redisSetTimeout(context_.get(), kAnswerTime);
}

void RedisClient::Free::operator()(redisContext* context) const {
  ::redisFree(context);
}

void RedisClient::set(std::string_view key, std::string_view value) {
  ask(context_.get(), std::string_view("SET"), key, value);
}

std::string RedisClient::get(std::string_view key) {
  return text_of(ask(context_.get(), std::string_view("GET"), key));
}

// INFO has a line per field: "redis_version:7.0.15\r\n".
std::string RedisClient::info(std::string_view field) {
  const std::string all = text_of(ask(context_.get(), std::string_view("INFO"),
                                      std::string_view("server")));
  const std::string begin = fmt::format("\n{}:", field);
  const size_t found = all.find(begin);
  LOCKSTEP_CHECK(found != std::string::npos, PeerError,
                 "redis: INFO does not tell {}", field);
  const size_t from = found + begin.size();
  return all.substr(from, all.find('\r', from) - from);
}

}  // namespace lockstep::bench
