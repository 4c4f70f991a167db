// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// How far the training is.
struct State {
  static constexpr int kWarmUp = 3;  // steps whose time does not count

  double done = 0;     // from 0 to 1
  double loss = 0;     // of the last fifty steps or so
  double images = 0;   // so far, of all ranks
  double seconds = 0;  // they took
  double overlap = 0;  // from 0 to 1
  int steps = 0;

  void add_step(double loss_of_step, double images_of_step, double time) {
    ++steps;
    loss += (loss_of_step - loss) / std::min(steps, 50);
    if (steps <= kWarmUp) return;
    images += images_of_step;
    seconds += time;
  }
  double images_per_second() const {
    return seconds > 0 ? images / seconds : 0;
  }
  std::string text() const {
    return fmt::format("loss {:.3f}  {:.0f} img/s", loss, images_per_second());
  }
};

// One process beside all of them.
inline std::string comparison(int ranks, int threads, double alone,
                              const State& state) {
  const double together = state.images_per_second();
  return fmt::format(
      "\n           one process  {} ranks\n"
      "threads    {:11}  {:7} each\n"
      "images/s   {:11.0f}  {:7.0f}   {:.2f} times as many\n\n"
      "{:.0f} % of communication hidden in backward",
      ranks, threads, threads, alone, together, together / alone,
      state.overlap * 100);
}

// Lines of text and, on a terminal, a bar below them:
//
//   [======>      ] loss 0.512  5310 img/s  overlap 93%  0:34 left
//
// The bar begins with a carriage return and has no end, so that the next one,
// or the next line, is written over it.
class Progress {
 public:
  // Only one rank prints.
  explicit Progress(bool prints) : prints_(prints) {}

  void line(const std::string& text) {
    if (!prints_) return;
    fmt::print("{}{:{}}\n", has_bar_ ? "\r" : "", text,
               has_bar_ ? columns_ - 1 : 0);
    std::fflush(stdout);
    has_bar_ = false;
  }

  void bar(const State& state) {
    if (!prints_ || columns_ == 0 || last_bar_.seconds() < 0.1) return;
    last_bar_ = Stopwatch();
    const auto left =
        static_cast<int>(state.seconds / state.done * (1 - state.done));
    const std::string text =
        fmt::format("] {}  overlap {:.0f}%  {}:{:02} left", state.text(),
                    state.overlap * 100, left / 60, left % 60);
    // One column stays free: some terminals go on in the next line otherwise.
    const int room = columns_ - 2 - static_cast<int>(text.size());
    const int width = std::max(room, 3);
    const auto filled = static_cast<size_t>(state.done * (width - 1));
    std::string bar = "[" + std::string(filled, '=') + ">";
    bar.resize(static_cast<size_t>(width) + 1, ' ');
    bar = (bar + text).substr(0, static_cast<size_t>(columns_) - 1);
    fmt::print("\r{}", bar);
    std::fflush(stdout);
    has_bar_ = true;
  }

 private:
  // How wide a bar may be; 0: nobody would see it. Under `lockstep run` output
  // is a pipe, and it is the launcher who knows.
  static int find_columns() {
    if (const char* given = std::getenv("LOCKSTEP_STATUS_COLUMNS")) {
      return std::max(std::atoi(given), 2);
    }
    const char* term = std::getenv("TERM");
    if (::isatty(STDOUT_FILENO) == 0 || term == nullptr ||
        std::string(term) == "dumb") {
      return 0;
    }
    winsize size{};
    ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    return size.ws_col > 0 ? std::max<int>(size.ws_col, 2) : 80;
  }

  const bool prints_;
  const int columns_ = find_columns();
  bool has_bar_ = false;
  Stopwatch last_bar_;
};
