// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "comm/engine.h"
#include "comm/op_maker.h"
#include "lockstep/comm/process_group.h"

namespace lockstep {

// What the sources of ProcessGroup share: the engine, and the checks at the
// door.
class ProcessGroup::Impl : public detail::Engine {
 public:
  using Engine::Engine;

  detail::OpMaker maker() const { return {place().rank, place().size}; }

  // Launches what `make(maker)` returns. Wrong arguments are thrown before the
  // sequence number moves.
  template <class Make>
  Handle call(OpKind kind, CallOptions&& options, Make make) {
    CollectiveOp op =
        detail::with_context([&] { return context(to_text(kind)); },
                             [&] {
                               CollectiveOp made = make(maker());
                               maker().set_shape(made, options.shape);
                               made.signature.counts_hash ^= options.agreement;
                               return made;
                             });
    return launch(std::move(op), std::move(options));
  }

  // `tag` is a user's.
  Handle transfer(OpKind kind, Buffer data, int peer, int64_t tag,
                  CallOptions options);

  // Tags from here on are our own: users' never meet them.
  static constexpr uint32_t kOwnTags = uint32_t{1} << 31;
};

}  // namespace lockstep
