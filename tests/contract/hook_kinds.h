// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "lockstep/hook/make_hook.h"

namespace lockstep {

// A communication hook, as the contract of hooks sees it.
struct HookKind {
  std::string name;  // for tests
  std::string text;  // for hooks::make()
  // How far a result may be from the average of one step, of gradients whose
  // absolute values are at most 1. 0: all bits are those of all_reduce.
  double bound = 0;
  // It reduces nothing: ranks keep their own.
  bool is_noop = false;
};

inline void PrintTo(const HookKind& kind, std::ostream* out) {
  *out << kind.name;
}

// What one step may lose entirely: error feedback brings it later.
constexpr double kAnything = std::numeric_limits<double>::infinity();

// Every hook of the library. The bounds are those of its headers, for averages
// over any number of ranks.
inline std::vector<HookKind> hook_kinds() {
  return {
      {"AllReduce", "all_reduce"},
      {"Noop", "noop", kAnything, true},
      {"Fp16", "fp16_compress", 1.0 / 512},
      {"Bf16", "bf16_compress", 1.0 / 64},
      {"Fp16Around", "fp16_compress(all_reduce)", 1.0 / 512},
      {"Quantize8", "quantize:bits=8,block=64", 2.0 / 127},
      {"Quantize4", "quantize:bits=4,block=64", 2.0 / 7},
      {"Sign", "sign:block=64", 4},
      {"TopK", "top_k:ratio=0.3", 1},
      {"PowerSgd", "power_sgd:rank=2,start_iter=2", kAnything},
      {"BatchedPowerSgd", "batched_power_sgd:rank=2,start_iter=2", kAnything},
      {"PostLocalSgd", "post_local_sgd:start_iter=2"},
      {"AutoCompress", "auto_compress(bf16_compress|quantize)", 1.0 / 64},
  };
}

}  // namespace lockstep
