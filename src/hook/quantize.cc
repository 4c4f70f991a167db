// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/quantize.h"

#include <fmt/format.h>

#include "hook/block_exchange.h"
#include "lockstep/base/error.h"

namespace lockstep::hooks {

CommHook quantize(const QuantizeOptions& options) {
  LOCKSTEP_CHECK(options.bits == 8 || options.bits == 4, UsageError,
                 "bits is {}; expected 8 or 4", options.bits);
  return detail::make_block_hook("quantize", options.bits, options.block,
                                 options.error_feedback, options.seed);
}

}  // namespace lockstep::hooks
