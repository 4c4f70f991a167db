// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/base/log.h"

namespace lockstep::testing {

// A directory of its own, removed with all that is in it.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Collects the log's lines while it lives, instead of showing them.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  std::vector<std::string> lines() const;
  // How many lines contain `text`.
  int count(const std::string& text) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
  LogSink before_;
};

// Runs `body(i)` on `count` threads at once and waits for all; the first
// exception is thrown here.
void run_threads(int count, const std::function<void(int)>& body);

// Asks until `condition` holds; false when it never did in ten seconds.
bool eventually(const std::function<bool()>& condition);

// Whether to run the whole matrices (./dev test --full).
bool full_run();

// Lets this process open as many descriptors as the system permits.
void raise_descriptor_limit();

// How many descriptors and threads this process has now.
int open_descriptors();
int running_threads();

// The processes, other than this one, that have `entry` (NAME=value) in their
// environment.
std::vector<int> processes_with(const std::string& entry);

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& contents);

}  // namespace lockstep::testing
