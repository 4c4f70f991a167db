// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/ddp/reducer_options.h"

// What users of a Reducer meet when something is wrong: what happened, to
// which parameters, and what to do.
namespace lockstep::detail {

// "3 ('fc.weight'), 4 ('fc.bias')", and how many more.
std::string parameters_text(const std::vector<size_t>& indices,
                            const std::vector<std::string>& names);

// Some parameters never became ready.
// `frozen`: how many of the missing ones do not require a gradient any more.
std::string unfinished_text(int rank, const std::vector<size_t>& missing,
                            size_t frozen,
                            const std::vector<std::string>& names,
                            const ReducerOptions& options);

// One became ready a second time. `may_be_misjudged`: the search for unused
// parameters has run.
std::string twice_text(int rank, size_t index, const std::string& name,
                       bool may_be_misjudged);

// A static graph is not what it was in its first step.
std::string changed_text(int rank, size_t index, const std::string& name);

// Backward passed a second time through outputs whose gradients are reduced.
std::string again_text(int rank);

// Says, once in a while, that gradients of gradients are this rank's own.
void warn_of_create_graph();

}  // namespace lockstep::detail
