// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/secret_file.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/support.h"
#include "unit/launch/launch_support.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SecretFileTest : public ::testing::Test {
 protected:
  std::string make(const std::string& contents, mode_t mode = 0600) {
    const std::string path = directory_.file("secret");
    testing::write_file(path, contents);
    ::chmod(path.c_str(), mode);
    return path;
  }

  template <typename Type>
  static std::string complaint(const std::string& path) {
    try {
      read_secret_file(path);
    } catch (const Type& error) {
      return error.what();
    }
    return "no error";
  }

  testing::TempDir directory_;
  testing::CleanEnvironment env_;
};

TEST_F(SecretFileTest, IsTheFirstLine) {
  EXPECT_EQ(read_secret_file(make("s3cret")), "s3cret");
  EXPECT_EQ(read_secret_file(make("s3cret\n")), "s3cret");
  EXPECT_EQ(read_secret_file(make("s3cret\r\nmore\n")), "s3cret");
  EXPECT_EQ(read_secret_file(make("two words\nsecond line")), "two words");
}

TEST_F(SecretFileTest, MayBeReadOnly) {
  EXPECT_EQ(read_secret_file(make("x", 0400)), "x");
}

TEST_F(SecretFileTest, ComplainsOfAnEmptyOne) {
  for (const char* contents : {"", "\n", "\r\n", "\nsecond line"}) {
    const std::string path = make(contents);
    EXPECT_THAT(complaint<UsageError>(path),
                AllOf(HasSubstr("is empty"), HasSubstr(path)));
  }
}

TEST_F(SecretFileTest, RefusesOneThatOthersMayRead) {
  for (const mode_t mode : {0644, 0640, 0604, 0444}) {
    const std::string path = make("s3cret", mode);
    EXPECT_THAT(complaint<UsageError>(path),
                AllOf(HasSubstr("chmod 600 " + path),
                      ::testing::Not(HasSubstr("s3cret"))))
        << std::oct << mode;
  }
}

TEST_F(SecretFileTest, NamesOneThatCannotBeRead) {
  const std::string path = directory_.file("missing");
  EXPECT_THAT(complaint<SystemError>(path),
              AllOf(HasSubstr(path), HasSubstr("ENOENT")));
  EXPECT_THAT(complaint<SystemError>(directory_.path()), HasSubstr("EISDIR"));
}

TEST_F(SecretFileTest, IsNotNeeded) {
  EXPECT_EQ(secret_from_environment(), std::nullopt);
}

TEST_F(SecretFileTest, IsFoundThroughTheEnvironment) {
  env_.set("LOCKSTEP_SECRET_FILE", make("from a file\n"));
  EXPECT_EQ(secret_from_environment(), "from a file");
}

TEST_F(SecretFileTest, YieldsToASecretInTheEnvironment) {
  env_.set("LOCKSTEP_SECRET_FILE", make("from a file\n"));
  env_.set("LOCKSTEP_SECRET", "given");
  EXPECT_EQ(secret_from_environment(), "given");
  // It is not even looked at.
  env_.set("LOCKSTEP_SECRET_FILE", directory_.file("missing"));
  EXPECT_EQ(secret_from_environment(), "given");
}

TEST_F(SecretFileTest, MustBeThereWhenTheEnvironmentNamesIt) {
  env_.set("LOCKSTEP_SECRET_FILE", directory_.file("missing"));
  EXPECT_THROW(secret_from_environment(), SystemError);
}

}  // namespace
}  // namespace lockstep
