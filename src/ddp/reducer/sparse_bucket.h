// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ddp/reducer/bucket.h"

namespace lockstep::detail {

// The bucket of one parameter whose gradient is sparse. It has no memory of its
// own: the hook gets the gradient itself. A rank that did not use the parameter
// takes part with no entries.
class SparseBucket : public Bucket {
 public:
  // `rows`, where defined: the rows that have a gradient on any rank in the
  // coming backward, as check_rows() wants them. The hook gets these rows as a
  // dense block.
  SparseBucket(Member member, const GradAccess& access, at::Tensor rows);

  void set_rows(at::Tensor rows) { rows_ = std::move(rows); }

  size_t bytes() const override;
  void clear() override;
  void finish(const at::Tensor& result, const IsUsed& is_used) override;
  void release() override;

 private:
  void take(size_t position, bool is_unused) override;
  GradBucket make_view(size_t index, size_t count) const override;
  const Member& member() const { return members()[0]; }
  at::Tensor no_entries() const;
  at::Tensor block_of(const at::Tensor& gradient) const;

  std::shared_ptr<const GradBucket::Contents> contents_;
  at::Tensor rows_;    // undefined without metadata
  at::Tensor buffer_;  // what the hook gets in the running backward
  bool is_unused_ = false;
};

// Errors: UsageError when `rows` are not ascending rows of `parameter`.
void check_rows(const at::Tensor& rows, const at::Tensor& parameter,
                const std::string& name);

}  // namespace lockstep::detail
