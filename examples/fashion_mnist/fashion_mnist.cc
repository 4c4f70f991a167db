// SPDX-License-Identifier: Apache-2.0
// Trains a small convolutional net on Fashion-MNIST, pictures of ten kinds of
// clothes. Each rank learns from its share of them; all have the same net.
//
//   lockstep run -- fashion_mnist     # a rank on every core
//   fashion_mnist                     # one process
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <lockstep/lockstep.h>
#include <torch/torch.h>

#include "examples.h"
#include "net.h"
#include "progress.h"
#include "settings.h"

namespace {

// The rate of learning rises for a quarter of the time and then falls to zero.
void set_rate(torch::optim::Optimizer& optimizer, double done,
              int images_per_step) {
  const double peak = 0.002 * std::sqrt(images_per_step / 128.0);
  optimizer.param_groups()[0].options().set_lr(
      peak * std::min(done * 4, (1 - done) * 4 / 3));
}

// One step, the same for a net and for a wrapped one.
template <class Model>
double train_step(Model& model, torch::optim::Optimizer& optimizer,
                  const Examples& batch) {
  optimizer.zero_grad();
  const torch::Tensor loss =
      torch::nn::functional::cross_entropy(model(batch.images), batch.labels);
  loss.backward();  // wrapped: gradients are averages over all ranks then
  optimizer.step();
  return loss.item<double>();
}

// Images per second of rank 0 alone, while the other ranks wait; 0 if there are
// none.
double speed_alone(lockstep::ProcessGroup& world, const Examples& data,
                   int batch, double seconds) {
  double speed = 0;
  if (world.rank() == 0 && world.size() > 1) {
    Net net;
    torch::optim::Adam optimizer(net->parameters());
    Stopwatch watch;
    int steps = -State::kWarmUp;
    while (steps < 1 || watch.seconds() < seconds) {
      const auto any = torch::randint(data.size(), {batch}, torch::kLong);
      train_step(net, optimizer, data.at(any));
      if (++steps == 0) watch = Stopwatch();
    }
    speed = steps * batch / watch.seconds();
  }
  world.barrier()->wait();
  return speed;
}

// The share of `data` that the net tells right. Each rank looks at some of it.
double accuracy(Net& net, const Examples& data, lockstep::ProcessGroup& world) {
  const torch::NoGradGuard no_grad;
  constexpr int64_t kBlock = 250;
  torch::Tensor right = torch::zeros({1}, torch::kLong);
  net->eval();
  for (int64_t begin = world.rank() * kBlock; begin < data.size();
       begin += world.size() * kBlock) {
    const Examples block =
        data.at(torch::arange(begin, std::min(begin + kBlock, data.size())));
    right += net(block.images).argmax(1).eq(block.labels).sum();
  }
  net->train();
  lockstep::all_reduce(world, right)->wait();
  return right.item<double>() / static_cast<double>(data.size());
}

void run(const Settings& settings) {
  const auto world = lockstep::init();  // alone: a world of one
  const int ranks = world->size();
  Progress progress(world->rank() == 0);
  if (ranks > 1) progress.line("one process alone, then all ranks together");
  const Examples training = read_examples(settings.data, "train");
  const Examples tests = read_examples(settings.data, "t10k");
  // With more than 1024 images in a step there would be too few steps.
  const int batch =
      settings.batch > 0 ? settings.batch : std::clamp(1024 / ranks, 8, 64);

  const double moment = settings.quick ? 0.2 : 3;
  double alone = speed_alone(*world, training, batch, moment);

  torch::manual_seed(world->rank());  // every run makes the same numbers
  Net net;
  lockstep::DistributedDataParallel ddp(net, world);  // all: rank 0's weights
  ddp.register_comm_hook(lockstep::hooks::make(settings.hook));
  torch::optim::Adam optimizer(ddp->parameters());
  torch::data::samplers::DistributedRandomSampler sampler(training.size(),
                                                          ranks, world->rank());
  int64_t steps = std::max<int64_t>(training.size() / ranks / batch, 1);
  if (settings.quick) steps = std::min<int64_t>(steps, 10);
  State state;
  const Stopwatch all;
  for (int epoch = 0; epoch < settings.epochs; ++epoch) {
    sampler.set_epoch(epoch);  // other images for this rank, in another order
    sampler.reset();
    for (int64_t step = 0; step < steps; ++step) {
      const Stopwatch watch;
      set_rate(optimizer, state.done, batch * ranks);
      const Examples mine = training.at(*sampler.next(batch));
      const double loss = train_step(ddp, optimizer, mine);

      state.done = (epoch + (step + 1.0) / steps) / settings.epochs;
      state.add_step(loss, mine.size() * ranks, watch.seconds());
      state.overlap = ddp.stats().overlap();
      progress.bar(state);
    }
    const double right = accuracy(net, tests, *world);
    progress.line(fmt::format("epoch {}/{}  {}  test accuracy {:.1f} %",
                              epoch + 1, settings.epochs, state.text(),
                              right * 100));
  }
  progress.line(fmt::format("trained and tested in {:.0f} s", all.seconds()));
  // A machine's speed changes meanwhile.
  alone = (alone + speed_alone(*world, training, batch, moment)) / 2;
  if (ranks > 1) {
    progress.line(comparison(ranks, torch::get_num_threads(), alone, state));
  }
  progress.line(
      "\nIn your own program:\n"
      "  auto world = lockstep::init();\n"
      "  lockstep::DistributedDataParallel ddp(net, world);\n"
      "  loss_of(ddp(x), y).backward();   // ddp(x), not net(x)");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(settings_of(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "fashion_mnist: {}\n", error.what());
    return 1;
  }
}
