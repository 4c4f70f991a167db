// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/file_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "support/support.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::read_file;
using testing::write_file;

class FileStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<FileStore> open(const std::string& run_id = "",
                                  int expected_ranks = 0) {
    FileStoreOptions options;
    options.run_id = run_id;
    options.expected_ranks = expected_ranks;
    options.open_timeout = 5s;
    return std::make_unique<FileStore>(path_, options);
  }

  template <class ErrorType>
  std::string refusal(const std::string& run_id = "") {
    try {
      open(run_id);
    } catch (const ErrorType& error) {
      return error.what();
    }
    return "no error";
  }

  // A copy of the file as a job leaves it that is killed now.
  std::string crashed_contents() {
    auto store = open("old");
    store->set("old key", "old value");
    store->push("old queue", "v");
    return read_file(path_);
  }

  testing::TempDir directory_;
  testing::LogCapture log_;
  const std::string path_ = directory_.file("store");
};

TEST_F(FileStoreTest, TwoHandlesShareTheFile) {
  auto first = open();
  auto second = open();
  first->set("k", "v");
  EXPECT_EQ(to_string(second->get("k")), "v");
}

TEST_F(FileStoreTest, ALaterHandleSeesWhatWasBefore) {
  auto first = open();
  first->set("a", "1");
  first->add("n", 3);
  first->append("a", "2");
  first->push("q", "x");
  first->push("q", "y");
  first->pop("q");
  first->set("gone", "");
  first->delete_key("gone");
  auto second = open();
  EXPECT_EQ(to_string(second->get("a")), "12");
  EXPECT_EQ(to_string(second->get("n")), "3");
  EXPECT_EQ(to_string(second->pop("q")), "y");
  EXPECT_FALSE(second->check({"gone"}));
}

