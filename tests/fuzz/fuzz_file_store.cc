// SPDX-License-Identifier: Apache-2.0
// What can stand in the file of a FileStore: it is read, or refused with an
// Error and left as it was. What it read, the next handle reads too.
//
// Input: how to read it, whose file it is, requests to make; then the contents
// as they are, or records to put into a well-formed file, which may then lose
// its end and one good byte.

#include <openssl/sha.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "fuzz/fuzz_input.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/store/file_store.h"
#include "lockstep/store/hash_store.h"
#include "store/codec.h"

namespace lockstep::fuzz {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr std::string_view kMagic = "LOCKSTEP";
constexpr size_t kRunIdBytes = 256;

// A place in /tmp that goes when the process does.
struct Scratch {
  Scratch() {
    char name[] = "/tmp/lockstep-fuzz-XXXXXX";
    require(::mkdtemp(name) != nullptr, "there is room in /tmp");
    directory = name;
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(directory, ignored);
  }
  std::string file() const { return directory + "/store"; }
  std::string directory;
};

void write_file(const std::string& path, const ByteVector& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

ByteVector read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return to_vector(text);
}

// --- a well-formed file, as docs/stores.md has it -------------------------

uint64_t checksum(ConstBytes bytes) {
  std::byte digest[SHA256_DIGEST_LENGTH];
  ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
           reinterpret_cast<unsigned char*>(digest));
  return ByteReader({digest, sizeof digest}).u64();
}

ByteWriter header(const std::string& run_id) {
  ByteWriter file;
  file.raw(kMagic).u32(1).u32(static_cast<uint32_t>(run_id.size()));
  file.raw(run_id).raw(ByteVector(kRunIdBytes - run_id.size()));
  file.u64(checksum(file.bytes()));
  return file;
}

void put_record(ConstBytes payload, ByteWriter& file) {
  const auto length = static_cast<uint32_t>(payload.size());
  file.u32(length).u32(~length).u64(checksum(payload)).raw(payload);
}

// The contents a file should have; nothing once it makes no sense.
class Model {
 public:
  void replay(ConstBytes payload) {
    ByteReader reader(payload);
    const uint8_t kind = reader.u8();
    if (kind == 2 || kind == 3) return;  // a handle came or left
    const auto request = detail::codec::decode_request(reader);
    sane_ = sane_ && kind == 1 && request && is_change(request->op);
    try {
      if (sane_) contents_.call(*request, Deadline::in(0ms));
    } catch (const Error&) {
      sane_ = false;  // refused, or a pop from an empty queue
    }
  }
  void spoil() { sane_ = false; }
  bool sane() const { return sane_; }

  int64_t num_keys() { return contents_.num_keys(); }

 private:
  bool sane_ = true;
  HashStore contents_;
};

ByteVector make_file(Input& input, const std::string& run_id, Model& model) {
  const uint8_t harm = input.u8();
  const size_t where = input.u8() * 256U + input.u8();
  ByteWriter file = header(run_id);
  while (!input.empty()) {
    ByteWriter payload;
    const uint8_t kind = input.u8() % 8;
    if (kind == 0) {
      payload.raw(input.counted());
    } else {
      payload.u8(kind < 4 ? kind : 1);
      if (kind == 1 || kind > 3) {
        detail::codec::encode(input.request(), payload);
      }
    }
    put_record(payload.bytes(), file);
    model.replay(payload.bytes());
  }
  ByteVector bytes = file.take();
  if (harm & 1) bytes.resize(where % (bytes.size() + 1));
  if (harm & 2 && !bytes.empty()) {
    bytes[where % bytes.size()] ^= static_cast<std::byte>(harm | 1);
  }
  if (harm & 3) model.spoil();
  return bytes;
}

// --- what must hold -------------------------------------------------------

bool begins_like_ours(ConstBytes file) {
  const size_t known = std::min(file.size(), kMagic.size());
  return file.first(known) == ConstBytes(kMagic).first(known);
}

std::unique_ptr<FileStore> open(const std::string& path,
                                const FileStoreOptions& options) {
  const ByteVector before = read_file(path);
  try {
    auto store = std::make_unique<FileStore>(path, options);
    require(begins_like_ours(before), "what is not ours is refused");
    return store;
  } catch (const Error& error) {
    require(error.kind() != ErrorKind::kInternal, "no invariant of ours");
    require(read_file(path) == before, "what is refused is left untouched");
    return nullptr;
  }
}

void use(const std::string& path, const FileStoreOptions& options,
         const std::vector<StoreRequest>& requests, Model& model) {
  const auto store = open(path, options);
  require(!model.sane() || (store && store->num_keys() == model.num_keys()),
          "a sane file is read");
  if (!store) return;
  for (const auto& request : requests) {
    try {
      store->call(request, Deadline::in(1ms));
    } catch (const UsageError&) {
    } catch (const TimeoutError&) {
    }
  }
  store->set("last key", "value");
  const auto other = open(path, options);
  require(other && other->num_keys() == store->num_keys() &&
              to_string(other->get("last key", Deadline::in(1s))) == "value",
          "another handle sees the same");
}

}  // namespace
}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::fuzz;
  using namespace std::chrono_literals;
  lockstep::set_log_level(lockstep::LogLevel::kOff);
  static const Scratch scratch;
  Input input(data, size);
  const bool structured = input.u8() % 4 != 0;
  const uint8_t whose = input.u8();
  lockstep::FileStoreOptions options;
  options.expected_ranks = whose & 1;
  options.run_id = whose & 2 ? "fuzz" : "";
  options.open_timeout = 100ms;
  std::vector<lockstep::StoreRequest> requests(input.u8() % 4);
  for (auto& request : requests) request = input.request();
  Model model;
  const std::string run_id = whose & 4 ? "other" : options.run_id;
  if (!structured || run_id != "fuzz") model.spoil();
  write_file(scratch.file(), structured ? make_file(input, run_id, model)
                                        : to_vector(input.rest()));
  use(scratch.file(), options, requests, model);
  return 0;
}
