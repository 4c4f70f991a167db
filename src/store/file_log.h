// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lockstep/base/bytes.h"
#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"

namespace lockstep::detail {

// The file under a FileStore: a header, then records; and the locks that keep
// its users apart. The format is written down in docs/stores.md.
//
// Two locks, both on single bytes of the file and held by the open file (so
// two handles of one process are two users, and a dead process holds none):
// *access*, shared to read and exclusive to write; and *presence*, shared by
// everyone who has the store open, so that a newcomer can tell whether anybody
// is left.
//
// Threads: one at a time.
// Errors:  SystemError and UsageError as FileStore says; TimeoutError when a
//          lock is not to be had in time.
class FileLog {
 public:
  // Opens the file, making it if `create`; otherwise waits for it. The
  // contents are not looked at yet.
  FileLog(std::string path, bool create, Deadline deadline);

  // Holds the access lock while it lives.
  class Access {
   public:
    enum Mode { kShared, kExclusive };
    Access(const FileLog& log, Mode mode, Deadline deadline);
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    const FileLog& log_;
  };

  // --- with exclusive access ---

  // The run id in the header; nothing when the file is new.
  std::optional<std::string> run_id();
  // Throws away what is there and begins anew.
  void begin(const std::string& run_id);
  // Adds a record, after cutting off a torn one. When it cannot be written
  // whole the file is as it was before.
  void append(ConstBytes payload);
  void remove() noexcept;

  // --- with any access ---

  // Calls `handle` for every record not read before. A torn one at the end
  // ends the reading; it may become whole later.
  void read_new(const std::function<void(ConstBytes)>& handle);

  // --- without ---

  // Whether there may be something to read.
  bool has_news() const;
  // False when the path leads to another file, or none.
  bool is_still_there() const;
  void check_still_there() const;

  // Starts to be present, and asks whether others are.
  void enter() const;
  bool others_present() const;

  // Forgets how far it has read.
  void rewind();

  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail(const std::string& what) const;
  uint64_t size() const;
  bool read_at(uint64_t offset, Bytes bytes) const;
  void write_at(uint64_t offset, ConstBytes bytes) const;

  const std::string path_;
  Fd fd_;
  uint64_t offset_;  // what lies before has been read
};

}  // namespace lockstep::detail
