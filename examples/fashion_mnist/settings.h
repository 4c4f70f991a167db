// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string>

#include <lockstep/lockstep.h>
#include <CLI/CLI.hpp>

// The command line.
struct Settings {
  std::string data = "/usr/share/datasets/fashion-mnist";
  int epochs = 4;
  int batch = 0;  // 0: depends on the number of ranks
  std::string hook = "all_reduce";
  bool quick = false;
};

// What is wrong with the name of a communication hook; "" if nothing is.
inline std::string problem_of_hook(const std::string& text) {
  try {
    lockstep::hooks::make(text);
    return "";
  } catch (const lockstep::Error& error) {
    return error.what();
  }
}

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
  app.add_option("--hook", settings.hook,
                 "How to average, such as quantize:bits=4")
      ->check(problem_of_hook)
      ->capture_default_str();
  app.add_flag("--quick", settings.quick, "Ten steps per epoch, for a look");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  return settings;
}
