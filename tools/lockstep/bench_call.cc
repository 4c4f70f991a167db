// SPDX-License-Identifier: Apache-2.0
#include "bench_call.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::tool {
namespace {

constexpr int kSpoilt = 0xA5;  // no element of ours

void spoil(const Buffer& buffer) {
  if (buffer.count > 0) std::memset(buffer.data, kSpoilt, buffer.bytes());
}

size_t elements_of_part(const BenchOptions& options, int ranks, size_t bytes) {
  const size_t count = bytes / size_of(options.dtype);
  return options.collective.has_parts ? count / static_cast<size_t>(ranks)
                                      : count;
}

}  // namespace

RegisteredMemory plain_memory(size_t bytes) {
  constexpr size_t kPage = 4096;
  const size_t whole = (bytes + kPage - 1) / kPage * kPage;
  std::shared_ptr<void> memory(std::aligned_alloc(kPage, whole), std::free);
  if (!memory && whole > 0) {
    throw SystemError(fmt::format("no memory for {} bytes", bytes), ENOMEM);
  }
  void* const data = memory.get();
  return {std::move(memory), data, bytes};
}

BenchMemory::BenchMemory(const BenchOptions& options, ProcessGroup& group,
                         size_t bytes) {
  if (bytes == 0) return;  // a barrier
  const auto make = [&] {
    return options.registered ? group.allocate(bytes) : plain_memory(bytes);
  };
  in = make();
  if (!options.collective.in_place) out = make();
}

// What has a buffer of S bytes and one with a part uses the beginning of the
// memory for the part.
BenchCall::BenchCall(const BenchOptions& options, ProcessGroup& group,
                     const BenchMemory& memory, size_t bytes)
    : options_(options),
      group_(group),
      part_(elements_of_part(options, group.size(), bytes)),
      data_(options.dtype, options.op, group.size(), 0) {
  const size_t count = bytes / size_of(options.dtype);
  const OpKind kind = options.collective.kind;
  const bool in_is_part = kind == OpKind::kAllGather || kind == OpKind::kGather;
  const bool out_is_part =
      kind == OpKind::kScatter || kind == OpKind::kReduceScatter;
  in_ = memory.in.buffer(options.dtype, in_is_part ? part_ : count);
  if (options.collective.in_place) return;
  out_ = memory.out.buffer(options.dtype, out_is_part ? part_ : count);
}

void BenchCall::prepare(uint32_t seed) {
  data_ = BenchData(options_.dtype, options_.op, group_.size(), seed);
  data_.fill(in_, group_.rank());
  spoil(out_);
  const bool receives = options_.collective.kind == OpKind::kBroadcast &&
                        group_.rank() != options_.root;
  if (receives) spoil(in_);
}

void BenchCall::run() {
  CallOptions call;
  call.sync = options_.sync;
  const int root = options_.root;
  switch (options_.collective.kind) {
    case OpKind::kAllReduce:
      return group_.all_reduce(in_, data_.op(), call)->wait();
    case OpKind::kBroadcast:
      return group_.broadcast(in_, root, call)->wait();
    case OpKind::kReduce:
      return group_.reduce(in_, out_, data_.op(), root, call)->wait();
    case OpKind::kAllGather:
      return group_.all_gather(in_, out_, {}, call)->wait();
    case OpKind::kGather:
      return group_.gather(in_, out_, root, {}, call)->wait();
    case OpKind::kScatter:
      return group_.scatter(in_, out_, root, {}, call)->wait();
    case OpKind::kReduceScatter:
      return group_.reduce_scatter(in_, out_, data_.op(), {}, call)->wait();
    case OpKind::kAllToAll:
      return group_.all_to_all(in_, out_, {}, {}, call)->wait();
    case OpKind::kSend:
      return send_in_a_ring(call);
    default:
      return group_.barrier(call)->wait();
  }
}

// The receive is there before anybody waits for a send: no circle of waiting.
void BenchCall::send_in_a_ring(const CallOptions& call) {
  const int size = group_.size();
  const auto received = group_.recv(out_, (group_.rank() + size - 1) % size);
  group_.send(in_, (group_.rank() + 1) % size, 0, call)->wait();
  received->wait();
}

Buffer BenchCall::part_of_rank(const Buffer& all, int rank) const {
  return all.slice(static_cast<size_t>(rank) * part_, part_);
}

size_t BenchCall::wrong() const {
  const int rank = group_.rank();
  const int size = group_.size();
  const int root = options_.root;
  const size_t mine = static_cast<size_t>(rank) * part_;
  size_t wrong = 0;
  switch (options_.collective.kind) {
    case OpKind::kAllReduce:
      return data_.wrong_result(in_);
    case OpKind::kBroadcast:
      return data_.wrong_input(in_, root);
    case OpKind::kReduce:
      return rank == root ? data_.wrong_result(out_) : 0;
    case OpKind::kGather:
      if (rank != root) return 0;
      [[fallthrough]];
    case OpKind::kAllGather:
      for (int r = 0; r < size; ++r) {
        wrong += data_.wrong_input(part_of_rank(out_, r), r);
      }
      return wrong;
    case OpKind::kScatter:
      return data_.wrong_input(out_, root, mine);
    case OpKind::kReduceScatter:
      return data_.wrong_result(out_, mine);
    case OpKind::kAllToAll:
      for (int r = 0; r < size; ++r) {
        wrong += data_.wrong_input(part_of_rank(out_, r), r, mine);
      }
      return wrong;
    case OpKind::kSend:
      return data_.wrong_input(out_, (rank + size - 1) % size);
    default:
      return 0;
  }
}

}  // namespace lockstep::tool
