// SPDX-License-Identifier: Apache-2.0
#include "store/file_log.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "store/codec.h"

namespace lockstep::detail {

using namespace std::chrono_literals;

namespace {

// header: magic, version, length of the run id, run id in 256 bytes, checksum
constexpr std::string_view kMagic = "LOCKSTEP";
constexpr uint32_t kVersion = 1;
constexpr size_t kMostRunIdBytes = 256;
constexpr size_t kHeaderBytes = 8 + 4 + 4 + kMostRunIdBytes + 8;

// record: length, the same inverted, checksum of the payload, payload
constexpr size_t kRecordHeaderBytes = 4 + 4 + 8;
constexpr size_t kMostPayloadBytes = codec::kMostEncodedBytes + 1;

constexpr off_t kAccessByte = 0;
constexpr off_t kPresenceByte = 1;

// The first eight bytes of SHA-256.
uint64_t checksum(ConstBytes bytes) {
  std::byte digest[SHA256_DIGEST_LENGTH];
  ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
           reinterpret_cast<unsigned char*>(digest));
  return ByteReader({digest, sizeof digest}).u64();
}

struct flock byte_lock(short type, off_t byte) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

bool directory_exists(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory =
      slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct stat info {};
  return ::stat(directory.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

FileLog::FileLog(std::string path, bool create, Deadline deadline)
    : path_(std::move(path)), offset_(kHeaderBytes) {
  const int flags = O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0);
  const auto allowed = deadline.remaining();
  for (;;) {
    fd_.reset(::open(path_.c_str(), flags, 0600));
    if (fd_) break;
    if (errno != ENOENT) fail("cannot open the store file");
    if (!directory_exists(path_)) {
      fail("the directory for the store file does not exist; make it first:");
    }
    // With create: it was removed between the look-up and the making; or the
    // path is empty, or a link that leads nowhere.
    if (create && deadline.passed()) fail("cannot make the store file");
    LOCKSTEP_CHECK(!deadline.passed(), TimeoutError,
                   "store file '{}' did not appear within {}; is the rank that "
                   "makes it running?",
                   path_, to_text(allowed));
    std::this_thread::sleep_for(
        std::min<Deadline::Duration>(10ms, deadline.remaining()));
  }
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) fail("cannot look at the store file");
  LOCKSTEP_CHECK(S_ISREG(info.st_mode), UsageError,
                 "'{}' is no regular file and cannot hold a store", path_);
}

FileLog::Access::Access(const FileLog& log, Mode mode, Deadline deadline)
    : log_(log) {
  const auto allowed = deadline.remaining();
  auto pause = std::chrono::microseconds(20);
  for (;;) {
    auto lock = byte_lock(mode == kExclusive ? F_WRLCK : F_RDLCK, kAccessByte);
    if (::fcntl(log_.fd_.get(), F_OFD_SETLK, &lock) == 0) return;
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
      log_.fail("cannot lock the store file");
    }
    LOCKSTEP_CHECK(!deadline.passed(), TimeoutError,
                   "the lock on store file '{}' was not to be had within {}; "
                   "a process that is stopped may hold it (lslocks shows it)",
                   log_.path_, to_text(allowed));
    std::this_thread::sleep_for(
        std::min<Deadline::Duration>(pause, deadline.remaining()));
    pause = std::min(pause * 2, std::chrono::microseconds(2000));
  }
}

FileLog::Access::~Access() {
  auto lock = byte_lock(F_UNLCK, kAccessByte);
  ::fcntl(log_.fd_.get(), F_OFD_SETLK, &lock);
}

std::optional<std::string> FileLog::run_id() {
  ByteVector header(std::min<uint64_t>(size(), kHeaderBytes));
  if (!read_at(0, header)) fail("cannot read the header of the store file");
  // Less than a header is what a maker leaves that was killed at once; but
  // only if it begins like one.
  const ByteVector opening = ByteWriter().raw(kMagic).u32(kVersion).take();
  const size_t known =
      std::min(header.size(),
               header.size() < kHeaderBytes ? opening.size() : kMagic.size());
  LOCKSTEP_CHECK(
      ConstBytes(header).first(known) == ConstBytes(opening).first(known),
      UsageError,
      "'{}' is no store file; it was left untouched, choose "
      "another path",
      path_);
  if (header.size() < kHeaderBytes) return std::nullopt;
  ByteReader reader(header);
  reader.raw(kMagic.size());
  const uint32_t version = reader.u32();
  LOCKSTEP_CHECK(version == kVersion, UsageError,
                 "store file '{}' has format {}, this program knows {}; remove "
                 "it or choose another path",
                 path_, version, kVersion);
  const size_t id_bytes = reader.u32();
  const ConstBytes id_field = reader.raw(kMostRunIdBytes);
  const uint64_t sum = reader.u64();
  if (id_bytes > kMostRunIdBytes ||
      sum != checksum(ConstBytes(header).first(kHeaderBytes - 8))) {
    errno = EBADMSG;
    fail("the header is damaged at offset 0 of the store file");
  }
  return to_string(id_field.first(id_bytes));
}

