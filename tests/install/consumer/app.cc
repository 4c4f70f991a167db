// A program with tensors.
#include <ATen/ATen.h>
#include <lockstep/lockstep.h>

#include <iostream>

int main() {
  auto world = lockstep::init();
  at::Tensor x = at::ones({2, 3});
  lockstep::all_reduce(world, x, lockstep::ReduceOp::kAverage)->wait();
  std::cout << "hello from lockstep " << lockstep::version() << ", "
            << x.sum().item<float>() << "\n";
}
