// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/hook/comm_hook.h"

// Gradients that travel as 16-bit numbers: half the bytes, whatever the link.
//
//   ddp.register_comm_hook(hooks::bf16_compress());
//
// Each rank rounds its gradients to 16 bits, sums are made in float32 and
// rounded once more. float16 keeps 11 bits of a number and reaches from 6e-8
// to 65504: what is larger becomes infinite. bfloat16 keeps 8 bits and reaches
// as far as float32. So a result is within 2^-10 (float16, of normal size) or
// 2^-7 (bfloat16) of the sum of absolute values, divided as the average is.
//
// Buckets of float32 and float64 are compressed; others, sparse ones too, are
// reduced as they are.
//
// Ownership: a hook is for one Reducer; copies share its memory.
namespace lockstep::hooks {

// The average, divided before it is rounded so that sums cannot overflow.
CommHook fp16_compress();
CommHook bf16_compress();

// The same around another hook, which gets gradients of 16 bits, not divided,
// and whose result is converted back. The lossy hooks of this library compress
// float32 alone: inside of these they send the 16 bits as they are.
CommHook fp16_compress(CommHook inner);
CommHook bf16_compress(CommHook inner);

}  // namespace lockstep::hooks
