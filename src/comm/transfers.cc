// SPDX-License-Identifier: Apache-2.0
// Point to point as users call it: the checks.
#include <fmt/format.h>

#include "comm/group_impl.h"

namespace lockstep {

ProcessGroup::Handle ProcessGroup::Impl::transfer(OpKind kind, Buffer data,
                                                  int peer, int64_t tag,
                                                  CallOptions options) {
  detail::with_context([&] { return context(to_text(kind)); },
                       [&] {
                         maker().check_buffer("data", data);
                         if (kind == OpKind::kSend || peer != kAnyRank) {
                           maker().check_rank("peer", peer);
                         }
                         LOCKSTEP_CHECK(
                             tag >= 0 && tag < int64_t{kOwnTags}, UsageError,
                             "tag {} is not between 0 and 2^31-1", tag);
                       });
  return Engine::transfer(kind, data, peer, static_cast<uint32_t>(tag),
                          std::move(options));
}

}  // namespace lockstep
