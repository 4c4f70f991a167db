// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "idx_file.h"

// Images, and for each the number of what it shows.
struct Examples {
  torch::Tensor images;
  torch::Tensor labels;

  int64_t size() const { return labels.size(0); }

  // Some of those that read_examples() returns, as a net wants them: numbers
  // around zero instead of bytes.
  Examples at(const torch::Tensor& indices) const {
    const torch::Tensor bytes = images.index_select(0, indices);
    return {bytes.unsqueeze(1).to(torch::kFloat).sub_(73).div_(90),
            labels.index_select(0, indices).to(torch::kLong)};
  }
  Examples at(const std::vector<size_t>& indices) const {
    return at(
        torch::tensor(std::vector<int64_t>(indices.begin(), indices.end())));
  }
};

// The files NAME-images-idx3-ubyte.gz and NAME-labels-idx1-ubyte.gz in
// `folder`.
inline Examples read_examples(const std::string& folder,
                              const std::string& name) {
  const auto read = [&](const std::string& rest) {
    const std::string path = folder + "/" + name + rest;
    if (!std::filesystem::exists(path)) {
      throw std::runtime_error("there is no " + path +
                               "; get the data by: apt-get install "
                               "dataset-fashion-mnist (or say --data DIR)");
    }
    IdxFile file = read_idx_file(path);
    return torch::from_blob(file.elements.data(), file.sizes, torch::kByte)
        .clone();
  };
  Examples all{read("-images-idx3-ubyte.gz"), read("-labels-idx1-ubyte.gz")};
  if (all.images.dim() != 3 || all.images.size(1) != 28 ||
      all.images.size(2) != 28 || all.labels.dim() != 1 ||
      all.images.size(0) != all.size()) {
    throw std::runtime_error(folder +
                             " has no images of 28x28 pixels with labels");
  }
  return all;
}
