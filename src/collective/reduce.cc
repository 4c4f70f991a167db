// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/reduce.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "collective/reduce_kernels.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using detail::Kernel;
using detail::Operands;
using detail::Upcoming;

struct Outputs {
  void* const* at;
  int count;
  size_t element_bytes;
  std::vector<bool> streamed;  // which are written past the caches

  std::byte* part(int i, size_t begin) const {
    return static_cast<std::byte*>(at[i]) + begin * element_bytes;
  }
};

Kernel kernel_of(ReduceOp::Kind kind, DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat64:
      return detail::float_kernel(kind, dtype);
    case DType::kFloat16:
    case DType::kBFloat16:
      return detail::half_kernel(kind, dtype);
    default:
      return detail::integer_kernel(kind, dtype);
  }
}

// Elements [begin, end): into the first output and from there, while it is in
// the first-level cache, to the others. What the kernel can do by itself, it
// does in one go.
void reduce_in_caches(Kernel kernel, Operands operands, const Outputs& outputs,
                      size_t begin, size_t end) {
  constexpr size_t kBlockBytes = 8192;
  const bool is_pair = outputs.count == 2 && operands.input_count == 2;
  const size_t block = outputs.count == 1 || is_pair
                           ? end - begin
                           : kBlockBytes / outputs.element_bytes;
  for (; begin < end; begin += block) {
    operands.begin = begin;
    operands.count = std::min(block, end - begin);
    operands.output = outputs.part(0, begin);
    operands.copy = is_pair ? outputs.part(1, begin) : nullptr;
    kernel(operands);
    for (int i = is_pair ? 2 : 1; i < outputs.count; ++i) {
      std::memcpy(outputs.part(i, begin), operands.output,
                  operands.count * outputs.element_bytes);
    }
  }
}

// An input has just been read into the caches: no use to write past them.
bool is_input(const void* output, const Operands& operands) {
  const auto* const end = operands.inputs + operands.input_count;
  return std::find(operands.inputs, end, output) != end;
}

bool is_line(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % detail::kCacheLine == 0;
}

// Past the caches, chunks come from two pages in turn, and the next two pages
// are fetched meanwhile: so the processor keeps more of memory busy than it
// would from end to end. Calls `chunk(begin, next)` for what fills pairs of
// pages; `next` is what to fetch. Returns where that ended.
constexpr size_t kPageBytes = 4096;
constexpr size_t kChunkBytes = 512;
template <class Chunk>
size_t for_chunks(const Operands& operands, size_t element_bytes, size_t begin,
                  const Chunk& chunk) {
  const size_t page = kPageBytes / element_bytes;
  for (; operands.count - begin >= 2 * page; begin += 2 * page) {
    const bool more = operands.count - begin >= 4 * page;
    const int fetched = more ? operands.input_count : 0;
    for (size_t at = begin; at < begin + page;
         at += kChunkBytes / element_bytes) {
      for (const size_t here : {at, at + page}) {
        chunk(here, Upcoming{operands.inputs, fetched,
                             (here + 2 * page) * element_bytes});
      }
    }
  }
  return begin;
}

// In place: the lines are in the caches when they are written.
void reduce_large_in_place(Kernel kernel, const Operands& operands,
                           const Outputs& outputs) {
  const size_t size = outputs.element_bytes;
  const size_t end =
      for_chunks(operands, size, 0, [&](size_t begin, const Upcoming& next) {
        for (int i = 0; i < next.input_count; ++i) {
          const auto* const from =
              static_cast<const std::byte*>(next.inputs[i]) + next.begin;
          for (size_t at = 0; at < kChunkBytes; at += detail::kCacheLine) {
            __builtin_prefetch(from + at, 1);
          }
        }
        reduce_in_caches(kernel, operands, outputs, begin,
                         begin + kChunkBytes / size);
      });
  reduce_in_caches(kernel, operands, outputs, end, operands.count);
}

