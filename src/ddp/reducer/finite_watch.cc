// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/finite_watch.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collective/finite.h"
#include "lockstep/tensor/dtype.h"

namespace lockstep::detail {
namespace {

// The first element that is not finite, or -1; of memory in which elements may
// lie in another order than they have.
int64_t first_in(const at::Tensor& gradient) {
  const at::Tensor values =
      gradient.is_sparse() ? gradient._values() : gradient;
  if (!at::isFloatingType(values.scalar_type())) return -1;
  const at::Tensor dense =
      values.is_non_overlapping_and_dense() ? values : values.contiguous();
  const auto count = static_cast<size_t>(dense.numel());
  const size_t found = first_non_finite(
      {dense.data_ptr(), count, dtype_of(dense.scalar_type())});
  return found == count ? -1 : static_cast<int64_t>(found);
}

}  // namespace

void FiniteWatch::look_at(const at::Tensor& gradient, size_t bucket,
                          size_t parameter, const std::string& name) {
  const bool is_later =
      found_.bucket >= 0 && static_cast<int64_t>(bucket) >= found_.bucket;
  if (is_later || !gradient.defined()) return;
  const int64_t element = first_in(gradient);
  if (element < 0) return;
  found_ = {static_cast<int64_t>(bucket), static_cast<int64_t>(parameter)};
  LOCKSTEP_CHECK(check_ != FiniteCheck::kError, UsageError,
                 "the gradient of parameter {} ('{}'), in bucket {}, is not "
                 "finite: element {} is infinite or NaN. Is the learning rate "
                 "too large, or the loss scaled too much? With "
                 "FiniteCheck::kVerdict a program can skip such steps",
                 parameter, name, bucket, element);
}

void FiniteWatch::tell(ProcessGroup& group) {
  if (check_ != FiniteCheck::kVerdict) return;
  told_.assign(2 * static_cast<size_t>(group.size()), 0);
  int64_t* const own = &told_[2 * static_cast<size_t>(group.rank())];
  own[0] = found_.bucket;
  own[1] = found_.parameter;
  work_ = group.all_gather(buffer_of(own, 2), buffer_of(told_));
}

void FiniteWatch::hear(const std::vector<std::string>& names,
                       Deadline deadline) {
  if (!work_) return;
  work_->future().get(deadline);
  work_ = nullptr;
  verdict_.reset();
  for (size_t rank = 0; 2 * rank < told_.size(); ++rank) {
    if (told_[2 * rank] < 0) continue;
    const auto bucket = static_cast<size_t>(told_[2 * rank]);
    const auto parameter = static_cast<size_t>(told_[2 * rank + 1]);
    if (verdict_ && verdict_->bucket <= bucket) continue;
    verdict_ = {static_cast<int>(rank), bucket, parameter, names.at(parameter)};
  }
}

}  // namespace lockstep::detail
