// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include <ATen/ops/empty_strided.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ddp/reducer/bucket.h"
#include "ddp/reducer/messages.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/collective/reduce.h"
#include "lockstep/tensor/collectives.h"
#include "lockstep/tensor/convert.h"

namespace lockstep::detail {
namespace {

bool share_memory(const at::Tensor& a, const at::Tensor& b) {
  return !a.is_sparse() && a.data_ptr() == b.data_ptr() &&
         a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.scalar_type() == b.scalar_type();
}

// Copies a gradient into the bucket, where the next to read it is a collective.
// `all_bytes` is what all ranks copy in a step: when that is more than caches
// hold, the copy is written past them.
void move_in(const at::Tensor& to, const at::Tensor& from, size_t all_bytes) {
  const bool is_bytes = from.scalar_type() == to.scalar_type() &&
                        from.is_non_overlapping_and_dense() &&
                        from.strides() == to.strides() && !from.is_neg();
  if (is_bytes) {
    copy_shared(to.data_ptr(), from.data_ptr(), from.nbytes(), all_bytes);
  } else {
    convert_into(to, from);
  }
}

class DenseBucket : public Bucket {
 public:
  DenseBucket(std::vector<Member> members, const GradAccess& access,
              at::Tensor flat, const DenseBucketOptions& options)
      : Bucket(std::move(members), access),
        flat_(std::move(flat)),
        own_type_(this->members()[0].parameter.scalar_type()),
        as_views_(options.as_views && options.type == own_type_),
        all_bytes_(options.all_bytes) {
    auto contents = std::make_shared<GradBucket::Contents>();
    int64_t offset = 0;
    for (const Member& member : this->members()) {
      slots_.push_back(
          {slice_like(flat_, offset, member.parameter), offset, false, {}});
      contents->members.push_back(
          {member.index, offset, member.parameter.numel()});
      offset += member.parameter.numel();
      contents->gradients.push_back(slots_.back().view);
      contents->parameters.push_back(member.parameter);
    }
    contents_ = std::move(contents);
  }

  size_t bytes() const override { return static_cast<size_t>(flat_.nbytes()); }
  void clear() override { flat_.zero_(); }

  void finish(const at::Tensor& result, const IsUsed& is_used) override {
    check_result(result);
    const bool in_place = result.data_ptr() == flat_.data_ptr();
    const at::Tensor values = in_place ? flat_ : result.reshape({-1});
    if (as_views_ && !in_place) flat_.copy_(values);
    for (size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      const Member& member = members()[i];
      const bool untouched = slot.is_unused && !is_used(member.index);
      if (untouched) {
        if (slot.before.defined()) slot.view.copy_(slot.before);
      } else if (as_views_) {
        give_view(slot, member);
      } else {
        give_copy(slice_like(values, slot.offset, member.parameter), member);
      }
    }
  }

  void release() override {
    for (Slot& slot : slots_) slot.before.reset();
    Bucket::release();
  }

  void adopt_gradients() override {
    for (size_t i = 0; as_views_ && i < slots_.size(); ++i) {
      access().with_grad(members()[i].parameter, [&](at::Tensor& grad) {
        if (!grad.defined()) return;
        check_gradient(members()[i], slots_[i], grad);
        slots_[i].view.copy_(grad);
        grad = view_of(slots_[i]);
      });
    }
  }

  void evict_gradients() override {
    for (size_t i = 0; i < slots_.size(); ++i) {
      access().with_grad(members()[i].parameter, [&](at::Tensor& grad) {
        if (grad.defined() && share_memory(grad, slots_[i].view)) {
          grad = grad.clone();
        }
      });
    }
  }

 private:
  struct Slot {
    at::Tensor view;
    int64_t offset;
    bool is_unused = false;
    at::Tensor before;  // the gradient in the bucket, kept when it is unused
  };

  // A tensor of its own for the program: set_data() on it does not change the
  // view of the bucket.
  static at::Tensor view_of(const Slot& slot) {
    return slot.view.variable_data();
  }

  GradBucket make_view(size_t index, size_t count) const override {
    return {index, count, flat_, contents_};
  }

