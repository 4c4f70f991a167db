// SPDX-License-Identifier: Apache-2.0
// Data-parallel training without a module and without an optimizer class: the
// model is four tensors, the update rule three lines, and a Reducer averages
// the gradients.
#include <cstdio>
#include <vector>

#include <ATen/ATen.h>
#include <lockstep/lockstep.h>

namespace {

using Tensors = std::vector<at::Tensor>;

Tensors make_weights() {
  return {at::randn({1, 16}), at::zeros({16}), at::randn({16, 1}) / 4,
          at::zeros({1})};
}

// How far the model is from the curve sin(3x), at the points x.
at::Tensor loss_of(const Tensors& w, const at::Tensor& x) {
  const at::Tensor hidden = at::tanh(at::matmul(x, w[0]) + w[1]);
  const at::Tensor y = at::matmul(hidden, w[2]) + w[3];
  return (y - at::sin(x * 3)).square().mean();
}

// Steepest descent with momentum. Gradients are zeroed, not dropped: they stay
// in the memory from which the Reducer sends them.
void update(const Tensors& weights, const Tensors& velocity) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < weights.size(); ++i) {
    velocity[i].mul_(0.9).add_(weights[i].grad());
    weights[i].sub_(velocity[i], 0.02);
    weights[i].mutable_grad().zero_();
  }
}

bool same_on_all_ranks(lockstep::ProcessGroup& world, const Tensors& weights) {
  const at::NoGradGuard no_grad;
  const at::Tensor sum = at::zeros({1}, at::kDouble);
  for (const at::Tensor& one : weights) sum.add_(one.sum(at::kDouble));
  const at::Tensor sums = at::zeros({world.size()}, at::kDouble);
  lockstep::all_gather_into(world, sums, sum)->wait();
  return at::equal(sums, sum.expand_as(sums));
}

}  // namespace

int main() {
  const auto world = lockstep::init();  // alone: a world of one

  // Ranks draw different weights, and all start with those of rank 0.
  at::manual_seed(static_cast<uint64_t>(world->rank()));
  const Tensors weights = make_weights();
  lockstep::broadcast_coalesced(world, weights)->wait();
  Tensors velocity;
  for (const at::Tensor& one : weights) {
    velocity.push_back(at::zeros_like(one));
    one.requires_grad_();
  }

  // Each rank has its part of the points, all of one size: then the average of
  // the ranks' gradients is the gradient of the whole.
  const at::Tensor points = at::linspace(-1, 1, 120).unsqueeze(1);
  const at::Tensor mine =
      points.slice(0, world->rank(), points.size(0), world->size());
  const double before = loss_of(weights, points).item<double>();

  lockstep::Reducer reducer(weights, world);
  for (int step = 0; step < 1000; ++step) {
    reducer.prepare_for_forward();
    const at::Tensor loss = loss_of(weights, mine);
    reducer.prepare_for_backward({loss});
    loss.backward();  // from here on gradients are averages over all ranks
    update(weights, velocity);
  }

  const double after = loss_of(weights, points).item<double>();
  const bool same = same_on_all_ranks(*world, weights);
  if (world->rank() == 0) {
    std::printf("loss %.3f -> %.3f, %s weights on all %d ranks\n", before,
                after, same ? "the same" : "DIFFERENT", world->size());
  }
  return same ? 0 : 1;
}
