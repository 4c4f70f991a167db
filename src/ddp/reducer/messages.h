// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/ddp/reducer_options.h"

// Texts of errors and warnings: what happened, to which parameters, and what to
// do.
namespace lockstep::detail {

// "3 ('fc.weight'), 4 ('fc.bias') and 7 more": up to twenty by name.
std::string parameters_text(const std::vector<size_t>& indices,
                            const std::vector<std::string>& names);

// Some parameters never became ready; `frozen` of them do not require a
// gradient any more.
std::string unfinished_text(int rank, const std::vector<size_t>& missing,
                            size_t frozen,
                            const std::vector<std::string>& names,
                            const ReducerOptions& options);

// A parameter became ready a second time. `may_be_misjudged`: the search for
// unused parameters has run.
std::string twice_text(int rank, size_t index, const std::string& name,
                       bool may_be_misjudged);

// A parameter of a static graph got more gradients than in the first step.
std::string changed_text(int rank, size_t index, const std::string& name);

// Backward passed a second time through outputs whose gradients are reduced.
std::string again_text(int rank);

// backward() wrote a gradient to .grad while gradients are read from a map.
std::string not_in_map_text(size_t index, const std::string& name);

// Of which bucket and hook an error is: "bucket 0 of 3, hook 'sign'".
std::string hook_text(size_t bucket, size_t bucket_count,
                      const std::string& hook);

// Warns, at most once a minute, that gradients of gradients are not averaged.
void warn_of_create_graph();

}  // namespace lockstep::detail
