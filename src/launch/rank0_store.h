// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "launch/place.h"
#include "lockstep/launch/store_url.h"

namespace lockstep::detail {

// The store of a job whose launcher gives none: rank 0 serves it, the others
// connect. At LOCKSTEP_PORT, else at the master port + 1.
//
// On one host that port may be taken (torchrun's own connections use the
// numbers beside its port), so rank 0 takes one of the next few instead, and
// the others look there for the store of this very job.
//
// Errors: UsageError for several hosts without an address or a secret;
//         TimeoutError, SystemError as the stores.
std::shared_ptr<Store> open_rank0_store(const Place& place,
                                        const StoreUrlOptions& options);

}  // namespace lockstep::detail
