// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

// Recording what happened, to look at it later in a trace viewer.
//
//   trace::start();
//   {
//     trace::Span span("all_reduce", "comm");
//     span.arg("bytes", bytes);
//     ...
//   }
//   trace::write_chrome("trace.json");   // chrome://tracing, Perfetto
//
// Each thread records into a ring of its own: recording takes no lock and
// allocates only once per thread, and the newest events win when a ring is
// full. While recording is off a span costs one load and one branch.
//
// Threads: every function from any thread.
// Names:   names and argument keys are string literals: only the pointer is
//          kept. Names that are made at run time go through intern().
namespace lockstep::trace {

enum class EventKind : uint8_t { kSpan, kFlowOut, kFlowIn, kInstant };

// One recorded event. Times are nanoseconds of std::chrono::steady_clock.
struct Event {
  EventKind kind = EventKind::kSpan;
  const char* name = "";
  const char* category = "";
  int64_t start_ns = 0;
  int64_t duration_ns = 0;  // spans only
  uint64_t flow = 0;        // flows only: what ties the two ends together
  const char* arg_key[2] = {nullptr, nullptr};
  int64_t arg_value[2] = {0, 0};
};

// What one thread recorded, oldest first.
struct ThreadEvents {
  std::string thread_name;
  int thread_id = 0;
  int rank = 0;
  std::vector<Event> events;
  uint64_t lost = 0;  // events that newer ones wrote over
};

namespace detail {
extern std::atomic<bool> enabled;
void record(const Event& event);
int64_t now_ns();
}  // namespace detail

// Starts recording; a ring holds `events_per_thread` events, which is settled
// for a thread when it records its first. Stopping keeps what is there.
void start(size_t events_per_thread = 16384);
void stop();
inline bool is_enabled() {
  return detail::enabled.load(std::memory_order_relaxed);
}

// Forgets everything recorded so far.
void clear();

// The rank that this thread works for: its events are shown under it. A thread
// that never says so belongs to the rank of set_process_rank (0 unless told).
void set_thread_rank(int rank);
void set_process_rank(int rank);

// A lasting copy of `name`; equal texts give the same pointer. Kept until the
// process ends, so it is for a bounded set of names.
const char* intern(const std::string& name);

// Records the time between its construction and its end.
class Span {
 public:
  Span(const char* name, const char* category) : on_(is_enabled()) {
    if (on_) begin(name, category);
  }
  ~Span() {
    if (on_) end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  // Up to two numbers shown with the span; further ones are dropped.
  void arg(const char* key, int64_t value) {
    if (on_) add_arg(key, value);
  }

 private:
  void begin(const char* name, const char* category);
  void end();
  void add_arg(const char* key, int64_t value);

  bool on_;
  Event event_;
};

// The clock of all events.
inline int64_t now_ns() { return detail::now_ns(); }

// Records a span that was measured by now_ns(): for times that somebody needs
// whether they are recorded or not.
void span(const char* name, const char* category, int64_t start_ns,
          int64_t end_ns);

// Something that happened at one moment.
void instant(const char* name, const char* category);

// An arrow between two spans, often on two threads: flow_out in the span that
// causes, flow_in in the span that is caused, with the same id.
uint64_t new_flow();
void flow_out(const char* name, uint64_t id);
void flow_in(const char* name, uint64_t id);

// A copy of everything recorded, while recording may go on.
std::vector<ThreadEvents> snapshot();

// Writes it as Chrome trace JSON: a process per rank, a track per thread, each
// with its name. Errors: SystemError when the file cannot be written; what
// stood there before is then untouched.
void write_chrome(const std::string& path);

}  // namespace lockstep::trace

#define LOCKSTEP_TRACE_JOIN2(a, b) a##b
#define LOCKSTEP_TRACE_JOIN(a, b) LOCKSTEP_TRACE_JOIN2(a, b)
// A span to the end of the scope: LOCKSTEP_TRACE_SCOPE("meet", "store");
#define LOCKSTEP_TRACE_SCOPE(name, category)                         \
  ::lockstep::trace::Span LOCKSTEP_TRACE_JOIN(lockstep_trace_scope_, \
                                              __LINE__)(name, category)
