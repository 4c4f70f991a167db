// SPDX-License-Identifier: Apache-2.0
// The trace format of Chrome's viewer and of Perfetto: a JSON object whose
// "traceEvents" are one small object per event, times in microseconds.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep::trace {
namespace {

using Json = nlohmann::ordered_json;

double micros(int64_t ns) { return static_cast<double>(ns) / 1000; }

Json metadata(const char* what, int rank, int thread, const std::string& name) {
  return {{"ph", "M"},
          {"name", what},
          {"pid", rank},
          {"tid", thread},
          {"args", {{"name", name}}}};
}

const char* phase_of(EventKind kind) {
  switch (kind) {
    case EventKind::kSpan:
      return "X";
    case EventKind::kFlowOut:
      return "s";
    case EventKind::kFlowIn:
      return "f";
    case EventKind::kInstant:
      break;
  }
  return "i";
}

Json json_of(const Event& event, const ThreadEvents& thread) {
  Json json = {{"ph", phase_of(event.kind)}, {"name", event.name},
               {"cat", event.category},      {"pid", thread.rank},
               {"tid", thread.thread_id},    {"ts", micros(event.start_ns)}};
  if (event.kind == EventKind::kSpan) json["dur"] = micros(event.duration_ns);
  if (event.flow != 0) json["id"] = event.flow;
  if (event.kind == EventKind::kFlowIn) json["bp"] = "e";
  if (event.kind == EventKind::kInstant) json["s"] = "t";
  for (int i = 0; i < 2; ++i) {
    if (event.arg_key[i] != nullptr) {
      json["args"][event.arg_key[i]] = event.arg_value[i];
    }
  }
  return json;
}

// Writes lines to a file beside `path` that takes its place at the end, so a
// failure leaves no half trace.
class Output {
 public:
  explicit Output(const std::string& path)
      : path_(path),
        temporary_(fmt::format("{}.{}.tmp", path, ::getpid())),
        file_(std::fopen(temporary_.c_str(), "we"), std::fclose) {
    if (!file_) fail();
  }
  ~Output() {
    if (!finished_) std::remove(temporary_.c_str());
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) {
      fail();
    }
  }

  void finish() {
    if (std::fflush(file_.get()) != 0 ||
        std::rename(temporary_.c_str(), path_.c_str()) != 0) {
      fail();
    }
    finished_ = true;
  }

 private:
  [[noreturn]] void fail() const {
    throw SystemError(fmt::format("cannot write the trace to '{}'", path_),
                      errno);
  }

  const std::string path_;
  const std::string temporary_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  bool finished_ = false;
};

}  // namespace

void write_chrome(const std::string& path) {
  const auto threads = snapshot();
  Output output(path);
  output.write("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
  const char* separator = "\n";
  auto add = [&](const Json& json) {
    output.write(separator +
                 json.dump(-1, ' ', false, Json::error_handler_t::replace));
    separator = ",\n";
  };
  std::set<int> ranks;
  for (const auto& thread : threads) {
    if (ranks.insert(thread.rank).second) {
      add(metadata("process_name", thread.rank, 0,
                   fmt::format("rank {}", thread.rank)));
    }
    add(metadata("thread_name", thread.rank, thread.thread_id,
                 thread.thread_name));
    for (const auto& event : thread.events) add(json_of(event, thread));
  }
  output.write("\n]}\n");
  output.finish();
}

}  // namespace lockstep::trace
