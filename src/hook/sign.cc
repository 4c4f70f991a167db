// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/sign.h"

#include "hook/block_exchange.h"

namespace lockstep::hooks {

CommHook sign(const SignOptions& options) {
  return detail::make_block_hook("sign", 1, options.block,
                                 options.error_feedback, 0);
}

}  // namespace lockstep::hooks