TEST_F(FileStoreTest, IsForItsUserOnly) {
  open();
  EXPECT_EQ(fs::status(path_).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(FileStoreTest, AMissingDirectoryIsAnErrorAtOnce) {
  const auto start = Deadline::Clock::now();
  try {
    FileStore store(directory_.file("no/such/store"));
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("directory"));
    EXPECT_THAT(error.what(), HasSubstr("no/such/store"));
  }
  EXPECT_LT(Deadline::Clock::now() - start, 2s);
}

TEST_F(FileStoreTest, AMissingFileIsWaitedFor) {
  FileStoreOptions options;
  options.create = false;
  options.open_timeout = 30ms;
  EXPECT_THROW(FileStore(path_, options), TimeoutError);
  EXPECT_FALSE(fs::exists(path_));
  options.open_timeout = 10s;
  std::thread maker([&] { open()->set("k", "v"); });
  FileStore waited(path_, options);
  EXPECT_EQ(to_string(waited.get("k")), "v");
  maker.join();
}

TEST_F(FileStoreTest, WhatIsNoStoreIsLeftUntouched) {
  for (const std::string& contents :
       {std::string("x"), std::string("LOCKSMITH and more text"),
        std::string(500, '\0'), std::string("#!/bin/sh\necho hello\n"),
        std::string("LOCKSTEP notes")}) {
    write_file(path_, contents);
    EXPECT_THAT(refusal<UsageError>(), HasSubstr("is no store file"));
    EXPECT_EQ(read_file(path_), contents);
  }
  EXPECT_THROW(FileStore store(directory_.path()), Error);
  EXPECT_THROW(FileStore store("/dev/null"), Error);
}

TEST_F(FileStoreTest, APathThatCannotBeMadeIsAnErrorInTime) {
  FileStoreOptions options;
  options.open_timeout = 50ms;
  EXPECT_THROW(FileStore("", options), Error);
  fs::create_symlink(directory_.file("no/where"), path_);
  EXPECT_THROW(FileStore(path_, options), Error);
}

TEST_F(FileStoreTest, ATornHeaderIsBegunAnew) {
  open();
  const auto whole = read_file(path_);
  fs::remove(path_);
  for (size_t size : {0, 1, 8, 50}) {
    write_file(path_, whole.substr(0, size));
    open()->set("k", "v");
    EXPECT_EQ(to_string(open()->get("k")), "v") << size;
  }
}

TEST_F(FileStoreTest, ADamagedHeaderIsNamed) {
  open();
  auto contents = read_file(path_);
  contents[20] ^= 1;
  write_file(path_, contents);
  EXPECT_THAT(refusal<SystemError>(), HasSubstr("offset 0"));
}

TEST_F(FileStoreTest, AnotherFormatIsNamed) {
  open();
  auto contents = read_file(path_);
  contents[11] = 9;
  write_file(path_, contents);
  EXPECT_THAT(refusal<UsageError>(), HasSubstr("format 9"));
}

// The writer may be killed after any byte: readers go on without the record,
// and the next writer cuts it off.
TEST_F(FileStoreTest, ARecordTornAnywhereIsIgnoredAndCutOff) {
  auto store = open("run");
  store->set("first", "kept");
  const size_t before = read_file(path_).size();
  store->set("second", "torn");
  const auto whole = read_file(path_);
  for (size_t size = before; size < whole.size(); ++size) {
    write_file(path_, whole.substr(0, size));
    auto reader = open("run");
    EXPECT_EQ(to_string(reader->get("first", Deadline::in(1s))), "kept");
    EXPECT_FALSE(reader->check({"second"})) << size;
    reader->set("third", "v");
    EXPECT_EQ(to_string(open("run")->get("third", Deadline::in(1s))), "v");
  }
}

TEST_F(FileStoreTest, ALastRecordWithAWrongChecksumIsTorn) {
  auto store = open("run");
  store->set("first", "kept");
  store->set("second", "torn");
  auto contents = read_file(path_);
  contents.back() ^= 1;
  write_file(path_, contents);
  auto reader = open("run");
  EXPECT_TRUE(reader->check({"first"}));
  EXPECT_FALSE(reader->check({"second"}));
}

TEST_F(FileStoreTest, DamageInTheMiddleNamesFileAndOffset) {
  auto store = open("run");
  const size_t offset = read_file(path_).size();
  store->set("key", "value");
  store->set("more", "behind it");
  const auto whole = read_file(path_);
  // The payload, its checksum, its length: each is noticed.
  for (size_t bent : {offset + 20, offset + 9, offset + 3, offset + 0}) {
    auto contents = whole;
    contents[bent] ^= 4;
    write_file(path_, contents);
    const auto text = refusal<SystemError>("run");
    EXPECT_THAT(text, HasSubstr(path_)) << bent;
    EXPECT_THAT(text, HasSubstr("offset " + std::to_string(offset))) << bent;
    EXPECT_EQ(read_file(path_), contents) << bent;  // nothing was lost
  }
}

TEST_F(FileStoreTest, AStaleFileOfAnotherRunIsReplaced) {
  write_file(path_, crashed_contents());
  auto store = open("new");
  EXPECT_EQ(store->num_keys(), 0);
  EXPECT_EQ(store->length("old queue"), 0);
  EXPECT_EQ(log_.count("earlier run 'old'"), 1);
  auto second = open("new");  // and the next rank joins the new one
  store->set("k", "v");
  EXPECT_EQ(to_string(second->get("k")), "v");
}

TEST_F(FileStoreTest, AFileOfAnotherRunInUseIsRefused) {
  auto old = open("old");
  old->set("k", "v");
  const auto text = refusal<UsageError>("new");
  EXPECT_THAT(text, HasSubstr("'old'"));
  EXPECT_THAT(text, HasSubstr("'new'"));
  EXPECT_EQ(to_string(old->get("k")), "v");
}

TEST_F(FileStoreTest, WithoutARunIdACrashedJobsFileIsReplaced) {
  std::string crashed;
  {
    auto store = open();
    store->set("old key", "v");
    crashed = read_file(path_);
  }
  write_file(path_, crashed);  // joined, never left, nobody there
  EXPECT_EQ(open()->num_keys(), 0);
  EXPECT_EQ(log_.count("did not end properly"), 1);
}

TEST_F(FileStoreTest, WithoutARunIdRanksMayComeOneAfterTheOther) {
  open()->set("k", "v");  // opened, used, left
  EXPECT_EQ(to_string(open()->get("k")), "v");
}

TEST_F(FileStoreTest, TheLastExpectedRankRemovesTheFile) {
  auto first = open("run", 2);
  auto second = open("run", 2);
  first.reset();
  EXPECT_TRUE(fs::exists(path_));
  second.reset();
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(FileStoreTest, RanksThatComeOneAfterTheOtherRemoveItToo) {
  open("run", 2);
  EXPECT_TRUE(fs::exists(path_));
  open("run", 2);
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(FileStoreTest, AnExtraHandleDelaysTheRemoval) {
  auto extra = open("run", 1);
  open("run", 1);
  EXPECT_TRUE(fs::exists(path_));
  extra.reset();
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(FileStoreTest, AFileRemovedUnderRunningRanksIsAnError) {
  auto store = open();
  std::thread remover([&] {
    std::this_thread::sleep_for(50ms);
    fs::remove(path_);
  });
  const auto start = Deadline::Clock::now();
  try {
    store->get("never", Deadline::in(60s));
    ADD_FAILURE();
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("removed"));
    EXPECT_THAT(error.what(), HasSubstr(path_));
  }
  EXPECT_LT(Deadline::Clock::now() - start, 10s);
  remover.join();
  EXPECT_THROW(store->set("k", "v"), SystemError);
  write_file(path_, "something else");
  EXPECT_THROW(store->check({"k"}), SystemError);
  store.reset();
  EXPECT_EQ(read_file(path_), "something else");
}

TEST_F(FileStoreTest, ALockNobodyGivesBackEndsAtTheDeadline) {
  auto store = open();
  store->set("k", "v");
  const Fd holder(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  ASSERT_EQ(::fcntl(holder.get(), F_OFD_SETLK, &lock), 0);
  store->set_timeout(50ms);
  try {
    store->set("k", "w");
    FAIL();
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("lock"));
    EXPECT_THAT(error.what(), HasSubstr(path_));
  }
  EXPECT_EQ(to_string(store->get("k")), "v");  // reading needs no lock here
  lock.l_type = F_UNLCK;
  ASSERT_EQ(::fcntl(holder.get(), F_OFD_SETLK, &lock), 0);
  store->set("k", "w");
  EXPECT_EQ(to_string(store->get("k")), "w");
}

TEST_F(FileStoreTest, LeavesNoDescriptor) {
  const int before = testing::open_descriptors();
  for (int i = 0; i < 10; ++i) open()->set("k", "v");
  EXPECT_EQ(testing::open_descriptors(), before);
}

TEST_F(FileStoreTest, ARunIdHasALimit) {
  EXPECT_THAT(refusal<UsageError>(std::string(257, 'r')), HasSubstr("256"));
  EXPECT_EQ(refusal<UsageError>(std::string(256, 'r')), "no error");
}

TEST_F(FileStoreTest, ManyRanksRaceToMakeIt) {
  testing::run_threads(16, [&](int rank) {
    auto store = open("race", 16);
    store->set(std::to_string(rank), "");
    for (int i = 0; i < 16; ++i) {
      store->wait({std::to_string(i)}, Deadline::in(30s));
    }
    store->add("met", 1);
    while (store->add("met", 0) < 16) std::this_thread::yield();
  });
  EXPECT_FALSE(fs::exists(path_));
}

}  // namespace
}  // namespace lockstep
