// SPDX-License-Identifier: Apache-2.0
#include "launch/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"

namespace lockstep::detail {

using namespace std::chrono_literals;

namespace {

constexpr size_t kChunkBytes = 64 << 10;
// More than a pipe holds: what was there when the rank ended.
constexpr size_t kLastChunks = 32;
constexpr size_t kLastLines = 20;
constexpr size_t kLastLineBytes = 500;
// A pipe that poll(2) calls writable takes so much without blocking.
constexpr size_t kPipeBytes = 4096;

std::string prefix_for(int rank, bool coloured) {
  if (!coloured) return fmt::format("[{}] ", rank);
  static constexpr int kColours[] = {36, 33, 32, 35, 34, 31};
  return fmt::format("\033[{}m[{}]\033[0m ", kColours[rank % 6], rank);
}

bool is_capable_terminal(int fd) {
  return ::isatty(fd) == 1 && env::text("TERM") != "dumb";
}

Fd open_log(const std::string& path) {
  if (path.empty()) return Fd();
  Fd log(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!log) {
    throw SystemError(fmt::format("cannot write the log '{}'", path), errno);
  }
  return log;
}

}  // namespace

void LineSplitter::feed(ConstBytes bytes, const Handler& handle) {
  const auto* begin = reinterpret_cast<const char*>(bytes.data());
  const auto* end = begin + bytes.size();
  while (begin != end) {
    const auto* stop =
        std::find_if(begin, end, [](char c) { return c == '\n' || c == '\r'; });
    if (stop != begin && at_start_) {
      partial_.clear();
      at_start_ = false;
    }
    const size_t length = stop - begin;
    const size_t taken = std::min(length, most_ - partial_.size());
    partial_.append(begin, taken);
    begin += taken;
    if (taken < length) {
      end_line(handle);  // it is too long
    } else if (stop != end) {
      ++begin;
      if (*stop == '\n') {
        end_line(handle);
      } else {
        at_start_ = had_return_ = true;
      }
    }
  }
}

void LineSplitter::end_line(const Handler& handle) {
  handle(partial_);
  partial_.clear();
  at_start_ = had_return_ = false;
}

void LineSplitter::finish(const Handler& handle) {
  if (!partial_.empty()) end_line(handle);
}

Stream::Stream(int fd) : fd_(fd), is_terminal_(is_capable_terminal(fd)) {}

int Stream::columns() const {
  if (!is_terminal_) return 0;
  winsize size{};
  const bool known = ::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

bool Stream::write(const std::string& text) { return put(text, false); }

void Stream::show_status(const std::string& text) {
  if (is_terminal_) put(text, true);
}

bool Stream::put(std::string text, bool is_status) {
  Turn::Held turn;
  while (!(turn = turn_.take(Deadline::in(100ms)))) {
    if (given_up_) return false;
  }
  // Too long a status is cut by the terminal: one that goes on in the next line
  // could not be erased.
  if (is_status) text = "\033[?7l" + text + "\033[?7h";
  if (has_status_) text.insert(0, "\r\033[K");
  has_status_ = is_status;
  const char* begin = text.data();
  size_t left = text.size();
  while (left > 0) {
    pollfd entry{fd_, POLLOUT, 0};
    if (::poll(&entry, 1, 100) == 0) {
      if (given_up_) return false;
      continue;
    }
    const ssize_t done = ::write(fd_, begin, std::min(left, kPipeBytes));
    if (done < 0 && errno != EINTR && errno != EAGAIN) {
      if (errno == EPIPE) broken_ = true;
      return false;
    }
    if (done > 0) {
      begin += done;
      left -= static_cast<size_t>(done);
    }
  }
  return true;
}

RankOutput::RankOutput(Options options, Fd out, Fd err, Stream& to_out,
                       Stream& to_err)
    : options_(std::move(options)), log_(open_log(options_.log_path)) {
  const auto add = [&](Fd fd, Stream& to) {
    set_nonblocking(fd.get());
    const std::string prefix =
        options_.prefix ? prefix_for(options_.rank, to.is_terminal()) : "";
    sources_.push_back({std::move(fd), to, prefix, LineSplitter()});
  };
  add(std::move(out), to_out);
  add(std::move(err), to_err);
  thread_ = Thread(fmt::format("output-{}", options_.rank), [this] {
    read_all();
    done_ = true;
  });
}

void RankOutput::finish() {
  stop();
  thread_.join();
}

std::vector<std::string> RankOutput::last_lines() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return {last_lines_.begin(), last_lines_.end()};
}

void RankOutput::read_all() {
  bool finishing = false;
  size_t chunks_left = kLastChunks;
  for (;;) {
    std::vector<pollfd> entries;
    if (!finishing) entries.push_back({finish_.fd(), POLLIN, 0});
    for (const auto& source : sources_) {
      if (source.fd) entries.push_back({source.fd.get(), POLLIN, 0});
    }
    // Once finishing, only what is there already counts.
    const int ready =
        ::poll(entries.data(), entries.size(), finishing ? 0 : -1);
    if (ready < 0 && errno == EINTR) continue;
    if (!finishing && (entries[0].revents & POLLIN) != 0) finishing = true;
    bool any = false;
    for (auto& source : sources_) any |= source.fd && read_some(source);
    if (finishing && (!any || --chunks_left == 0)) break;
  }
  for (auto& source : sources_) {
    std::vector<std::string> rest;
    source.lines.finish([&](const std::string& line) { rest.push_back(line); });
    print(source, rest);
  }
}

// One chunk, so that both streams get their turn. False when nothing came.
bool RankOutput::read_some(Source& source) {
  std::byte chunk[kChunkBytes];
  const ssize_t got = ::read(source.fd.get(), chunk, sizeof chunk);
  if (got < 0) {
    if (errno != EAGAIN && errno != EINTR) source.fd.reset();
    return false;
  }
  if (got == 0) {
    source.fd.reset();
    return false;
  }
  std::vector<std::string> lines;
  source.lines.feed({chunk, static_cast<size_t>(got)},
                    [&](const std::string& line) { lines.push_back(line); });
  print(source, lines);
  const std::string& status = source.lines.status();
  if (!status.empty()) source.to.show_status(source.prefix + status);
  return true;
}

void RankOutput::print(Source& source, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  std::string shown;
  std::string logged;
  for (const auto& line : lines) {
    shown += source.prefix;
    shown += line;
    shown += '\n';
    if (log_) logged.append(line).append(1, '\n');
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const size_t skip =
        lines.size() > kLastLines ? lines.size() - kLastLines : 0;
    for (size_t i = skip; i < lines.size(); ++i) {
      last_lines_.push_back(lines[i].substr(0, kLastLineBytes));
    }
    while (last_lines_.size() > kLastLines) last_lines_.pop_front();
  }
  for (size_t at = 0; at < logged.size();) {
    const ssize_t put =
        ::write(log_.get(), logged.data() + at, logged.size() - at);
    if (put < 0 && errno != EINTR) break;  // a full disk must not stop the job
    if (put > 0) at += static_cast<size_t>(put);
  }
  source.to.write(shown);
}

}  // namespace lockstep::detail
