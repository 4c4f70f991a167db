// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/post_local_sgd.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "hook/agreement.h"
#include "hook/queue.h"
#include "lockstep/base/error.h"
#include "lockstep/base/host_name.h"

namespace lockstep::hooks {
namespace {

using Group = std::shared_ptr<ProcessGroup>;

constexpr const char* kName = "post_local_sgd";

// When `one` fails, so does `other`. Weakly: each may go before the other.
void fail_with(const Group& one, const Group& other) {
  one->on_failure([weak = std::weak_ptr(other)](const auto& cause) {
    const Group group = weak.lock();
    if (group && !group->failure()) group->abort(cause);
  });
}

class PostLocalSgd {
 public:
  explicit PostLocalSgd(PostLocalSgdOptions options)
      : options_(std::move(options)) {
    LOCKSTEP_CHECK(options_.start_iter >= 0, UsageError,
                   "start_iter is {} but must not be negative",
                   options_.start_iter);
  }

  Future<at::Tensor> operator()(const GradBucket& bucket,
                                const HookContext& context) {
    meet(context.group());
    auto result = iterations_ < options_.start_iter || bucket.is_skipped()
                      ? all_reduce()(bucket, context)
                      : reduce_locally(bucket, context);
    if (bucket.is_last()) ++iterations_;
    return result;
  }

 private:
  // With a new group: the largest count is right. The old subgroup belongs to
  // the old group.
  void meet(const Group& group) {
    if (!watch_.is_new(group)) return;
    uint64_t options = detail::hash_more(
        detail::kHashStart, static_cast<uint64_t>(options_.start_iter));
    options = detail::hash_more(options, uint64_t{options_.reduce_locally});
    options =
        detail::hash_more(options, uint64_t{options_.subgroup == nullptr});
    const auto by_rank = detail::gather_numbers(
        *group, {options, static_cast<uint64_t>(iterations_)});
    detail::check_options_agree(by_rank, 0, kName);
    iterations_ = static_cast<int64_t>(detail::largest(by_rank, 1));
    subgroup_ = nullptr;
    watch_.set(group);
  }

  Future<at::Tensor> reduce_locally(const GradBucket& bucket,
                                    const HookContext& context) {
    Future<at::Tensor> reduced;
    if (options_.reduce_locally) {
      reduced = all_reduce(subgroup_for(context.group()))(bucket);
    } else {
      reduced = make_future([buffer = bucket.buffer()] { return buffer; });
    }
    return follow(bucket, context, reduced);
  }

  // A step in the Reducer's lane that waits for the result. While it does it
  // listens to all ranks: should one have failed, the lane fails here, too, and
  // with it the subgroup.
  //
  // Where sums are divided by something else than the number of ranks, the
  // average is as much larger.
  static Future<at::Tensor> follow(const GradBucket& bucket,
                                   const HookContext& context,
                                   const Future<at::Tensor>& reduced) {
    const double factor = 1.0 * context.group()->size() / context.divisor();
    StepOptions options;
    options.after = reduced.done();
    options.fatal = true;
    const auto last = context.group()->post(
        [buffer = bucket.buffer(), factor] {
          if (factor == 1) return;
          const at::NoGradGuard no_grad;
          (buffer.is_sparse() ? buffer._values() : buffer).mul_(factor);
        },
        options);
    return detail::result_after(last, bucket.buffer());
  }

  const Group& subgroup_for(const Group& group) {
    if (subgroup_) return subgroup_;
    const Group subgroup =
        options_.subgroup ? options_.subgroup : split_by_host(*group);
    LOCKSTEP_CHECK(!subgroup->failure(), UsageError,
                   "the subgroup '{}' of {} has failed; register the hook with "
                   "a new one",
                   subgroup->name(), kName);
    fail_with(group, subgroup);
    fail_with(subgroup, group);
    return subgroup_ = subgroup;
  }

  // A collective that blocks. The color of a host is the first rank on it.
  static Group split_by_host(ProcessGroup& group) {
    const auto by_rank = detail::gather_numbers(
        group, {detail::hash_more(detail::kHashStart,
                                  ConstBytes(detail::host_name()))});
    const auto& mine = by_rank[static_cast<size_t>(group.rank())];
    const auto first = std::find(by_rank.begin(), by_rank.end(), mine);
    return group.split(static_cast<int>(first - by_rank.begin()));
  }

  const PostLocalSgdOptions options_;
  int64_t iterations_ = 0;
  detail::GroupWatch watch_;
  Group subgroup_;  // null until it is needed
};

}  // namespace

CommHook post_local_sgd(PostLocalSgdOptions options) {
  const auto shared = std::make_shared<PostLocalSgd>(std::move(options));
  const auto hook = [shared](const GradBucket& bucket,
                             const HookContext& context) {
    return (*shared)(bucket, context);
  };
  return CommHook(hook).named(kName);
}

}  // namespace lockstep::hooks