void FileLog::begin(const std::string& run_id) {
  LOCKSTEP_CHECK(run_id.size() <= kMostRunIdBytes, UsageError,
                 "a run id of {} bytes; the limit is {}", run_id.size(),
                 kMostRunIdBytes);
  ByteWriter header;
  header.raw(kMagic).u32(kVersion).u32(static_cast<uint32_t>(run_id.size()));
  header.raw(run_id).raw(ByteVector(kMostRunIdBytes - run_id.size()));
  header.u64(checksum(header.bytes()));
  if (::ftruncate(fd_.get(), 0) != 0) fail("cannot empty the store file");
  write_at(0, header.bytes());
  rewind();
}

void FileLog::append(ConstBytes payload) {
  LOCKSTEP_ASSERT(payload.size() <= kMostPayloadBytes);
  if (size() > offset_ &&
      ::ftruncate(fd_.get(), static_cast<off_t>(offset_)) != 0) {
    fail("cannot cut a torn record off the store file");
  }
  const auto length = static_cast<uint32_t>(payload.size());
  ByteWriter record;
  record.u32(length).u32(~length).u64(checksum(payload)).raw(payload);
  try {
    write_at(offset_, record.bytes());
  } catch (const SystemError&) {
    // If even this fails, readers know the rest as a torn record.
    if (::ftruncate(fd_.get(), static_cast<off_t>(offset_)) != 0) {
    }
    throw;
  }
  offset_ += record.size();
}

void FileLog::remove() noexcept {
  if (is_still_there()) ::unlink(path_.c_str());
}

void FileLog::read_new(const std::function<void(ConstBytes)>& handle) {
  const uint64_t end = size();
  const auto damaged = [&](const char* what) {
    errno = EBADMSG;
    fail(fmt::format("{} at offset {} of the store file", what, offset_));
  };
  while (offset_ + kRecordHeaderBytes <= end) {
    std::byte header[kRecordHeaderBytes];
    if (!read_at(offset_, {header, sizeof header})) return;
    ByteReader reader(ConstBytes(header, sizeof header));
    const uint32_t length = reader.u32();
    const bool sane = reader.u32() == ~length && length <= kMostPayloadBytes;
    if (!sane) damaged("a damaged record");
    const uint64_t sum = reader.u64();
    const uint64_t next = offset_ + kRecordHeaderBytes + length;
    if (next > end) return;  // torn, or still being written
    ByteVector payload(length);
    if (!read_at(offset_ + kRecordHeaderBytes, payload)) return;
    if (checksum(payload) != sum) {
      if (next == end) return;  // torn: the length came, the rest did not
      damaged("a record with a wrong checksum");
    }
    handle(payload);
    offset_ = next;
  }
}

bool FileLog::has_news() const { return size() != offset_; }

bool FileLog::is_still_there() const {
  struct stat ours {};
  struct stat there {};
  return ::fstat(fd_.get(), &ours) == 0 && ours.st_nlink > 0 &&
         ::stat(path_.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

void FileLog::check_still_there() const {
  if (is_still_there()) return;
  errno = ENOENT;
  fail("the store file was removed or replaced under running ranks:");
}

void FileLog::enter() const {
  auto lock = byte_lock(F_RDLCK, kPresenceByte);
  if (::fcntl(fd_.get(), F_OFD_SETLK, &lock) != 0) {
    fail("cannot lock the store file");
  }
}

bool FileLog::others_present() const {
  auto lock = byte_lock(F_WRLCK, kPresenceByte);
  if (::fcntl(fd_.get(), F_OFD_GETLK, &lock) != 0) return true;
  return lock.l_type != F_UNLCK;
}

void FileLog::rewind() { offset_ = kHeaderBytes; }

void FileLog::fail(const std::string& what) const {
  const int error = errno;
  throw SystemError(fmt::format("{} '{}'", what, path_), error);
}

uint64_t FileLog::size() const {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) fail("cannot look at the store file");
  return static_cast<uint64_t>(info.st_size);
}

// False when the file is shorter than that (it was cut meanwhile).
bool FileLog::read_at(uint64_t offset, Bytes bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd_.get(), bytes.data(), bytes.size(),
                                static_cast<off_t>(offset));
    if (got == 0) return false;
    if (got < 0) {
      if (errno == EINTR) continue;
      fail("cannot read the store file");
    }
    offset += static_cast<uint64_t>(got);
    bytes = bytes.from(static_cast<size_t>(got));
  }
  return true;
}

void FileLog::write_at(uint64_t offset, ConstBytes bytes) const {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd_.get(), bytes.data(), bytes.size(),
                                 static_cast<off_t>(offset));
    if (put < 0) {
      if (errno == EINTR) continue;
      fail("cannot write to the store file; what was stored before is safe:");
    }
    offset += static_cast<uint64_t>(put);
    bytes = bytes.from(static_cast<size_t>(put));
  }
}

}  // namespace lockstep::detail
