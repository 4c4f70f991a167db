// SPDX-License-Identifier: Apache-2.0
// What programs call, handed on; the work is in DataParallelImpl.
#include "lockstep/ddp/data_parallel_core.h"

#include <utility>

#include "ddp/data_parallel_impl.h"

namespace lockstep {

DataParallelCore::DataParallelCore(std::shared_ptr<torch::nn::Module> module,
                                   std::shared_ptr<ProcessGroup> group,
                                   DdpOptions options)
    : impl_(std::make_unique<Impl>(std::move(module), std::move(group),
                                   std::move(options))) {}

DataParallelCore::~DataParallelCore() = default;

DataParallelCore::NoSync::NoSync(Impl& impl) {
  for (Reducer* one : impl.reducers()) {
    guards_.emplace_back(new Reducer::NoSync(one->no_sync()));
  }
}
DataParallelCore::NoSync DataParallelCore::no_sync() { return NoSync(*impl_); }

void DataParallelCore::register_comm_hook(CommHook hook,
                                          const std::string& name) {
  reducer().register_comm_hook(std::move(hook), name);
}
void DataParallelCore::install_futures(
    const std::vector<Future<void>>& futures) {
  reducer().install_futures(futures);
}
void DataParallelCore::set_optimizer_in_backward(bool on) {
  reducer().set_optimizer_in_backward(on);
}
void DataParallelCore::set_static_graph() { impl_->set_static_graph(); }
void DataParallelCore::set_sparse_metadata(
    const std::map<std::string, at::Tensor>& rows) {
  reducer().set_sparse_metadata(rows);
}
void DataParallelCore::register_buffer_hook(BufferHook hook,
                                            BufferHookTime when) {
  impl_->register_buffer_hook(std::move(hook), when);
}
void DataParallelCore::sync_buffers() { impl_->sync_buffers(); }
void DataParallelCore::update_process_group(
    std::shared_ptr<ProcessGroup> group) {
  impl_->update_process_group(std::move(group));
}
void DataParallelCore::reset_state() { impl_->reset_state(); }
void DataParallelCore::remove_hooks() { impl_->remove_hooks(); }
void DataParallelCore::check_finalized() const { impl_->check_finalized(); }
Reducer& DataParallelCore::reducer() { return impl_->reducer(); }
const BucketPlan& DataParallelCore::bucket_plan() {
  return reducer().bucket_plan();
}
DdpStats DataParallelCore::stats() const { return impl_->stats(); }
const DdpOptions& DataParallelCore::options() const { return impl_->options(); }
bool DataParallelCore::begin_forward() { return impl_->begin_forward(); }
void DataParallelCore::end_forward(const std::vector<at::Tensor*>& outputs,
                                   bool synced) {
  impl_->end_forward(outputs, synced);
}

}  // namespace lockstep
