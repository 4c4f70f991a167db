// SPDX-License-Identifier: Apache-2.0
// Our side of pytorch_parity.py: trains the same models on the same numbers and
// writes down every gradient and the weights it ends with.
//
//   lockstep run -n 2 -- pytorch_worker DIRECTORY STEPS BATCH
//
// Files are 32-bit floats, one after the other: MODEL.start are weights,
// MODEL.data.RANK inputs and targets step by step, and
// MODEL.OPTIMIZER.ours.RANK is what we write.
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "lockstep/backend/init.h"
#include "lockstep/ddp/distributed_data_parallel.h"

namespace {

struct MlpImpl : torch::nn::Module {
  MlpImpl()
      : first(register_module("first", torch::nn::Linear(20, 64))),
        second(register_module("second", torch::nn::Linear(64, 64))),
        third(register_module("third", torch::nn::Linear(64, 10))) {}
  at::Tensor forward(const at::Tensor& x) {
    return third(at::relu(second(at::relu(first(x)))));
  }
  torch::nn::Linear first, second, third;
};
TORCH_MODULE(Mlp);

struct ConvImpl : torch::nn::Module {
  ConvImpl()
      : conv(register_module(
            "conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 6, 3)))),
        out(register_module("out", torch::nn::Linear(6 * 6 * 6, 10))) {}
  at::Tensor forward(const at::Tensor& x) {
    return out(at::relu(conv(x.view({-1, 1, 8, 8}))).flatten(1));
  }
  torch::nn::Conv2d conv;
  torch::nn::Linear out;
};
TORCH_MODULE(Conv);

class Floats {
 public:
  explicit Floats(const std::string& path) : file_(path, std::ios::binary) {
    if (!file_) throw std::runtime_error("cannot read " + path);
  }
  at::Tensor next(at::IntArrayRef sizes) {
    at::Tensor tensor = at::empty(sizes);
    file_.read(static_cast<char*>(tensor.data_ptr()),
               static_cast<std::streamsize>(tensor.nbytes()));
    if (!file_) throw std::runtime_error("a file is too short");
    return tensor;
  }

 private:
  std::ifstream file_;
};

void write(std::ofstream& file, const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().contiguous();
  file.write(static_cast<const char*>(plain.data_ptr()),
             static_cast<std::streamsize>(plain.nbytes()));
}

struct Job {
  std::string directory;
  int steps;
  int64_t batch;
};

template <class Net>
void train(const Job& job, const std::string& name, int64_t inputs,
           const std::string& optimizer_name,
           const std::shared_ptr<lockstep::ProcessGroup>& world) {
  Net net;
  Floats start(job.directory + "/" + name + ".start");
  {
    const at::NoGradGuard no_grad;
    for (at::Tensor one : net->parameters()) {
      one.copy_(start.next(one.sizes()));
    }
  }
  lockstep::DdpOptions options;
  options.bucket_caps_bytes = {2048};
  lockstep::DistributedDataParallel ddp(net, world, options);
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  if (optimizer_name == "sgd") {
    optimizer = std::make_unique<torch::optim::SGD>(
        net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  } else {
    optimizer = std::make_unique<torch::optim::Adam>(
        net->parameters(), torch::optim::AdamOptions(0.01));
  }
  const std::string rank = std::to_string(world->rank());
  Floats data(job.directory + "/" + name + ".data." + rank);
  std::ofstream result(
      job.directory + "/" + name + "." + optimizer_name + ".ours." + rank,
      std::ios::binary);
  for (int step = 0; step < job.steps; ++step) {
    const at::Tensor x = data.next({job.batch, inputs});
    const at::Tensor y = data.next({job.batch, 10});
    optimizer->zero_grad();
    (ddp(x) - y).pow(2).mean().backward();
    for (const auto& one : net->parameters()) write(result, one.grad());
    optimizer->step();
  }
  for (const auto& one : net->parameters()) write(result, one);
  if (!result.flush()) throw std::runtime_error("cannot write results");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const Job job{argv[1], std::stoi(argv[2]), std::stoi(argv[3])};
  at::set_num_threads(1);
  try {
    const auto world = lockstep::init();
    for (const char* optimizer : {"sgd", "adam"}) {
      train<Mlp>(job, "mlp", 20, optimizer, world);
      train<Conv>(job, "conv", 64, optimizer, world);
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
