// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/buffer_sync.h"
#include "ddp/delayed_gradients.h"
#include "ddp/module_parts.h"
#include "ddp/stats_keeper.h"
#include "lockstep/ddp/data_parallel_core.h"

namespace lockstep {

// A module, a Reducer on its parameters, and what keeps the rest of the module
// alike on all ranks.
class DataParallelCore::Impl {
 public:
  Impl(std::shared_ptr<torch::nn::Module> module,
       std::shared_ptr<ProcessGroup> group, DdpOptions options);
  ~Impl();

  // ---- A step.

  bool begin_forward();
  void end_forward(const std::vector<at::Tensor*>& outputs, bool synced);

  // ---- Settings.

  void set_static_graph();
  void register_buffer_hook(BufferHook hook, BufferHookTime when);
  void sync_buffers();
  void update_process_group(std::shared_ptr<ProcessGroup> group);
  void reset_state();
  void remove_hooks();
  void check_finalized() const;

  // ---- What there is.

  Reducer& reducer();
  std::vector<Reducer*> reducers();  // that of delayed parameters, then this
  DdpStats stats();
  const DdpOptions& options() const { return options_; }

 private:
  // Takes the module apart; the text of what is wrong with it, or nothing.
  std::string try_to_take_apart();
  // Compares with the other ranks and throws `problem` if there is one.
  void agree(ProcessGroup& group, const std::string& problem);
  std::vector<std::string> settings() const;
  ReducerOptions reducer_options() const;
  std::vector<at::Tensor> reduced_parameters() const;
  void send_values();
  void make_reducers();
  void end_delayed();
  void run_buffer_hook(BufferHookTime when);
  void prepare(const std::vector<at::Tensor*>& outputs);
  void watch_eval(const std::vector<at::Tensor*>& outputs);

  const std::shared_ptr<torch::nn::Module> module_;
  std::shared_ptr<ProcessGroup> group_;
  DdpOptions options_;
  detail::ModuleParts parts_;
  std::unique_ptr<Reducer> reducer_;  // none yet without init_sync
  std::shared_ptr<detail::DelayedGradients> delayed_;  // or none
  // Backwards that only one of the two has begun, before the last reset.
  int64_t delayed_lag_ = 0;
  int64_t forwards_ = 0;  // since ranks were last compared
  std::optional<detail::StatsKeeper> stats_;
  detail::BufferSync buffers_;
  BufferHook buffer_hook_;
  BufferHookTime buffer_hook_time_ = BufferHookTime::kBeforeForward;
  // Hears of a backward through a forward in eval mode, and warns once.
  std::shared_ptr<detail::BackwardListener> eval_listener_;
  bool removed_ = false;
};

}  // namespace lockstep
