// SPDX-License-Identifier: Apache-2.0
#include "support/support.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/base/env.h"

namespace lockstep::testing {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

TempDir::TempDir() {
  std::string name = (fs::temp_directory_path() / "lockstep-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

LogCapture::LogCapture()
    : before_(set_log_sink([this](LogLevel, const std::string& line) {
        std::lock_guard<std::mutex> lock(mutex_);
        lines_.push_back(line);
      })) {}

LogCapture::~LogCapture() { set_log_sink(before_); }

std::vector<std::string> LogCapture::lines() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return lines_;
}

int LogCapture::count(const std::string& text) const {
  const auto all = lines();
  return static_cast<int>(std::count_if(
      all.begin(), all.end(),
      [&](const auto& line) { return line.find(text) != std::string::npos; }));
}

void run_threads(int count, const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = Deadline::in(10s);
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

bool full_run() { return env::boolean("LOCKSTEP_FULL").value_or(false); }

void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

namespace {

int entries_in(const char* directory) {
  const fs::directory_iterator entries(directory);
  return static_cast<int>(std::distance(begin(entries), end(entries)));
}

}  // namespace

int open_descriptors() { return entries_in("/proc/self/fd"); }
int running_threads() {
  // A sanitizer starts a thread of its own with our first one.
  static const bool warm = (std::thread([] {}).join(), true);
  return warm ? entries_in("/proc/self/task") : 0;
}

std::vector<int> processes_with(const std::string& entry) {
  std::vector<int> found;
  for (const auto& process : fs::directory_iterator("/proc")) {
    const std::string name = process.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream environment(process.path() / "environ", std::ios::binary);
    std::string one;
    while (std::getline(environment, one, '\0')) {
      if (one == entry) found.push_back(std::stoi(name));
    }
  }
  found.erase(std::remove(found.begin(), found.end(), ::getpid()), found.end());
  return found;
}

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write_file(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
}

}  // namespace lockstep::testing
