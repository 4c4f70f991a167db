// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::testing {

// A host that never resolves, and at once: with an empty part it is no name to
// ask a server for. So no test waits for the network's answer, or ends while
// the resolver's thread does, which leak checks take for a leak.
constexpr const char* kNoHost = "no-such-host..invalid";

}  // namespace lockstep::testing
