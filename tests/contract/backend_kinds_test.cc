// SPDX-License-Identifier: Apache-2.0
// The backends that keep the contract.
#include "contract/backend_kinds.h"

#include "contract/backend_contract.h"
#include "contract/backend_matrix.h"

namespace lockstep {
namespace {

INSTANTIATE_TEST_SUITE_P(Backends, BackendContract,
                         ::testing::ValuesIn(backend_kinds()),
                         [](const auto& kind) { return kind.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Backends, BackendMatrix,
    ::testing::Combine(::testing::ValuesIn(backend_kinds()),
                       ::testing::Values(1, 2, 3, 4, 8)),
    [](const auto& one) {
      return std::get<0>(one.param).name + "With" +
             std::to_string(std::get<1>(one.param));
    });

}  // namespace
}  // namespace lockstep
