// SPDX-License-Identifier: Apache-2.0
#include "tensor/grad_mode.h"

#include <utility>

#include <ATen/core/grad_mode.h>

#include "lockstep/base/caller_state.h"

namespace lockstep::detail {
namespace {

Callback with_grad_mode(Callback callback) {
  return
      [enabled = at::GradMode::is_enabled(), callback = std::move(callback)] {
        const at::AutoGradMode guard(enabled);
        callback();
      };
}

}  // namespace

void carry_grad_mode() {
  static const bool once = [] {
    set_state_carrier(&with_grad_mode);
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace lockstep::detail
