// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/process_group.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "comm/group_impl.h"
#include "lockstep/base/caller_state.h"
#include "lockstep/store/prefix_store.h"

namespace lockstep {

using detail::OpMaker;

std::shared_ptr<ProcessGroup> ProcessGroup::make(const BackendFactory& factory,
                                                 std::shared_ptr<Store> store,
                                                 int rank, int size,
                                                 GroupOptions options) {
  GroupPlace place;
  place.rank = rank;
  place.size = size;
  return make(factory, std::move(store), std::move(place), std::move(options));
}

std::shared_ptr<ProcessGroup> ProcessGroup::make(const BackendFactory& factory,
                                                 std::shared_ptr<Store> store,
                                                 GroupPlace place,
                                                 GroupOptions options) {
  const int rank = place.rank;
  const int size = place.size;
  LOCKSTEP_CHECK(size > 0 && rank >= 0 && rank < size, UsageError,
                 "group '{}': rank {} is not one of {} ranks", options.name,
                 rank, size);
  // No notice at all, rather than one after the other.
  if (options.notice_after <= Deadline::Duration::zero()) {
    options.notice_after = Deadline::Duration::max();
  }
  place.name = options.name;
  place.timeout = options.timeout;
  place.bell = std::make_shared<Bell>();
  if (store) {
    place.store = std::make_shared<PrefixStore>(options.name + "/", store);
    // So long may a store take that does not answer at all.
    place.store->set_timeout(std::min(store->timeout(), options.timeout));
  }
  auto impl =
      std::make_unique<Impl>(factory, std::move(place), std::move(options));
  return std::shared_ptr<ProcessGroup>(new ProcessGroup(std::move(impl)));
}

ProcessGroup::ProcessGroup(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

// The last owner may be a continuation, on the very thread that has to be
// joined: then another thread does it.
ProcessGroup::~ProcessGroup() {
  if (!NoWaitScope::is_active()) return;
  std::thread([impl = std::move(impl_)]() mutable { impl.reset(); }).detach();
}

int ProcessGroup::rank() const { return impl_->place().rank; }
int ProcessGroup::size() const { return impl_->place().size; }
const std::string& ProcessGroup::name() const { return impl_->options().name; }
const char* ProcessGroup::backend_name() const {
  return impl_->backend().name();
}
Deadline::Duration ProcessGroup::timeout() const {
  return impl_->options().timeout;
}
int64_t ProcessGroup::sequence_number() const {
  return impl_->sequence_number();
}

ProcessGroup::Handle ProcessGroup::all_reduce(Buffer data, ReduceOp op,
                                              CallOptions options) {
  return impl_->call(
      OpKind::kAllReduce, std::move(options),
      [&](const OpMaker& maker) { return maker.all_reduce(data, data, op); });
}

ProcessGroup::Handle ProcessGroup::all_reduce(Buffer in, Buffer out,
                                              ReduceOp op,
                                              CallOptions options) {
  return impl_->call(
      OpKind::kAllReduce, std::move(options),
      [&](const OpMaker& maker) { return maker.all_reduce(in, out, op); });
}

ProcessGroup::Handle ProcessGroup::broadcast(Buffer data, int root,
                                             CallOptions options) {
  return impl_->call(
      OpKind::kBroadcast, std::move(options),
      [&](const OpMaker& maker) { return maker.broadcast(data, root); });
}

ProcessGroup::Handle ProcessGroup::reduce(Buffer in, Buffer out, ReduceOp op,
                                          int root, CallOptions options) {
  return impl_->call(
      OpKind::kReduce, std::move(options),
      [&](const OpMaker& maker) { return maker.reduce(in, out, op, root); });
}

ProcessGroup::Handle ProcessGroup::all_gather(Buffer in, Buffer out,
                                              const Counts& counts,
                                              CallOptions options) {
  return impl_->call(
      OpKind::kAllGather, std::move(options),
      [&](const OpMaker& maker) { return maker.all_gather(in, out, counts); });
}

ProcessGroup::Handle ProcessGroup::gather(Buffer in, Buffer out, int root,
                                          const Counts& counts,
                                          CallOptions options) {
  return impl_->call(OpKind::kGather, std::move(options),
                     [&](const OpMaker& maker) {
                       return maker.gather(in, out, root, counts);
                     });
}

ProcessGroup::Handle ProcessGroup::scatter(Buffer in, Buffer out, int root,
                                           const Counts& counts,
                                           CallOptions options) {
  return impl_->call(OpKind::kScatter, std::move(options),
                     [&](const OpMaker& maker) {
                       return maker.scatter(in, out, root, counts);
                     });
}

ProcessGroup::Handle ProcessGroup::reduce_scatter(Buffer in, Buffer out,
                                                  ReduceOp op,
                                                  const Counts& counts,
                                                  CallOptions options) {
  return impl_->call(OpKind::kReduceScatter, std::move(options),
                     [&](const OpMaker& maker) {
                       return maker.reduce_scatter(in, out, op, counts);
                     });
}

ProcessGroup::Handle ProcessGroup::all_to_all(Buffer in, Buffer out,
                                              const Counts& in_counts,
                                              const Counts& out_counts,
                                              CallOptions options) {
  return impl_->call(OpKind::kAllToAll, std::move(options),
                     [&](const OpMaker& maker) {
                       return maker.all_to_all(in, out, in_counts, out_counts);
                     });
}

ProcessGroup::Handle ProcessGroup::barrier(CallOptions options) {
  return impl_->call(OpKind::kBarrier, std::move(options),
                     [&](const OpMaker& maker) { return maker.barrier(); });
}

ProcessGroup::Handle ProcessGroup::send(Buffer data, int peer, int64_t tag,
                                        CallOptions options) {
  return impl_->transfer(OpKind::kSend, data, peer, tag, std::move(options));
}

ProcessGroup::Handle ProcessGroup::recv(Buffer data, int peer, int64_t tag,
                                        CallOptions options) {
  return impl_->transfer(OpKind::kRecv, data, peer, tag, std::move(options));
}

ProcessGroup::Handle ProcessGroup::recv_any(Buffer data, int64_t tag,
                                            CallOptions options) {
  return impl_->transfer(OpKind::kRecv, data, kAnyRank, tag,
                         std::move(options));
}

ProcessGroup::Handle ProcessGroup::post(std::function<void()> step,
                                        StepOptions options) {
  return impl_->post(std::move(step), std::move(options));
}

ProcessGroup::Handle ProcessGroup::compose(
    OpKind kind, std::function<void(LaneCalls&)> steps, CallOptions options) {
  return impl_->compose(kind, std::move(steps), std::move(options));
}

RegisteredMemory ProcessGroup::allocate(size_t bytes, CallOptions options) {
  return impl_->allocate(impl_->maker().allocate(bytes), std::move(options));
}

void ProcessGroup::shutdown(Deadline deadline) { impl_->shutdown(deadline); }

void ProcessGroup::abort(const std::string& reason) {
  AbortedError error(fmt::format("aborted: {}", reason));
  error.add_context(impl_->context(""));
  impl_->fail(std::make_exception_ptr(error));
}

void ProcessGroup::abort(const std::exception_ptr& cause) {
  LOCKSTEP_CHECK(cause != nullptr, UsageError,
                 "group '{}' was to be aborted without a cause", name());
  impl_->fail(cause);
}

std::exception_ptr ProcessGroup::failure() const { return impl_->failure(); }

void ProcessGroup::on_failure(FailureNotice notice) {
  impl_->on_failure(std::move(notice));
}

}  // namespace lockstep
