// SPDX-License-Identifier: Apache-2.0
// Several buffers as one operation: they are packed side by side, so that all
// of them cost one trip. The packed copy belongs to the operation.
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "comm/group_impl.h"

namespace lockstep {
namespace {

using Buffers = std::vector<Buffer>;

// Memory with room for `list`, `times` over.
struct Packed {
  Packed(const char* which, const Buffers& list, size_t times) {
    LOCKSTEP_CHECK(!list.empty(), UsageError, "the list of {} is empty", which);
    all.dtype = list.front().dtype;
    for (size_t i = 0; i < list.size(); ++i) {
      const Buffer& one = list[i];
      LOCKSTEP_CHECK(one.dtype == all.dtype, UsageError,
                     "{}[{}] is {} and {}[0] is {}; a coalesced call takes one "
                     "type",
                     which, i, to_text(one.dtype), which, to_text(all.dtype));
      LOCKSTEP_CHECK(one.count == 0 || one.data != nullptr, UsageError,
                     "{}[{}] has {} elements and no memory", which, i,
                     one.count);
      all.count += one.count * times;
    }
    memory.resize(all.bytes());
    all.data = memory.data();
  }

  std::vector<std::byte> memory;
  Buffer all;
};

void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

std::byte* begin_of(const Buffer& buffer) {
  return static_cast<std::byte*>(buffer.data);
}

// Side by side, from `at` on.
void pack(const Buffers& list, std::byte* at) {
  for (const Buffer& one : list) {
    copy_bytes(at, one.data, one.bytes());
    at += one.bytes();
  }
}
void unpack(const std::byte* at, const Buffers& list) {
  for (const Buffer& one : list) {
    copy_bytes(one.data, at, one.bytes());
    at += one.bytes();
  }
}

// Part `rank` of each whole, of `ranks` parts.
Buffers parts_of(const Buffers& wholes, int rank, int ranks) {
  Buffers parts;
  for (const Buffer& whole : wholes) {
    const Part part = part_of({}, whole.count, rank, ranks);
    parts.push_back(whole.slice(part.offset, part.count));
  }
  return parts;
}

void check_wholes(const Buffers& parts, const Buffers& wholes, int ranks) {
  LOCKSTEP_CHECK(parts.size() == wholes.size(), UsageError,
                 "there are {} buffers in one list and {} in the other",
                 parts.size(), wholes.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    LOCKSTEP_CHECK(wholes[i].count == 0 || wholes[i].data != nullptr,
                   UsageError, "buffer {} has {} elements and no memory", i,
                   wholes[i].count);
    LOCKSTEP_CHECK(
        wholes[i].count == parts[i].count * static_cast<size_t>(ranks) &&
            wholes[i].dtype == parts[i].dtype,
        UsageError,
        "buffer {}: {} elements of {} cannot be the parts of {} ranks with {} "
        "of {} each",
        i, wholes[i].count, to_text(wholes[i].dtype), ranks, parts[i].count,
        to_text(parts[i].dtype));
  }
}

// Makes `options` copy back before its own finish, keep `memory`, and ranks
// compare how many elements each of the `parts` has.
template <class Memory, class Unpack>
CallOptions then_unpack(CallOptions options, const Buffers& parts,
                        Memory memory, Unpack unpack) {
  std::vector<size_t> counts;
  for (const Buffer& part : parts) counts.push_back(part.count);
  options.agreement ^= agreement_of(counts);
  options.finish = [before = std::move(options.finish), memory, unpack] {
    unpack();
    if (before) before();
  };
  return options;
}

}  // namespace

ProcessGroup::Handle ProcessGroup::all_reduce_coalesced(const Buffers& data,
                                                        ReduceOp op,
                                                        CallOptions options) {
  auto packed = detail::with_context(
      [&] { return impl_->context("all_reduce_coalesced"); },
      [&] { return std::make_shared<Packed>("data", data, 1); });
  pack(data, packed->memory.data());
  const Buffer all = packed->all;
  return all_reduce(all, op,
                    then_unpack(std::move(options), data, packed,
                                [all, data] { unpack(begin_of(all), data); }));
}

ProcessGroup::Handle ProcessGroup::all_gather_coalesced(const Buffers& in,
                                                        const Buffers& out,
                                                        CallOptions options) {
  const int ranks = size();
  auto [from, to] = detail::with_context(
      [&] { return impl_->context("all_gather_coalesced"); },
      [&] {
        check_wholes(in, out, ranks);
        return std::pair(
            std::make_shared<Packed>("in", in, 1),
            std::make_shared<Packed>("in", in, static_cast<size_t>(ranks)));
      });
  pack(in, from->memory.data());
  const size_t stride = from->memory.size();
  return all_gather(
      from->all, to->all, {},
      then_unpack(std::move(options), in, std::pair(from, to),
                  [memory = to->memory.data(), stride, out, ranks] {
                    for (int rank = 0; rank < ranks; ++rank) {
                      unpack(memory + static_cast<size_t>(rank) * stride,
                             parts_of(out, rank, ranks));
                    }
                  }));
}

ProcessGroup::Handle ProcessGroup::reduce_scatter_coalesced(
    const Buffers& in, const Buffers& out, ReduceOp op, CallOptions options) {
  const int ranks = size();
  auto [from, to] = detail::with_context(
      [&] { return impl_->context("reduce_scatter_coalesced"); },
      [&] {
        check_wholes(out, in, ranks);
        return std::pair(
            std::make_shared<Packed>("out", out, static_cast<size_t>(ranks)),
            std::make_shared<Packed>("out", out, 1));
      });
  const size_t stride = to->memory.size();
  for (int rank = 0; rank < ranks; ++rank) {
    pack(parts_of(in, rank, ranks),
         from->memory.data() + static_cast<size_t>(rank) * stride);
  }
  const Buffer result = to->all;
  return reduce_scatter(
      from->all, result, op, {},
      then_unpack(std::move(options), out, std::pair(from, to),
                  [result, out] { unpack(begin_of(result), out); }));
}

}  // namespace lockstep
