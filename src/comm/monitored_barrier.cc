// SPDX-License-Identifier: Apache-2.0
// Everybody reports to rank 0 and waits for its word. Rank 0 alone keeps the
// time, so its error can name who did not come; it then tells the others, the
// late ones too, which find the word when they come.
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
  MonitoredBarrier(detail::Engine& engine, uint32_t tag,
                   Deadline::Duration timeout)
      : engine_(engine),
        tag_(tag),
        timeout_(timeout),
        deadline_(Deadline::in(timeout)) {}

  void report_to_rank_0() {
    auto here = std::make_shared<Word>(1);
    engine_.transfer(OpKind::kSend, buffer_of(*here), 0, tag_,
                     kept(here, timeout_));
    // Later than rank 0's own time, so that its word comes first.
    const auto grace = timeout_ + std::chrono::seconds(5);
    auto word = std::make_shared<Word>(kWordBytes);
    engine_
        .transfer(OpKind::kRecv, buffer_of(*word), 0, tag_, kept(word, grace))
        ->wait();
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
      report.future().wait(Deadline::in(deadline_.remaining() + timeout_));
      if (report.is_success()) continue;
      if (report.is_completed() && !is_timeout(report.exception())) {
        ended = report.exception();
        break;
      }
      missing.push_back(rank);
      if (!wait_all_ranks) break;
    }
    std::string text;
    if (ended) {
      text = failure_of(ended, 0).text;
    } else if (!missing.empty()) {
      text = fmt::format("rank{} {} did not come within {}",
                         missing.size() == 1 ? "" : "s",
                         fmt::join(missing, ", "), to_text(timeout_));
    }
    for (int rank = 1; rank < size; ++rank) {
      auto word = std::make_shared<Word>(word_of(text, ended != nullptr));
      engine_.transfer(OpKind::kSend, buffer_of(*word), rank, tag_,
                       kept(word, timeout_));
    }
    if (ended) std::rethrow_exception(ended);
    if (missing.empty()) return;
    TimeoutError error(text + "; is it still running?");
    ErrorContext context;
    context.peer = missing.front();
    error.add_context(context);
    throw error;
  }

 private:
  static CallOptions kept(std::shared_ptr<Word> word,
                          Deadline::Duration timeout) {
    CallOptions options;
    options.timeout = timeout;
    options.keepalive = std::move(word);
    return options;
  }

  detail::Engine& engine_;
  const uint32_t tag_;
  const Deadline::Duration timeout_;
  const Deadline deadline_;
};

}  // namespace

void ProcessGroup::monitored_barrier(std::optional<Deadline::Duration> timeout,
                                     bool wait_all_ranks) {
  const auto time = timeout.value_or(this->timeout());
  int64_t sequence = -1;
  try {
    sequence = impl_->begin_blocking("monitored_barrier", Deadline::in(time));
    const auto tag = Impl::kOwnTags | static_cast<uint32_t>(sequence);
    MonitoredBarrier barrier(*impl_, tag, time);
    rank() == 0 ? barrier.lead(wait_all_ranks) : barrier.report_to_rank_0();
  } catch (Error& error) {
    error.add_context(impl_->context("monitored_barrier", sequence));
    throw;
  }
}

}  // namespace lockstep
