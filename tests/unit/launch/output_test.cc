// SPDX-License-Identifier: Apache-2.0
#include "launch/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/support.h"
#include "unit/launch/launch_support.h"

namespace lockstep::detail {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::read_to_end;
using testing::soon;
using testing::TestPipe;

using Lines = std::vector<std::string>;

// What comes of `pieces` fed one after the other.
Lines split(const Lines& pieces, size_t most = 1 << 20) {
  LineSplitter splitter(most);
  Lines lines;
  const auto keep = [&](const std::string& line) { lines.push_back(line); };
  for (const auto& piece : pieces) splitter.feed(piece, keep);
  splitter.finish(keep);
  return lines;
}

TEST(LineSplitter, HandsOutLinesWithoutTheirEnds) {
  EXPECT_THAT(split({"a\nbc\n\nd\n"}), ElementsAre("a", "bc", "", "d"));
  EXPECT_THAT(split({"a\r\n"}), ElementsAre("a"));
}

TEST(LineSplitter, TakesWhatIsWrittenOverOutOfALine) {
  EXPECT_THAT(split({"1 %\r2 %\rdone\n"}), ElementsAre("done"));
  EXPECT_THAT(split({"\r1 %", "\r2 %", "\n", "next"}),
              ElementsAre("2 %", "next"));
  EXPECT_THAT(split({"1 %\r"}), ElementsAre("1 %"));
}

TEST(LineSplitter, KnowsALineThatGetsWrittenOver) {
  LineSplitter splitter;
  const auto ignore = [](const std::string&) {};
  splitter.feed("no end", ignore);
  EXPECT_EQ(splitter.status(), "");
  splitter.feed(" yet\n1 %\r", ignore);
  EXPECT_EQ(splitter.status(), "1 %");
  splitter.feed("2 %", ignore);
  EXPECT_EQ(splitter.status(), "2 %");
  splitter.feed("\n3 %", ignore);
  EXPECT_EQ(splitter.status(), "");
}

TEST(LineSplitter, KeepsNothingOfWhatIsWrittenOver) {
  EXPECT_THAT(split({"abc\rdef\rghi\rjk\n"}, 4), ElementsAre("jk"));
}

TEST(LineSplitter, KeepsThePartsOfALineUntilItIsWhole) {
  LineSplitter splitter;
  Lines lines;
  const auto keep = [&](const std::string& line) { lines.push_back(line); };
  splitter.feed("hel", keep);
  splitter.feed("lo", keep);
  EXPECT_THAT(lines, IsEmpty());
  splitter.feed("\nwor", keep);
  EXPECT_THAT(lines, ElementsAre("hello"));
  splitter.finish(keep);
  EXPECT_THAT(lines, ElementsAre("hello", "wor"));
  splitter.finish(keep);
  EXPECT_THAT(lines, ElementsAre("hello", "wor"));
}

TEST(LineSplitter, HandsOutNothingForNothing) {
  EXPECT_THAT(split({}), IsEmpty());
  EXPECT_THAT(split({"", ""}), IsEmpty());
}

TEST(LineSplitter, CutsALineThatIsTooLong) {
  EXPECT_THAT(split({"abcdefghij\nk\n"}, 4),
              ElementsAre("abcd", "efgh", "ij", "k"));
  EXPECT_THAT(split({"abcdefghij"}, 4), ElementsAre("abcd", "efgh", "ij"));
}

TEST(LineSplitter, DoesNotCutALineThatJustFits) {
  EXPECT_THAT(split({"abcd\nefgh\n"}, 4), ElementsAre("abcd", "efgh"));
}

// The newline that comes on its own is no line of its own.
TEST(LineSplitter, DoesNotCutALineThatJustFitsAndEndsLater) {
  EXPECT_THAT(split({"abcd", "\n", "e\n"}, 4), ElementsAre("abcd", "e"));
  EXPECT_THAT(split({"abcdefgh", "\n"}, 4), ElementsAre("abcd", "efgh"));
}

TEST(LineSplitter, GivesTheSameLinesHoweverTheStreamIsCut) {
  std::mt19937 random(7);
  for (const size_t most : {3, 8, 1000}) {
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (int i = 0; i < 40; ++i) {
        const auto dice = random() % 10;
        text += dice == 0   ? '\n'
                : dice == 1 ? '\r'
                            : static_cast<char>('a' + i % 26);
      }
      Lines pieces;
      for (size_t at = 0; at < text.size();) {
        const size_t size = 1 + random() % 9;
        pieces.push_back(text.substr(at, size));
        at += size;
      }
      ASSERT_EQ(split(pieces, most), split({text}, most))
          << "most " << most << ", text " << ::testing::PrintToString(text)
          << ", in pieces " << ::testing::PrintToString(pieces);
    }
  }
}

