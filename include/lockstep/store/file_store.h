// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/store/store.h"

namespace lockstep {

struct FileStoreOptions {
  // How many handles will use the file, one per rank. The last of them to
  // leave removes it. 0: not known; the file stays.
  int expected_ranks = 0;
  // Which job this is (at most 256 bytes). A file of another job is never read:
  // it is replaced when nobody uses it, else refused. Without an id, a file
  // whose users all vanished without leaving counts as another job's.
  std::string run_id;
  // False: wait until another rank makes the file, do not make it here.
  bool create = true;
  // How long the constructor waits for the file and for its lock.
  Deadline::Duration open_timeout = std::chrono::seconds(300);
};

// A Store in a file, for ranks that share a file system but no network yet.
//
// The file is a log of requests, each with its length and checksum, written
// under a lock; every handle keeps the contents in memory and reads only what
// is new. A writer killed in the middle of a record leaves a torn end, which
// readers ignore and the next writer cuts off: what was acknowledged stays. It
// survives the death of processes, not of the machine (no fsync). Works over
// NFS with locks; others' changes are noticed within 10 ms.
//
// Ownership: the destructor leaves the store; see expected_ranks.
// Errors:    as Store. SystemError names the file: a directory that is not
//            there, a full disk, a record that is damaged in the middle (with
//            its offset), a file removed under running ranks. UsageError for
//            a file that is no store, or of another job that is in use. What
//            is not ours is never written to.
class FileStore : public Store {
 public:
  explicit FileStore(const std::string& path,
                     const FileStoreOptions& options = {});
  ~FileStore() override;

 private:
  StoreReply execute(StoreRequest request, Deadline deadline) override;

  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
