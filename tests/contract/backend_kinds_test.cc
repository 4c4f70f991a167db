// SPDX-License-Identifier: Apache-2.0
// The backends that keep the contract.
#include "contract/backend_kinds.h"

#include "contract/backend_contract.h"

namespace lockstep {
namespace {

INSTANTIATE_TEST_SUITE_P(Backends, BackendContract,
                         ::testing::ValuesIn(backend_kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace lockstep