// A chunk of whole lines: into memory of our own and from there to outputs.
void reduce_chunk(Kernel kernel, Operands operands, const Outputs& outputs,
                  size_t begin, Upcoming next) {
  alignas(detail::kCacheLine) std::byte chunk[kChunkBytes];
  operands.begin = begin;
  operands.count = kChunkBytes / outputs.element_bytes;
  operands.output = chunk;
  kernel(operands);
  for (int i = 0; i < outputs.count; ++i) {
    std::byte* const to = outputs.part(i, begin);
    if (outputs.streamed[static_cast<size_t>(i)]) {
      detail::stream_copy(to, chunk, kChunkBytes, next);
      next.input_count = 0;  // once is enough
    } else {
      std::memcpy(to, chunk, kChunkBytes);
    }
  }
}

// Outputs that are no inputs are written past the caches, in chunks so small
// that the processor writes one while it computes the next. What is before the
// first line of output `first` and after the last pair of pages goes as usual.
void reduce_past_caches(Kernel kernel, const Operands& operands,
                        Outputs& outputs, int first) {
  size_t begin = 0;
  while (begin < operands.count && !is_line(outputs.part(first, begin))) {
    ++begin;
  }
  for (int i = 0; i < outputs.count; ++i) {
    outputs.streamed.push_back(is_line(outputs.part(i, begin)) &&
                               !is_input(outputs.at[i], operands));
  }
  reduce_in_caches(kernel, operands, outputs, 0, begin);
  begin = for_chunks(operands, outputs.element_bytes, begin,
                     [&](size_t here, const Upcoming& next) {
                       reduce_chunk(kernel, operands, outputs, here, next);
                     });
  reduce_in_caches(kernel, operands, outputs, begin, operands.count);
  detail::fence_stream();
}

// Whether a reduction that touches so much still finds it in the caches when it
// is done. The last level is shared: half of it is as much as we may hope for.
bool fits_caches(size_t bytes) {
  static const size_t limit = [] {
    const long size = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
    return size > 0 ? static_cast<size_t>(size) / 2 : size_t{16} << 20;
  }();
  return bytes < limit;
}

}  // namespace

void detail::reduce_with(Stores stores, const Reduction& reduction,
                         const void* const* inputs, int input_count,
                         void* const* outputs, int output_count, size_t count) {
  const Kernel kernel = kernel_of(reduction.kind, reduction.dtype);
  LOCKSTEP_ASSERT(kernel != nullptr && input_count > 0 && output_count > 0);
  Outputs out = {outputs, output_count, size_of(reduction.dtype), {}};
  Operands operands;
  operands.inputs = inputs;
  operands.input_count = input_count;
  operands.factors = reduction.factors;
  operands.count = count;
  int first = 0;  // of those that can be streamed
  while (first < output_count && is_input(outputs[first], operands)) ++first;
  if (stores == Stores::kCached) {
    reduce_in_caches(kernel, operands, out, 0, count);
  } else if (first == output_count) {
    reduce_large_in_place(kernel, operands, out);
  } else {
    reduce_past_caches(kernel, operands, out, first);
  }
}

void reduce(const Reduction& reduction, const void* const* inputs,
            int input_count, void* const* outputs, int output_count,
            size_t count) {
  const auto touched = static_cast<size_t>(input_count + output_count) * count *
                       size_of(reduction.dtype);
  detail::reduce_with(fits_caches(touched) ? detail::Stores::kCached
                                           : detail::Stores::kStreaming,
                      reduction, inputs, input_count, outputs, output_count,
                      count);
}

void copy_shared(void* to, const void* from, size_t bytes, size_t all_bytes) {
  if (bytes == 0 || to == from) return;
  if (fits_caches(2 * all_bytes)) {
    std::memcpy(to, from, bytes);
    return;
  }
  Reduction copying;
  copying.dtype = DType::kUInt8;
  copying.kind = ReduceOp::kMax;
  detail::reduce_with(detail::Stores::kStreaming, copying, &from, 1, &to, 1,
                      bytes);
}

}  // namespace lockstep
