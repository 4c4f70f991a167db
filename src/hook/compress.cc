// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/compress.h"

#include <map>
#include <utility>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/collectives.h"
#include "lockstep/tensor/convert.h"

namespace lockstep::hooks {
namespace {

// Gradients are converted when the hook is called, while they are still in the
// cache; the result is converted back on the lane's thread.
class Compressor {
 public:
  // `inner` may be empty: the plain average.
  Compressor(at::ScalarType type, CommHook inner)
      : type_(type), inner_(std::move(inner)) {}

  Future<at::Tensor> operator()(const GradBucket& bucket,
                                const HookContext& context) {
    if (!is_wide(bucket)) {
      return (inner_ ? inner_ : all_reduce())(bucket, context);
    }
    GradBucket small = bucket;
    small.set_buffer(memory_of(bucket));
    convert_into(small.buffer(), bucket.buffer(),
                 inner_ ? 1 : 1.0 / context.divisor());
    return reduce(small, context)
        .then([buffer = bucket.buffer()](const at::Tensor& result) {
          widen_into(buffer, result);
          return buffer;
        });
  }

 private:
  static bool is_wide(const GradBucket& bucket) {
    const auto type = bucket.buffer().scalar_type();
    return !bucket.is_skipped() && !bucket.buffer().is_sparse() &&
           (type == at::kFloat || type == at::kDouble);
  }

  // Kept from step to step: new memory would cost as much as converting.
  at::Tensor memory_of(const GradBucket& bucket) {
    at::Tensor& memory = memory_[bucket.index()];
    const int64_t count = bucket.buffer().numel();
    if (!memory.defined() || memory.numel() != count) {
      memory = at::empty({count}, type_);
    }
    return memory;
  }

  static void widen_into(const at::Tensor& to, const at::Tensor& from) {
    LOCKSTEP_CHECK(from.defined() && from.numel() == to.numel(), UsageError,
                   "the inner hook's result has {} elements, and the bucket {}",
                   from.defined() ? from.numel() : 0, to.numel());
    convert_into(to, from.reshape({-1}));
  }

  Future<at::Tensor> reduce(const GradBucket& small,
                            const HookContext& context) const {
    if (inner_) return inner_(small, context);
    return lockstep::all_reduce(*context.group(), small.buffer())
        ->future()
        .then([sum = small.buffer()] { return sum; });
  }

  const at::ScalarType type_;
  const CommHook inner_;
  std::map<size_t, at::Tensor> memory_;  // by bucket
};

CommHook make_compressor(const char* name, at::ScalarType type,
                         CommHook inner) {
  const std::string text =
      inner ? fmt::format("{}({})", name, inner.name()) : name;
  // Copies of a hook share their memory.
  const auto compressor = std::make_shared<Compressor>(type, std::move(inner));
  const auto call = [compressor](const GradBucket& bucket,
                                 const HookContext& context) {
    return (*compressor)(bucket, context);
  };
  return CommHook(call).named(text);
}

void check_inner(const CommHook& inner) {
  LOCKSTEP_CHECK(inner, UsageError, "the hook to compress for is empty");
}

}  // namespace

CommHook fp16_compress() {
  return make_compressor("fp16_compress", at::kHalf, {});
}
CommHook bf16_compress() {
  return make_compressor("bf16_compress", at::kBFloat16, {});
}
CommHook fp16_compress(CommHook inner) {
  check_inner(inner);
  return make_compressor("fp16_compress", at::kHalf, std::move(inner));
}
CommHook bf16_compress(CommHook inner) {
  check_inner(inner);
  return make_compressor("bf16_compress", at::kBFloat16, std::move(inner));
}

}  // namespace lockstep::hooks
