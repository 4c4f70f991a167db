// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/base/bytes.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/thread.h"
#include "lockstep/base/turn.h"

namespace lockstep::detail {

// Cuts a stream into lines; a line longer than `most_bytes` is handed out in
// pieces, so memory stays bounded. As on a terminal, what comes after a
// carriage return takes the place of what was in the line before.
class LineSplitter {
 public:
  using Handler = std::function<void(const std::string& line)>;
  explicit LineSplitter(size_t most_bytes = 1 << 20) : most_(most_bytes) {}

  // Calls `handle` with each line, without its end.
  void feed(ConstBytes bytes, const Handler& handle);
  // What is left without an end, if anything.
  void finish(const Handler& handle);

  // The line that has no end yet, if it is one that gets written over; else
  // nothing. A progress bar is such a line.
  const std::string& status() const { return had_return_ ? partial_ : none_; }

 private:
  void end_line(const Handler& handle);

  const size_t most_;
  const std::string none_;
  std::string partial_;
  bool at_start_ = false;    // the next byte takes the place of all before it
  bool had_return_ = false;  // in this line
};

// One of the launcher's own streams, shared by all ranks: texts come out
// whole. A reader that is slow holds back the ranks that write, never the
// launcher itself.
class Stream {
 public:
  explicit Stream(int fd);

  // Whole lines. False when nobody reads any more, or give_up() was called.
  bool write(const std::string& text);

  // Shows `text` as the last line of a terminal, until the next call of either.
  // Elsewhere nothing happens.
  void show_status(const std::string& text);

  // One that can do more than print: `TERM` is not "dumb".
  bool is_terminal() const { return is_terminal_; }
  // Of the terminal; 0: it is none.
  int columns() const;

  // Nobody reads any more: what is written is lost.
  bool is_broken() const { return broken_; }

  // From now on nothing waits for the reader: for the end of the job.
  void give_up() { given_up_ = true; }

 private:
  bool put(std::string text, bool is_status);

  const int fd_;
  const bool is_terminal_;
  Turn turn_;
  bool has_status_ LOCKSTEP_GUARDED_BY(turn_) = false;
  std::atomic<bool> given_up_{false};
  std::atomic<bool> broken_{false};
};

// Takes what one rank prints, on a thread of its own: to the launcher's
// streams with a prefix, to the rank's log file, and into a short memory of
// its last lines. A progress bar is shown; only what it ends with is a line.
//
// Threads: last_lines() from any thread; the rest from the owner's.
class RankOutput {
 public:
  struct Options {
    int rank = 0;
    bool prefix = true;
    std::string log_path;  // empty: no log
  };

  // Reads `out` and `err` until both end, or finish().
  RankOutput(Options options, Fd out, Fd err, Stream& to_out, Stream& to_err);
  ~RankOutput() { finish(); }
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  // The rank is gone: what has arrived already is taken, and then it is done,
  // even if a process left behind keeps the pipe open. A reader of ours that
  // does not read delays that; see Stream::give_up.
  void stop() { finish_.signal(); }
  bool is_done() const { return done_; }
  // Both, and waits.
  void finish();

  std::vector<std::string> last_lines() const;

 private:
  struct Source {
    Fd fd;
    Stream& to;
    std::string prefix;
    LineSplitter lines;
  };

  void read_all();
  bool read_some(Source& source);
  void print(Source& source, const std::vector<std::string>& lines);

  const Options options_;
  Fd log_;
  std::vector<Source> sources_;
  EventFd finish_;
  std::atomic<bool> done_{false};

  mutable std::mutex mutex_;
  std::deque<std::string> last_lines_ LOCKSTEP_GUARDED_BY(mutex_);
  Thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::detail