class StreamTest : public ::testing::Test {
 protected:
  // Until the pipe takes no more.
  static void fill(int fd) {
    set_nonblocking(fd);
    const std::string page(4096, 'x');
    while (::write(fd, page.data(), page.size()) > 0) {
    }
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  }

  testing::SigpipeIgnored no_signal_;
};

TEST_F(StreamTest, WritesTextsWhole) {
  TestPipe pipe;
  Stream stream(pipe.write_end.get());
  constexpr int kThreads = 8;
  constexpr int kTexts = 20;
  std::string all;
  std::thread reader(
      [&] { all = read_to_end(pipe.read_end.get(), Deadline::in(60s)); });
  testing::run_threads(kThreads, [&](int i) {
    // Longer than a pipe takes at once, so that a writer has to wait inside.
    const std::string text = std::string(70000, static_cast<char>('a' + i));
    for (int n = 0; n < kTexts; ++n) EXPECT_TRUE(stream.write(text + "\n"));
  });
  pipe.write_end.reset();
  reader.join();
  const auto lines = split({all});
  EXPECT_EQ(lines.size(), size_t{kThreads} * kTexts);
  for (const auto& line : lines) {
    ASSERT_EQ(line, std::string(70000, line[0])) << "two texts are mixed";
  }
}

TEST_F(StreamTest, SaysWhenTheReaderHasGone) {
  TestPipe pipe;
  Stream stream(pipe.write_end.get());
  EXPECT_TRUE(stream.write("heard\n"));
  pipe.read_end.reset();
  EXPECT_FALSE(stream.write("unheard\n"));
}

TEST_F(StreamTest, GivesUpOnAReaderThatDoesNotRead) {
  TestPipe pipe;
  fill(pipe.write_end.get());
  Stream stream(pipe.write_end.get());
  std::atomic<int> started{0};
  std::thread stopper([&] {
    EXPECT_TRUE(testing::eventually([&] { return started == 3; }));
    stream.give_up();
  });
  // One waits for the pipe, the others for their turn.
  testing::run_threads(3, [&](int) {
    ++started;
    EXPECT_FALSE(stream.write("text"));
  });
  stopper.join();
}

TEST_F(StreamTest, StillWritesWhatTheReaderTakesAfterGivingUp) {
  TestPipe pipe;
  Stream stream(pipe.write_end.get());
  stream.give_up();
  EXPECT_TRUE(stream.write("report\n"));
  EXPECT_EQ(testing::read_line(pipe.read_end.get(), soon()), "report");
}

TEST_F(StreamTest, ShowsNoStatusWithoutATerminal) {
  TestPipe pipe;
  Stream stream(pipe.write_end.get());
  stream.show_status("1 %");
  stream.write("line\n");
  pipe.write_end.reset();
  EXPECT_EQ(read_to_end(pipe.read_end.get(), soon()), "line\n");
}

