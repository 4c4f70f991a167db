// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <set>

#include "lockstep/base/thread.h"
#include "lockstep/trace/trace.h"
#include "trace/event_ring.h"

namespace lockstep::trace {
namespace detail {

std::atomic<bool> enabled{false};

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace detail

namespace {

constexpr int kNoRank = -1;

// One thread's ring and what is known about the thread.
struct Track {
  Track(size_t capacity, uint64_t epoch_now)
      : ring(capacity), epoch(epoch_now) {
    char text[16] = "";
    ::pthread_getname_np(::pthread_self(), text, sizeof text);
    name = text;
    id = static_cast<int>(::syscall(SYS_gettid));
  }
  lockstep::detail::EventRing ring;
  const uint64_t epoch;  // clear() begins a new one; older tracks are dropped
  std::string name;
  int id = 0;
  std::atomic<int> rank{kNoRank};
};

// The one process-wide object of lockstep. Never destroyed: threads may record
// while the process ends.
struct Recorder {
  // Ended threads stay visible, but a program that starts threads for ever
  // must not grow for ever: beyond this many tracks the oldest ended go.
  static constexpr size_t kMostTracks = 256;

  std::atomic<uint64_t> epoch{0};
  std::atomic<int> process_rank{0};
  std::atomic<size_t> capacity{16384};
  std::mutex mutex;
  std::deque<std::shared_ptr<Track>> tracks LOCKSTEP_GUARDED_BY(mutex);
  std::set<std::string> names LOCKSTEP_GUARDED_BY(mutex);

  std::shared_ptr<Track> add_track() {
    auto track = std::make_shared<Track>(capacity, epoch);
    std::lock_guard<std::mutex> lock(mutex);
    for (auto it = tracks.begin();
         tracks.size() >= kMostTracks && it != tracks.end();) {
      it = it->use_count() == 1 ? tracks.erase(it) : std::next(it);
    }
    tracks.push_back(track);
    return track;
  }
};

Recorder& recorder() {
  static Recorder* the_recorder = new Recorder;
  return *the_recorder;
}

thread_local std::shared_ptr<Track> this_track;
thread_local int this_rank = kNoRank;

}  // namespace

void detail::record(const Event& event) {
  if (!this_track || this_track->epoch != recorder().epoch) {
    this_track = recorder().add_track();
  }
  this_track->rank.store(this_rank, std::memory_order_relaxed);
  this_track->ring.push(event);
}

void start(size_t events_per_thread) {
  recorder().capacity = events_per_thread;
  detail::enabled = true;
}

void stop() { detail::enabled = false; }

void clear() {
  std::lock_guard<std::mutex> lock(recorder().mutex);
  ++recorder().epoch;
  recorder().tracks.clear();
}

void set_thread_rank(int rank) { this_rank = rank; }
void set_process_rank(int rank) { recorder().process_rank = rank; }

const char* intern(const std::string& name) {
  std::lock_guard<std::mutex> lock(recorder().mutex);
  return recorder().names.insert(name).first->c_str();
}

void Span::begin(const char* name, const char* category) {
  event_.name = name;
  event_.category = category;
  event_.start_ns = detail::now_ns();
}

void Span::add_arg(const char* key, int64_t value) {
  for (int i = 0; i < 2; ++i) {
    if (event_.arg_key[i] != nullptr) continue;
    event_.arg_key[i] = key;
    event_.arg_value[i] = value;
    return;
  }
}

void Span::end() {
  event_.duration_ns = detail::now_ns() - event_.start_ns;
  detail::record(event_);
}

void span(const char* name, const char* category, int64_t start_ns,
          int64_t end_ns) {
  if (!is_enabled()) return;
  Event event;
  event.name = name;
  event.category = category;
  event.start_ns = start_ns;
  event.duration_ns = end_ns - start_ns;
  detail::record(event);
}

namespace {

void record_moment(EventKind kind, const char* name, const char* category,
                   uint64_t flow) {
  if (!is_enabled()) return;
  Event event;
  event.kind = kind;
  event.name = name;
  event.category = category;
  event.start_ns = detail::now_ns();
  event.flow = flow;
  detail::record(event);
}

}  // namespace

void instant(const char* name, const char* category) {
  record_moment(EventKind::kInstant, name, category, 0);
}

uint64_t new_flow() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

void flow_out(const char* name, uint64_t id) {
  record_moment(EventKind::kFlowOut, name, "flow", id);
}

void flow_in(const char* name, uint64_t id) {
  record_moment(EventKind::kFlowIn, name, "flow", id);
}

std::vector<ThreadEvents> snapshot() {
  std::vector<std::shared_ptr<Track>> tracks;
  {
    std::lock_guard<std::mutex> lock(recorder().mutex);
    tracks.assign(recorder().tracks.begin(), recorder().tracks.end());
  }
  std::vector<ThreadEvents> threads;
  for (const auto& track : tracks) {
    ThreadEvents thread;
    thread.thread_name = track->name;
    thread.thread_id = track->id;
    const int rank = track->rank.load(std::memory_order_relaxed);
    thread.rank = rank != kNoRank ? rank : recorder().process_rank.load();
    thread.lost = track->ring.copy_to(thread.events);
    threads.push_back(std::move(thread));
  }
  return threads;
}

}  // namespace lockstep::trace
