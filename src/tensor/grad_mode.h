// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::detail {

// From now on continuations and posted steps run with the gradient mode of the
// thread that wrote them. Every door to this layer calls it; the first counts.
void carry_grad_mode();

}  // namespace lockstep::detail
