// SPDX-License-Identifier: Apache-2.0
// The loops, per target (no `#pragma once`: see Highway's foreach_target).
//
// A kernel is reduce_elements<Element, Op>. Element says how a type is laid
// out:
//
//   Stored   what lies in memory
//   Number   what is computed with
//   Wide     one Number, or kLanes of them in a vector
//   Rest     the Element for what is left over when kLanes > 1
//   load, store, load_numbers, store_numbers    kLanes at a time
//
// Up to four inputs are combined in registers. More go through a block of
// Numbers that stays in the first-level cache, so that each input is still read
// once, and never more than four streams of memory are open at a time.
#if defined(LOCKSTEP_REDUCE_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_REDUCE_LOOPS_INL_H_
#undef LOCKSTEP_REDUCE_LOOPS_INL_H_
#else
#define LOCKSTEP_REDUCE_LOOPS_INL_H_
#endif

#include <algorithm>

#include <hwy/highway.h>

#include "collective/reduce_kernels.h"

// An output may be an input, but only at the same index: no iteration sees
// what another wrote. Without this word the compiler would test for overlaps
// and take a slow loop for what is in place. (Clang says when it makes no
// vectors: where there are some already, that is as it should be.)
#if HWY_COMPILER_CLANG
#pragma clang diagnostic ignored "-Wpass-failed"
#define LOCKSTEP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define LOCKSTEP_INDEPENDENT _Pragma("GCC ivdep")
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail {
namespace HWY_NAMESPACE {

// Where `N` inputs of one pass begin, from input `first` on.
template <class Element, int N>
struct Sources {
  using Stored = typename Element::Stored;
  Sources(const Operands& o, int first, size_t begin) {
    for (int k = 0; k < N; ++k) {
      at[k] = static_cast<const Stored*>(o.inputs[first + k]) + begin;
    }
  }
  const Stored* at[N];
};

// result op in[K] op in[K + 1] ... at index i, in this order.
template <class Element, class Op, int N, int K = 0>
HWY_INLINE typename Element::Wide combined_with(typename Element::Wide result,
                                                const Op& op,
                                                const Sources<Element, N>& in,
                                                size_t i) {
  if constexpr (K == N) {
    return result;
  } else {
    return combined_with<Element, Op, N, K + 1>(
        Op::combine(result, op.prepare(Element::load(in.at[K] + i), K)), op, in,
        i);
  }
}

// in[0] op in[1] op ...
template <class Element, class Op, int N>
HWY_INLINE typename Element::Wide combined(const Op& op,
                                           const Sources<Element, N>& in,
                                           size_t i) {
  return combined_with<Element, Op, N, 1>(
      op.prepare(Element::load(in.at[0] + i), 0), op, in, i);
}

// The passes. Each does all of `count` that fills whole vectors.
template <class Element>
HWY_INLINE size_t whole_vectors(size_t count) {
  return count - count % Element::kLanes;
}

template <class Element, class Op, int N>
void inputs_to_output(const Operands& o, size_t begin, size_t count) {
  const Op op(o, 0);
  const Sources<Element, N> in(o, 0, o.begin + begin);
  auto* const out = static_cast<typename Element::Stored*>(o.output) + begin;
  const size_t end = whole_vectors<Element>(count);
  LOCKSTEP_INDEPENDENT
  for (size_t i = 0; i < end; i += Element::kLanes) {
    Element::store(out + i, op.finish(combined<Element, Op>(op, in, i)));
  }
}

// Two ranks, each of which wants the result: common enough to write both at
// once.
template <class Element, class Op>
void two_inputs_to_two_outputs(const Operands& o, size_t begin, size_t count) {
  using Stored = typename Element::Stored;
  const Op op(o, 0);
  const Sources<Element, 2> in(o, 0, o.begin + begin);
  auto* const out = static_cast<Stored*>(o.output) + begin;
  auto* const copy = static_cast<Stored*>(o.copy) + begin;
  const size_t end = whole_vectors<Element>(count);
  LOCKSTEP_INDEPENDENT
  for (size_t i = 0; i < end; i += Element::kLanes) {
    const auto result = op.finish(combined<Element, Op>(op, in, i));
    Element::store(out + i, result);
    Element::store(copy + i, result);
  }
}

template <class Element, class Op, int N>
void inputs_to_block(const Operands& o, size_t begin, size_t count,
                     typename Element::Number* HWY_RESTRICT block) {
  const Op op(o, 0);
  const Sources<Element, N> in(o, 0, o.begin + begin);
  const size_t end = whole_vectors<Element>(count);
  LOCKSTEP_INDEPENDENT
  for (size_t i = 0; i < end; i += Element::kLanes) {
    Element::store_numbers(block + i, combined<Element, Op>(op, in, i));
  }
}

template <class Element, class Op>
void four_more_to_block(const Operands& o, int first, size_t begin,
                        size_t count,
                        typename Element::Number* HWY_RESTRICT block) {
  const Op op(o, first);
  const Sources<Element, 4> in(o, first, o.begin + begin);
  const size_t end = whole_vectors<Element>(count);
  LOCKSTEP_INDEPENDENT
  for (size_t i = 0; i < end; i += Element::kLanes) {
    Element::store_numbers(
        block + i, combined_with<Element, Op>(Element::load_numbers(block + i),
                                              op, in, i));
  }
}

template <class Element, class Op>
void last_four_to_output(const Operands& o, size_t begin, size_t count,
                         const typename Element::Number* HWY_RESTRICT block) {
  const int first = o.input_count - 4;
  const Op op(o, first);
  const Sources<Element, 4> in(o, first, o.begin + begin);
  auto* const out = static_cast<typename Element::Stored*>(o.output) + begin;
  const size_t end = whole_vectors<Element>(count);
  LOCKSTEP_INDEPENDENT
  for (size_t i = 0; i < end; i += Element::kLanes) {
    Element::store(out + i, op.finish(combined_with<Element, Op>(
                                Element::load_numbers(block + i), op, in, i)));
  }
}

// Five inputs or more, a block after the other: one to four, so that what is
// left comes in fours.
template <class Element, class Op>
void many_to_output(const Operands& o, size_t begin, size_t count) {
  using Number = typename Element::Number;
  constexpr size_t kBlock = 8192 / sizeof(Number);
  alignas(64) Number block[kBlock];
  const int first_ones = (o.input_count - 1) % 4 + 1;
  const size_t end = begin + count;
  for (; begin < end; begin += kBlock) {
    const size_t length = std::min(kBlock, end - begin);
    switch (first_ones) {
      case 1:
        inputs_to_block<Element, Op, 1>(o, begin, length, block);
        break;
      case 2:
        inputs_to_block<Element, Op, 2>(o, begin, length, block);
        break;
      case 3:
        inputs_to_block<Element, Op, 3>(o, begin, length, block);
        break;
      default:
        inputs_to_block<Element, Op, 4>(o, begin, length, block);
    }
    for (int i = first_ones; i < o.input_count - 4; i += 4) {
      four_more_to_block<Element, Op>(o, i, begin, length, block);
    }
    last_four_to_output<Element, Op>(o, begin, length, block);
  }
}

template <class Element, class Op>
void all_to_output(const Operands& o, size_t begin, size_t count) {
  switch (o.input_count) {
    case 1:
      return inputs_to_output<Element, Op, 1>(o, begin, count);
    case 2:
      return o.copy != nullptr
                 ? two_inputs_to_two_outputs<Element, Op>(o, begin, count)
                 : inputs_to_output<Element, Op, 2>(o, begin, count);
    case 3:
      return inputs_to_output<Element, Op, 3>(o, begin, count);
    case 4:
      return inputs_to_output<Element, Op, 4>(o, begin, count);
    default:
      return many_to_output<Element, Op>(o, begin, count);
  }
}

template <class Element, template <class> class Op>
void reduce_elements(const Operands& o) {
  all_to_output<Element, Op<Element>>(o, 0, o.count);
  if constexpr (Element::kLanes > 1) {
    using Rest = typename Element::Rest;
    const size_t done = whole_vectors<Element>(o.count);
    all_to_output<Rest, Op<Rest>>(o, done, o.count - done);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::detail
HWY_AFTER_NAMESPACE();

#undef LOCKSTEP_INDEPENDENT

#endif  // LOCKSTEP_REDUCE_LOOPS_INL_H_
