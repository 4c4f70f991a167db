// SPDX-License-Identifier: Apache-2.0
#include "hook/block_exchange.h"

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "hook/queue.h"
#include "lockstep/base/error.h"
#include "lockstep/collective/collective_op.h"

namespace lockstep::detail {
namespace {

// One bucket on its way. Its words are, in this order: the encodings of all
// pieces, first of this rank's gradients and later of the averages; and what
// came of this rank's own piece, by rank.
class BucketOfBlocks {
 public:
  BucketOfBlocks(const GradBucket& bucket, const HookContext& context,
                 const BlockCodec& codec, uint64_t seed, at::Tensor left_out,
                 MessageWords& memory)
      : codec_(codec),
        rank_(static_cast<size_t>(context.group()->rank())),
        divisor_(static_cast<float>(context.divisor())),
        key_(random_key({seed, static_cast<uint64_t>(context.iteration()),
                         bucket.index(), rank_})),
        buffer_(bucket.buffer()),
        values_(floats_of(bucket)),
        left_out_(std::move(left_out)),
        cuts_(cut_at_blocks(static_cast<size_t>(buffer_.numel()), codec.block(),
                            context.group()->size())) {
    for (size_t piece = 0; piece + 1 < cuts_.size(); ++piece) {
      counts_.push_back(codec_.word_count(length(piece)));
    }
    sent_count_ = std::accumulate(counts_.begin(), counts_.end(), size_t{0});
    received_counts_.assign(counts_.size(), counts_[rank_]);
    words_ = memory.take(sent_count_ + counts_.size() * counts_[rank_]);
  }

  // ---- What is sent.

  const std::vector<size_t>& counts() const { return counts_; }
  const std::vector<size_t>& received_counts() const {
    return received_counts_;
  }
  Buffer all_pieces() const {
    return words_buffer(piece_words(0), sent_count_);
  }
  Buffer own_piece() const {
    return words_buffer(piece_words(rank_), counts_[rank_]);
  }
  Buffer received() const {
    return words_buffer(received_words(), counts_.size() * counts_[rank_]);
  }
  // Ranks must agree on what codes mean, not on their number alone.
  CallOptions options() const {
    CallOptions options;
    options.keepalive = words_;
    options.agreement = agreement_of(
        {static_cast<size_t>(codec_.bits()), codec_.block(), cuts_.back()});
    return options;
  }

  // ---- The steps.

  void encode() {
    for (size_t piece = 0; piece < counts_.size(); ++piece) {
      codec_.encode(values_ + cuts_[piece], length(piece),
                    random_key({key_, piece}), piece_words(piece),
                    left_out(piece));
    }
  }

  void average() {
    BlockCodec::Sum sum;
    sum.inputs = received_words();
    sum.input_count = static_cast<int>(counts_.size());
    sum.factor = 1 / divisor_;
    sum.memory_factor = divisor_;
    codec_.encode_sum(sum, length(rank_), random_key({key_, counts_.size()}),
                      piece_words(rank_), left_out(rank_));
  }

  void decode() {
    for (size_t piece = 0; piece < counts_.size(); ++piece) {
      codec_.decode(piece_words(piece), length(piece), values_ + cuts_[piece]);
    }
  }

 private:
  size_t length(size_t piece) const { return cuts_[piece + 1] - cuts_[piece]; }
  uint32_t* piece_words(size_t piece) const {
    return words_->data() +
           std::accumulate(counts_.begin(),
                           counts_.begin() + static_cast<ptrdiff_t>(piece),
                           size_t{0});
  }
  uint32_t* received_words() const { return words_->data() + sent_count_; }
  float* left_out(size_t piece) const {
    if (!left_out_.defined()) return nullptr;
    return left_out_.data_ptr<float>() + cuts_[piece];
  }

  const BlockCodec codec_;
  const size_t rank_;
  const float divisor_;
  const uint64_t key_;
  const at::Tensor buffer_;  // keeps the values
  float* const values_;
  const at::Tensor left_out_;
  const std::vector<size_t> cuts_;
  std::vector<size_t> counts_;  // words, by piece
  std::vector<size_t> received_counts_;
  size_t sent_count_ = 0;
  MessageWords::Words words_;
};

}  // namespace

Future<at::Tensor> BlockExchange::run(const GradBucket& bucket,
                                      const HookContext& context) {
  if (!is_lossy(bucket, context)) return hooks::all_reduce()(bucket, context);
  at::Tensor left_out;
  if (error_feedback_) left_out = left_out_.of(bucket);
  const auto on_its_way = std::make_shared<BucketOfBlocks>(
      bucket, context, codec_, seed_, std::move(left_out), words_);
  BucketOfBlocks& it = *on_its_way;

  ProcessGroup& group = *context.group();
  return launch_all(
      {[&] { return post_step(group, [on_its_way] { on_its_way->encode(); }); },
       [&] {
         return group.all_to_all(it.all_pieces(), it.received(), it.counts(),
                                 it.received_counts(), it.options());
       },
       [&] {
         return post_step(group, [on_its_way] { on_its_way->average(); });
       },
       [&] {
         return group.all_gather(it.own_piece(), it.all_pieces(), it.counts(),
                                 it.options());
       },
       [&] {
         return post_step(group, [on_its_way] { on_its_way->decode(); });
       }},
      bucket.buffer());
}

CommHook make_block_hook(const char* name, int bits, int block,
                         bool error_feedback, uint64_t seed) {
  LOCKSTEP_CHECK(block % 64 == 0 && block >= 64 && block <= 65536, UsageError,
                 "block is {}; expected a multiple of 64 from 64 to 65536",
                 block);
  const auto exchange = std::make_shared<BlockExchange>(
      BlockCodec(bits, static_cast<size_t>(block)), error_feedback, seed);
  const auto call = [exchange](const GradBucket& bucket,
                               const HookContext& context) {
    return exchange->run(bucket, context);
  };
  return CommHook(call).named(name);
}

}  // namespace lockstep::detail
