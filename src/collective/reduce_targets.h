// SPDX-License-Identifier: Apache-2.0
#pragma once

// For which instruction sets kernels are compiled; include it before anything
// of Highway. Besides what the compiler may assume anyway (SSE2 on x86-64) it
// is AVX2 and AVX-512 alone: between SSE2 and AVX2 our loops gain little, from
// what came after the first AVX-512 nothing, and each target costs compile time
// and a copy of the code.
#ifndef LOCKSTEP_FEW_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#else  // for sanitizers, whose kernels take minutes to compile
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#endif