// A terminal: what is written to `inside` can be read from `outside`.
class TerminalTest : public StreamTest {
 protected:
  void SetUp() override {
    env_.set("TERM", "xterm");
    outside_.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!outside_) GTEST_SKIP() << "no terminals here";
    ASSERT_EQ(::unlockpt(outside_.get()), 0);
    inside_.reset(
        ::open(::ptsname(outside_.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_TRUE(inside_);
    termios raw{};
    ::tcgetattr(inside_.get(), &raw);
    ::cfmakeraw(&raw);
    ::tcsetattr(inside_.get(), TCSANOW, &raw);
  }

  testing::CleanEnvironment env_;
  Fd outside_, inside_;
};

TEST_F(TerminalTest, IsKnown) {
  TestPipe pipe;
  EXPECT_FALSE(Stream(pipe.write_end.get()).is_terminal());
  EXPECT_EQ(Stream(pipe.write_end.get()).columns(), 0);
  EXPECT_TRUE(Stream(inside_.get()).is_terminal());
  EXPECT_EQ(Stream(inside_.get()).columns(), 80) << "does not say";
  const winsize size{25, 132, 0, 0};
  ::ioctl(inside_.get(), TIOCSWINSZ, &size);
  EXPECT_EQ(Stream(inside_.get()).columns(), 132);
}

TEST_F(TerminalTest, IsNoneWhenItIsDumb) {
  env_.set("TERM", "dumb");
  EXPECT_FALSE(Stream(inside_.get()).is_terminal());
  EXPECT_EQ(Stream(inside_.get()).columns(), 0);
}

TEST_F(TerminalTest, ShowsAStatusUntilSomethingElseIsPrinted) {
  Stream stream(inside_.get());
  stream.show_status("1 %");
  stream.show_status("2 %");
  stream.write("line\n");
  stream.write("next\n");
  EXPECT_EQ(testing::read_line(outside_.get(), soon()),
            "\033[?7l1 %\033[?7h\r\033[K\033[?7l2 %\033[?7h\r\033[Kline");
  EXPECT_EQ(testing::read_line(outside_.get(), soon()), "next");
}

class RankOutputTest : public ::testing::Test {
 protected:
  void start(const RankOutput::Options& options) {
    output_.emplace(options, std::move(out_.read_end), std::move(err_.read_end),
                    shown_out_, shown_err_);
  }

  static void print(const Fd& fd, const std::string& text) {
    ASSERT_EQ(::write(fd.get(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }

  // The rank closes its streams and is gone.
  void finish() {
    out_.write_end.reset();
    err_.write_end.reset();
    output_->finish();
  }

  std::string shown(TestPipe& pipe) {
    pipe.write_end.reset();
    return read_to_end(pipe.read_end.get(), soon());
  }

  testing::SigpipeIgnored no_signal_;
  TestPipe out_, err_;        // of the rank
  TestPipe to_out_, to_err_;  // of the launcher
  Stream shown_out_{to_out_.write_end.get()};
  Stream shown_err_{to_err_.write_end.get()};
  std::optional<RankOutput> output_;
};

TEST_F(RankOutputTest, PrefixesEachLineWithItsRank) {
  start({12, true, ""});
  print(out_.write_end, "one\ntwo\n\nwithout an end");
  finish();
  EXPECT_EQ(shown(to_out_), "[12] one\n[12] two\n[12] \n[12] without an end\n");
}

TEST_F(RankOutputTest, LeavesLinesAsTheyAreWithoutPrefix) {
  start({12, false, ""});
  print(out_.write_end, "one\ntwo\n");
  finish();
  EXPECT_EQ(shown(to_out_), "one\ntwo\n");
}

TEST_F(RankOutputTest, KeepsTheStreamsApart) {
  start({0, true, ""});
  print(out_.write_end, "to out\n");
  print(err_.write_end, "to err\n");
  finish();
  EXPECT_EQ(shown(to_out_), "[0] to out\n");
  EXPECT_EQ(shown(to_err_), "[0] to err\n");
}

TEST_F(RankOutputTest, ShowsLinesAsTheyCome) {
  start({0, true, ""});
  print(out_.write_end, "first\nhal");
  EXPECT_EQ(testing::read_line(to_out_.read_end.get(), soon()), "[0] first");
  print(out_.write_end, "f\n");
  EXPECT_EQ(testing::read_line(to_out_.read_end.get(), soon()), "[0] half");
  finish();
}

TEST_F(RankOutputTest, TakesOnlyTheEndOfAProgressBarForALine) {
  const testing::TempDir directory;
  const std::string path = directory.file("rank-0.log");
  start({0, true, path});
  print(out_.write_end, "\r1 %");
  print(out_.write_end, "\r2 %");
  print(out_.write_end, "\rall\nafterwards\n1 %\r2 %\r");
  finish();
  EXPECT_EQ(shown(to_out_), "[0] all\n[0] afterwards\n[0] 2 %\n");
  EXPECT_EQ(testing::read_file(path), "all\nafterwards\n2 %\n");
  EXPECT_THAT(output_->last_lines(), ElementsAre("all", "afterwards", "2 %"));
}

TEST_F(RankOutputTest, GoesOnWithOneStreamWhenTheOtherEnds) {
  start({0, true, ""});
  out_.write_end.reset();
  print(err_.write_end, "still here\n");
  EXPECT_EQ(testing::read_line(to_err_.read_end.get(), soon()),
            "[0] still here");
  finish();
}

TEST_F(RankOutputTest, LogsBothStreamsWithoutPrefix) {
  const testing::TempDir directory;
  const std::string path = directory.file("rank-0.log");
  testing::write_file(path, "of an earlier run\n");
  start({0, true, path});
  print(out_.write_end, "to out\n");
  // One after the other: between the streams there is no order.
  EXPECT_EQ(testing::read_line(to_out_.read_end.get(), soon()), "[0] to out");
  print(err_.write_end, "to err\nthe end");
  finish();
  EXPECT_EQ(testing::read_file(path), "to out\nto err\nthe end\n");
}

TEST_F(RankOutputTest, NamesALogThatCannotBeWritten) {
  const testing::TempDir directory;
  const std::string path = directory.file("no/such/directory.log");
  try {
    start({0, true, path});
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr(path));
  }
}

TEST_F(RankOutputTest, RemembersTheLastLines) {
  start({0, true, ""});
  Lines expected;
  for (int i = 0; i < 100; ++i) {
    const std::string line = "line " + std::to_string(i);
    print(i < 50 ? out_.write_end : err_.write_end, line + "\n");
    if (i == 49) {  // between the streams there is no order
      while (testing::read_line(to_out_.read_end.get(), soon()) !=
             "[0] line 49") {
      }
    }
    if (i >= 80) expected.push_back(line);
  }
  finish();
  EXPECT_EQ(output_->last_lines(), expected);
}

TEST_F(RankOutputTest, RemembersTheBeginningOfLongLines) {
  start({0, true, ""});
  print(out_.write_end, "begin" + std::string(2000, 'x') + "\n");
  finish();
  ASSERT_EQ(output_->last_lines().size(), 1u);
  EXPECT_EQ(output_->last_lines()[0], "begin" + std::string(495, 'x'));
}

TEST_F(RankOutputTest, RemembersNothingOfNothing) {
  start({0, true, ""});
  finish();
  EXPECT_THAT(output_->last_lines(), IsEmpty());
  EXPECT_EQ(shown(to_out_), "");
}

TEST_F(RankOutputTest, EndsThoughSomebodyKeepsThePipeOpen) {
  start({0, true, ""});
  print(out_.write_end, "before the end\n");
  print(err_.write_end, "no end");
  output_->finish();  // or the test never ends
  EXPECT_EQ(shown(to_out_), "[0] before the end\n");
  EXPECT_EQ(shown(to_err_), "[0] no end\n");
  output_->finish();  // a second time does nothing
}

// A grandchild in a group of its own, say: yes(1).
TEST_F(RankOutputTest, EndsThoughSomebodyPrintsOnAndOn) {
  ::fcntl(out_.write_end.get(), F_SETPIPE_SZ, 1 << 20);
  const Fd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  Stream ignored(nowhere.get());
  RankOutput output({0, true, ""}, std::move(out_.read_end),
                    std::move(err_.read_end), ignored, ignored);
  std::atomic<bool> finished{false};
  std::atomic<int> writing{0};
  std::thread finisher([&] {
    EXPECT_TRUE(testing::eventually([&] { return writing == 3; }));
    output.finish();
    finished = true;
  });
  set_nonblocking(out_.write_end.get());
  const std::string lines(64 << 10, '\n');
  testing::run_threads(3, [&](int) {
    const auto deadline = Deadline::in(60s);  // it takes a moment
    bool counted = false;
    while (!finished && !deadline.passed()) {
      pollfd entry{out_.write_end.get(), POLLOUT, 0};
      ::poll(&entry, 1, 10);
      if (::write(out_.write_end.get(), lines.data(), lines.size()) < 0) {
        if (errno == EPIPE) break;  // nobody reads any more
      }
      if (!counted) ++writing;
      counted = true;
    }
    EXPECT_FALSE(deadline.passed()) << "it takes as long as somebody prints";
  });
  finisher.join();
}

TEST_F(RankOutputTest, TakesMegabytes) {
  start({3, false, ""});
  const std::string line = std::string(99, 'x') + "\n";
  std::string all;
  std::thread reader(
      [&] { all = read_to_end(to_out_.read_end.get(), Deadline::in(60s)); });
  std::string block;
  for (int i = 0; i < 500; ++i) block += line;
  for (int i = 0; i < 40; ++i) print(out_.write_end, block);
  finish();
  to_out_.write_end.reset();
  reader.join();
  EXPECT_EQ(all.size(), 40 * block.size());
}

TEST_F(RankOutputTest, KeepsReadingWhenTheLaunchersReaderHasGone) {
  const testing::TempDir directory;
  const std::string path = directory.file("log");
  start({0, true, path});
  to_out_.read_end.reset();
  const std::string block = std::string(9999, 'x') + "\n";
  for (int i = 0; i < 50; ++i) print(out_.write_end, block);
  finish();
  EXPECT_EQ(testing::read_file(path).size(), 50 * block.size());
}

}  // namespace
}  // namespace lockstep::detail
