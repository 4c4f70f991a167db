// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string>

#include <CLI/CLI.hpp>

// The command line.
struct Settings {
  std::string data = "/usr/share/datasets/fashion-mnist";
  int epochs = 4;
  int batch = 0;  // 0: depends on the number of ranks
  bool quick = false;
};

// Ends the program when there is nothing to do, or a mistake to tell.
inline Settings settings_of(int argc, char** argv) {
  Settings settings;
  CLI::App app("Trains a small net on Fashion-MNIST, alone or on several ranks",
               "fashion_mnist");
  app.add_option("--data", settings.data, "Where the four files are")
      ->capture_default_str();
  app.add_option("--epochs", settings.epochs, "How often to see all images")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--batch", settings.batch, "Images per rank and step")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--quick", settings.quick, "Ten steps per epoch, for a look");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  return settings;
}
