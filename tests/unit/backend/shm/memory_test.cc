// SPDX-License-Identifier: Apache-2.0
// Memory files, and the room there is for them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "backend/host.h"
#include "backend/shm/memory_file.h"
#include "backend/shm/parcel.h"
#include "support/message_of.h"

namespace lockstep::detail {
namespace {

using Populate = MemoryFile::Populate;
using ::testing::HasSubstr;
using testing::message_of;

TEST(MemoryFile, IsZeroedAndSeenByAllWhoMapIt) {
  const MemoryFile file = MemoryFile::reserved(10'000);
  const MemoryFile same = MemoryFile::of_process(::getpid(), file.fd());
  EXPECT_NE(same.fd(), file.fd());
  const Mapping here = file.map(0, 10'000, Populate::kNow);
  const Mapping there = same.map(0, 10'000, Populate::kOnUse);
  EXPECT_EQ(here.data()[9'999], std::byte{0});
  here.data()[9'999] = std::byte{7};
  EXPECT_EQ(there.data()[9'999], std::byte{7});
}

TEST(MemoryFile, IsNotInheritedByProgramsAndHasNoName) {
  const MemoryFile file = MemoryFile::reserved(1);
  EXPECT_NE(::fcntl(file.fd(), F_GETFD) & FD_CLOEXEC, 0);
  struct stat status {};
  EXPECT_EQ(::fstat(file.fd(), &status), 0);
  EXPECT_EQ(status.st_nlink, 0U);
}

TEST(MemoryFile, MapsNothingBeyondItsEnd) {
  const MemoryFile file = MemoryFile::reserved(4096);
  try {
    file.map(0, 4097, Populate::kNow);
    ADD_FAILURE() << "mapped";
  } catch (const SystemError& error) {
    EXPECT_TRUE(is_gone(error)) << error.what();
  }
}

TEST(MemoryFile, SaysWhoseMemoryCannotBeOpened) {
  const MemoryFile file = MemoryFile::reserved(1);
  const int closed = ::dup(file.fd());
  ::close(closed);
  EXPECT_THAT(message_of<SystemError>(
                  [&] { MemoryFile::of_process(::getpid(), closed); }),
              HasSubstr("cannot open memory of process"));
}

TEST(MemoryFile, IsRecognisedByItsCookie) {
  const MemoryFile file = MemoryFile::reserved(4096);
  const uint64_t cookie = new_cookie();
  EXPECT_FALSE(file.begins_with(cookie));
  const Mapping mapping = file.map(0, 4096, Populate::kNow);
  std::memcpy(mapping.data(), &cookie, sizeof(cookie));
  EXPECT_TRUE(file.begins_with(cookie));
  EXPECT_FALSE(file.begins_with(new_cookie()));
}

TEST(MemoryFile, ALimitOnFilesIsAnErrorNotASignal) {
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit low = before;
  low.rlim_cur = 1 << 20;
  ::setrlimit(RLIMIT_FSIZE, &low);
  const std::string text =
      message_of<SystemError>([] { MemoryFile::reserved(2 << 20); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(text, HasSubstr("ulimit -f"));
}

// Asked before anything is taken: nobody is killed for it.
TEST(MemoryRoom, TooMuchIsAnErrorWithBothNumbers) {
  EXPECT_GT(memory_room(), size_t{1} << 20);
  EXPECT_LT(memory_room(), size_t{1} << 50);
  check_room(1, "for a test");
  const std::string text = message_of<SystemError>(
      [] { check_room(size_t{1} << 50, "for a test"); });
  EXPECT_THAT(text, HasSubstr("for a test: 1125899906.8 MB asked, there is "
                              "room for"));
}

TEST(HostIdentity, IsTheSameForAllProcessesHere) {
  EXPECT_EQ(host_identity(), host_identity());
  EXPECT_THAT(host_identity(), HasSubstr(" "));
}

class ParcelTest : public ::testing::Test {
 protected:
  std::vector<int> numbers_ = std::vector<int>(5000, 42);
  Parcel sent_{buffer_of(numbers_)};

  Parcel open() const {
    return {::getpid(), sent_.fd(), sent_.cookie(),
            numbers_.size() * sizeof(int)};
  }
};

TEST_F(ParcelTest, IsTakenOnce) {
  numbers_.assign(5000, 0);  // the sender's memory is free
  Parcel received = open();
  EXPECT_FALSE(sent_.was_taken());
  EXPECT_TRUE(received.take());
  EXPECT_FALSE(received.take());
  EXPECT_TRUE(sent_.was_taken());
  EXPECT_FALSE(sent_.withdraw());
  int last = 0;
  std::memcpy(&last, received.data() + 4999 * sizeof(int), sizeof(last));
  EXPECT_EQ(last, 42);
}

TEST_F(ParcelTest, IsTakenBackBeforeItIsTaken) {
  Parcel received = open();
  EXPECT_TRUE(sent_.withdraw());
  EXPECT_FALSE(received.take());
  EXPECT_FALSE(sent_.was_taken());
}

TEST_F(ParcelTest, AnotherOneUnderTheSameDescriptorIsNoticed) {
  EXPECT_THAT(message_of<SystemError>([&] {
                Parcel(::getpid(), sent_.fd(), sent_.cookie() + 1, 8);
              }),
              HasSubstr("the message is gone"));
}

}  // namespace
}  // namespace lockstep::detail