  void take(size_t position, bool is_unused) override {
    Slot& slot = slots_[position];
    const Member& member = members()[position];
    slot.is_unused = is_unused;
    access().with_grad(member.parameter, [&](at::Tensor& grad) {
      if (!grad.defined()) {
        slot.view.zero_();
        return;
      }
      if (share_memory(grad, slot.view)) {  // nothing to copy
        if (is_unused) slot.before = slot.view.clone();
        return;
      }
      check_gradient(member, slot, grad);
      move_in(slot.view, grad, all_bytes_);
      if (as_views_ && !is_unused) grad = view_of(slot);
    });
  }

  void check_gradient(const Member& member, const Slot& slot,
                      const at::Tensor& grad) const {
    LOCKSTEP_CHECK(!grad.is_sparse(), UsageError,
                   "parameter {} ('{}') got a sparse gradient; say so in "
                   "DdpOptions::sparse or ReducerOptions::expect_sparse",
                   member.index, member.name);
    LOCKSTEP_CHECK(
        grad.scalar_type() == own_type_, UsageError,
        "the gradient of parameter {} ('{}') is of type {} and its "
        "bucket is for type {}; if the model was converted after the "
        "Reducer was made, make a new one",
        member.index, member.name, c10::toString(grad.scalar_type()),
        c10::toString(own_type_));
    LOCKSTEP_CHECK(grad.sizes() == slot.view.sizes(), UsageError,
                   "the gradient of parameter {} ('{}') has sizes [{}] and the "
                   "parameter had [{}]",
                   member.index, member.name, fmt::join(grad.sizes(), ", "),
                   fmt::join(slot.view.sizes(), ", "));
    if (grad.requires_grad()) warn_of_create_graph();
    if (grad.strides() != slot.view.strides())
      warn_of_strides(member, slot, grad);
  }

  static void warn_of_strides(const Member& member, const Slot& slot,
                              const at::Tensor& grad) {
    static std::once_flag once;
    std::call_once(once, [&] {
      log_warn(fmt::format(
          "the gradient of parameter {} ('{}') has strides [{}] and its bucket "
          "[{}]; copying between layouts is slower (said once)",
          member.index, member.name, fmt::join(grad.strides(), ", "),
          fmt::join(slot.view.strides(), ", ")));
    });
  }

  void give_view(Slot& slot, const Member& member) const {
    access().with_grad(member.parameter, [&](at::Tensor& grad) {
      if (grad.defined() && !slot.is_unused) {
        LOCKSTEP_CHECK(share_memory(grad, slot.view), UsageError,
                       "the gradient of parameter {} ('{}') was replaced "
                       "while it was being reduced; do not assign gradients "
                       "during backward, or turn gradient_as_bucket_view off",
                       member.index, member.name);
        return;
      }
      grad = view_of(slot);
    });
  }

  void give_copy(const at::Tensor& value, const Member& member) const {
    access().with_grad(member.parameter, [&](at::Tensor& grad) {
      if (!grad.defined() || grad.requires_grad()) {
        grad = at::empty_strided(value.sizes(), value.strides(),
                                 value.options().dtype(own_type_));
      }
      convert_into(grad, value);
    });
  }

  void check_result(const at::Tensor& result) const {
    LOCKSTEP_CHECK(result.defined(), UsageError,
                   "the hook's result is an undefined tensor");
    LOCKSTEP_CHECK(result.numel() == flat_.numel() &&
                       result.scalar_type() == flat_.scalar_type(),
                   UsageError,
                   "the hook's result has {} elements of type {}, and the "
                   "bucket {} of type {}",
                   result.numel(), c10::toString(result.scalar_type()),
                   flat_.numel(), c10::toString(flat_.scalar_type()));
  }

  const at::Tensor flat_;
  const at::ScalarType own_type_;  // of gradients
  const bool as_views_;
  const size_t all_bytes_;
  std::vector<Slot> slots_;
  std::shared_ptr<const GradBucket::Contents> contents_;
};

}  // namespace

std::unique_ptr<Bucket> make_dense_bucket(std::vector<Member> members,
                                          const GradAccess& access,
                                          ProcessGroup& group,
                                          const DenseBucketOptions& options) {
  int64_t count = 0;
  for (const Member& member : members) count += member.parameter.numel();
  at::Tensor flat = registered_zeros(group, {count}, options.type);
  auto bucket = std::make_unique<DenseBucket>(std::move(members), access,
                                              std::move(flat), options);
  bucket->adopt_gradients();
  return bucket;
}

}  // namespace lockstep::detail
