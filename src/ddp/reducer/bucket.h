// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ddp/reducer/grad_access.h"
#include "lockstep/base/future.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/hook/grad_bucket.h"

namespace lockstep::detail {

// A parameter in a bucket.
struct Member {
  size_t index;  // among all parameters
  at::Tensor parameter;
  std::string name;
};

// Gradients that are reduced together: counts the ones that are missing, takes
// them in, and makes the result of the hook the gradients.
//
// Threads: guarded by the Reducer; finish() is called by one thread, when all
//          gradients have arrived.
class Bucket {
 public:
  // Whether any rank has used a parameter; may wait.
  using IsUsed = std::function<bool(size_t index)>;

  Bucket(std::vector<Member> members, const GradAccess& access)
      : members_(std::move(members)), access_(access) {}
  virtual ~Bucket() = default;
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;

  const std::vector<Member>& members() const { return members_; }

  // ---- Counting.

  void expect_all() {
    pending_ = members_.size();
    used_.clear();
  }
  bool is_ready() const { return pending_ == 0; }
  // The gradient at `position` is there, or `is_unused`: this rank has none.
  // True when no gradient is missing any more.
  bool arrive(size_t position, bool is_unused) {
    take(position, is_unused);
    return --pending_ == 0;
  }

  // ---- What the hook gets, and its result.

  virtual size_t bytes() const = 0;
  GradBucket view(size_t index, size_t count) const {
    GradBucket bucket = make_view(index, count);
    bucket.set_used(used_);
    return bucket;
  }
  // By position: whether any rank uses the parameter in this cycle. Without
  // this call all count as used.
  void set_used(std::vector<bool> used) { used_ = std::move(used); }
  // Fills the bucket with zeros, for a rank without gradients of its own.
  virtual void clear() = 0;
  void set_result(Future<at::Tensor> result) { result_ = std::move(result); }
  const Future<at::Tensor>& result() const { return result_; }
  // Makes the result of the hook the gradients of the members. Gradients that
  // no rank used are left unchanged. Errors: UsageError when the result does
  // not fit, or a gradient was
  //         replaced meanwhile.
  virtual void finish(const at::Tensor& result, const IsUsed& is_used) = 0;
  // Frees what only this backward needed.
  virtual void release() { result_ = {}; }

  // ---- Gradients that are views of the bucket.

  // Moves existing gradients into the bucket; `evict` moves them out again.
  virtual void adopt_gradients() {}
  virtual void evict_gradients() {}

 protected:
  virtual void take(size_t position, bool is_unused) = 0;
  virtual GradBucket make_view(size_t index, size_t count) const = 0;
  const GradAccess& access() const { return access_; }

 private:
  const std::vector<Member> members_;
  const GradAccess& access_;
  size_t pending_ = 0;
  std::vector<bool> used_;  // by position; empty: all count as used
  Future<at::Tensor> result_;
};

struct DenseBucketOptions {
  bool as_views = true;  // gradients are views of the bucket
  // The size of all gradients of all ranks: more than caches hold, or less.
  size_t all_bytes = 0;
  // Of the flat tensor. If it is not that of the parameters, gradients are
  // copied and never views.
  at::ScalarType type = at::kFloat;
};

// A bucket of dense gradients: one flat tensor in `group`'s registered memory,
// with a view for each parameter that has the parameter's strides. With
// `as_views` the gradients become such views, and existing gradients are moved
// into the bucket. A collective that blocks.
std::unique_ptr<Bucket> make_dense_bucket(std::vector<Member> members,
                                          const GradAccess& access,
                                          ProcessGroup& group,
                                          const DenseBucketOptions& options);

}  // namespace lockstep::detail
