// SPDX-License-Identifier: Apache-2.0
// Everybody reports to rank 0 and waits for its word. Rank 0 alone keeps the
// time, so its error can name who did not come; it then tells the others, the
// late ones too, which find the word when they come. The others wait so long
// for rank 0 that its time is over first; one that gives up all the same says
// so, and rank 0, should it come after all, finds that and fails too.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/group_impl.h"

namespace lockstep {
namespace {

using Word = std::vector<uint8_t>;

constexpr size_t kWordBytes = 512;

// An empty text means: all came, go on. In front of it stands whether a rank
// is late or gone.
Word word_of(const std::string& text, bool gone) {
  Word word(kWordBytes);
  word[0] = gone ? 1 : 0;
  std::memcpy(word.data() + 1, text.data(),
              std::min(text.size(), kWordBytes - 2));
  return word;
}

bool is_timeout(const std::exception_ptr& error) {
  return failure_of(error, 0).kind == ErrorKind::kTimeout;
}

class MonitoredBarrier {
 public:
  // Uses `tag` and the one after it. Of the time that was asked for, which
  // messages name, `timeout` is left.
  MonitoredBarrier(detail::Engine& engine, uint32_t tag,
                   Deadline::Duration asked, Deadline::Duration timeout)
      : engine_(engine), tag_(tag), asked_(asked), timeout_(timeout) {}

  void report_to_rank_0() {
    auto here = std::make_shared<Word>(1);
    engine_.transfer(OpKind::kSend, buffer_of(*here), 0, tag_,
                     kept(here, timeout_));
    // Rank 0 may come as late as we may, and then has a time of its own.
    const auto patience = 2 * timeout_ + std::chrono::seconds(1);
    auto word = std::make_shared<Word>(kWordBytes);
    const auto answer = engine_.transfer(OpKind::kRecv, buffer_of(*word), 0,
                                         tag_, kept(word, patience));
    try {
      answer->wait();
    } catch (const TimeoutError&) {
      engine_.transfer(OpKind::kSend, buffer_of(*here), 0, tag_ + 1,
                       kept(here, timeout_));
      throw_timeout(
          0, fmt::format("rank 0 did not come within {}", to_text(patience)));
    }
    const std::string text(reinterpret_cast<const char*>(word->data() + 1));
    if (text.empty()) return;
    const std::string said =
        fmt::format("rank 0 says: {}; its own error has the details", text);
    if (word->front() != 0) throw PeerError(said);
    throw TimeoutError(said);
  }

  void lead(bool wait_all_ranks) {
    const int size = engine_.place().size;
    std::vector<std::shared_ptr<Work>> reports;
    for (int rank = 1; rank < size; ++rank) {
      auto here = std::make_shared<Word>(1);
      reports.push_back(engine_.transfer(OpKind::kRecv, buffer_of(*here), rank,
                                         tag_, kept(here, timeout_)));
    }
    std::vector<int> missing;
    std::exception_ptr ended;  // by something else than a late rank
    for (int rank = 1; rank < size; ++rank) {
      const Work& report = *reports[static_cast<size_t>(rank - 1)];
      // A moment more than the receive's own time: it ends by itself.
      report.future().wait(Deadline::in(2 * timeout_));
      if (report.is_success() && !has_given_up(rank)) continue;
      const auto error = report.exception();
      if (error && !is_timeout(error)) {
        ended = error;
        break;
      }
      missing.push_back(rank);
      if (!wait_all_ranks) break;
    }
    std::string text;
    if (ended) {
      text = failure_of(ended, 0).text;
    } else if (!missing.empty()) {
      text = fmt::format("rank{} {} did not come within {}{}",
                         missing.size() == 1 ? "" : "s",
                         fmt::join(missing, ", "), to_text(asked_),
                         gave_up_ ? ", or had given up before" : "");
    }
    for (int rank = 1; rank < size; ++rank) {
      auto word = std::make_shared<Word>(word_of(text, ended != nullptr));
      engine_.transfer(OpKind::kSend, buffer_of(*word), rank, tag_,
                       kept(word, timeout_));
    }
    if (ended) std::rethrow_exception(ended);
    if (!missing.empty()) throw_timeout(missing.front(), text);
  }

 private:
  // A rank that waited for rank 0 in vain has said so before rank 0 came.
  bool has_given_up(int rank) {
    auto word = std::make_shared<Word>(1);
    const auto work = engine_.transfer(OpKind::kRecv, buffer_of(*word), rank,
                                       tag_ + 1, kept(word, {}));
    // Its time is over at once: this ends here and now.
    work->future().wait(Deadline::in(timeout_));
    gave_up_ = gave_up_ || work->is_success();
    return work->is_success();
  }

  [[noreturn]] static void throw_timeout(int peer, const std::string& text) {
    TimeoutError error(text + "; is it still running?");
    ErrorContext context;
    context.peer = peer;
    error.add_context(context);
    throw error;
  }

  static CallOptions kept(std::shared_ptr<Word> word,
                          Deadline::Duration timeout) {
    CallOptions options;
    options.timeout = timeout;
    options.keepalive = std::move(word);
    return options;
  }

  detail::Engine& engine_;
  const uint32_t tag_;
  const Deadline::Duration asked_;
  const Deadline::Duration timeout_;
  bool gave_up_ = false;
};

}  // namespace

void ProcessGroup::monitored_barrier(std::optional<Deadline::Duration> timeout,
                                     bool wait_all_ranks) {
  // So long that it may be doubled, whatever was asked for.
  const Deadline::Duration longest = std::chrono::hours(24 * 365);
  const auto time = std::min(timeout.value_or(this->timeout()), longest);
  const Deadline deadline = Deadline::in(time);
  int64_t sequence = sequence_number();
  detail::with_context(
      [&] { return impl_->context("monitored_barrier", sequence); },
      [&] {
        sequence = impl_->begin_blocking("monitored_barrier", deadline);
        const auto tag = Impl::kOwnTags | static_cast<uint32_t>(2 * sequence);
        MonitoredBarrier barrier(*impl_, tag, time, deadline.remaining());
        rank() == 0 ? barrier.lead(wait_all_ranks) : barrier.report_to_rank_0();
      });
}

}  // namespace lockstep
