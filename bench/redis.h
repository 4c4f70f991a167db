// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "child_process.h"

struct redisContext;

namespace lockstep::bench {

// A Redis of our own: nothing is saved, loopback only, on a free port, gone
// when this object is.
//
// Errors: UsageError when redis-server is not installed.
class RedisServer {
 public:
  RedisServer();

  uint16_t port() const { return port_; }

  // Version and options, to be printed.
  std::string settings() const;

 private:
  bool start();

  std::unique_ptr<ChildProcess> process_;
  uint16_t port_ = 0;
  std::string version_;
};

// One connection to it, through hiredis, which waits for every answer.
//
// Threads: one at a time.
// Errors:  PeerError with what hiredis or the server said.
class RedisClient {
 public:
  explicit RedisClient(uint16_t port);

  void set(std::string_view key, std::string_view value);
  std::string get(std::string_view key);

  // One field of INFO, such as "redis_version".
  std::string info(std::string_view field);

 private:
  struct Free {
    void operator()(redisContext* context) const;
  };
  std::unique_ptr<redisContext, Free> context_;
};

}  // namespace lockstep::bench
