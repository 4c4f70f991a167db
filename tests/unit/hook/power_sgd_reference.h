// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <ATen/ATen.h>

#include "hook/orthogonalize.h"
#include "hook/power_sgd_state.h"
#include "lockstep/hook/power_sgd.h"
#include "unit/hook/told_gradients.h"

namespace lockstep::testing {

// Compresses from the third step on, whatever saves a little.
inline hooks::PowerSgdOptions from_step_two(int rank) {
  hooks::PowerSgdOptions options;
  options.rank = rank;
  options.start_iter = 2;
  options.min_compression_rate = 1.2;
  return options;
}

// PowerSGD of all ranks in one thread, the dull way: in double, parameter by
// parameter, with libtorch's products and QR. Only the first random directions
// are made as the hook makes them.
class PowerSgdReference {
 public:
  PowerSgdReference(const hooks::PowerSgdOptions& options, int ranks)
      : options_(options), ranks_(ranks) {}

  // gradients[rank][parameter] become what all ranks get, by parameter.
  Tensors step(const std::vector<Tensors>& gradients) {
    Tensors results;
    for (size_t i = 0; i < gradients[0].size(); ++i) {
      Tensors of_ranks;
      for (const Tensors& one : gradients) {
        of_ranks.push_back(one[i].to(at::kDouble));
      }
      results.push_back(is_compressed(of_ranks[0]) ? compress(i, of_ranks)
                                                   : mean(of_ranks));
    }
    ++iteration_;
    return results;
  }

 private:
  static at::Tensor mean(const Tensors& all) { return at::stack(all).mean(0); }

  bool is_compressed(const at::Tensor& gradient) const {
    if (iteration_ < options_.start_iter || gradient.dim() < 2) return false;
    const int64_t rows = gradient.size(0);
    const int64_t cols = gradient.numel() / rows;
    return static_cast<double>((rows + cols) * options_.rank) *
               options_.min_compression_rate <
           static_cast<double>(rows * cols);
  }

  at::Tensor compress(size_t parameter, const Tensors& of_ranks) {
    Tensors inputs;
    for (int rank = 0; rank < ranks_; ++rank) {
      const at::Tensor& one = of_ranks[static_cast<size_t>(rank)];
      const at::Tensor& left = residuals_[{rank, parameter}];
      at::Tensor matrix = one.reshape({one.size(0), -1});
      inputs.push_back(left.defined() ? matrix + left : matrix);
    }
    at::Tensor& q = directions_[parameter];
    if (!q.defined() || !options_.warm_start) {
      q = first_directions(parameter, inputs[0].size(1));
    }
    const at::Tensor p = std::get<0>(at::linalg_qr(mean(inputs).mm(q)));
    q = mean(inputs).t().mm(p);
    const at::Tensor result = p.mm(q.t());
    for (int rank = 0; rank < ranks_ && options_.error_feedback; ++rank) {
      residuals_[{rank, parameter}] =
          inputs[static_cast<size_t>(rank)] - result;
    }
    return result.view(of_ranks[0].sizes());
  }

  at::Tensor first_directions(size_t parameter, int64_t cols) const {
    detail::PowerSgdState state(options_);
    for (int64_t i = 0; i < iteration_; ++i) state.end_iteration(1);
    const at::Tensor columns = at::zeros({options_.rank, cols});
    detail::renew_directions(columns, state.seed_for(parameter));
    return columns.t().to(at::kDouble);
  }

  const hooks::PowerSgdOptions options_;
  const int ranks_;
  int64_t iteration_ = 0;
  std::map<size_t, at::Tensor> directions_;
  std::map<std::pair<int, size_t>, at::Tensor> residuals_;
};

}  // namespace lockstep::testing
