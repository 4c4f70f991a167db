// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>

#include "commands.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/launch/launcher.h"
#include "rank_count.h"

namespace lockstep::tool {
namespace {

// What CLI11 fills in, before it is checked and becomes RunOptions.
struct RunArguments {
  RunOptions options;
  std::string ranks = "auto";
  std::optional<int> threads;
  double grace = 5;
  int timeout = 300;
  std::vector<std::string> environment;
};

std::pair<std::string, std::string> variable_of(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError("--env wants NAME=VALUE, not '" + text + "'");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

int run_with(RunArguments& arguments) {
  RunOptions& options = arguments.options;
  options.ranks = rank_count_of(arguments.ranks);
  options.threads = arguments.threads;
  if (arguments.timeout < 1) throw UsageError("--timeout must be 1 or more");
  if (!(arguments.grace >= 0 && arguments.grace <= 1e6)) {
    throw UsageError("--grace must be from 0 to 1000000 seconds");
  }
  options.grace =
      std::chrono::milliseconds(static_cast<int64_t>(arguments.grace * 1000));
  options.timeout = std::chrono::seconds(arguments.timeout);
  for (const auto& text : arguments.environment) {
    options.environment.push_back(variable_of(text));
  }
  if (options.secret_file.empty()) {
    options.secret_file = env::text("LOCKSTEP_SECRET_FILE").value_or("");
  }
  return run(options);
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<RunArguments>();
  RunOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand(
      "run", "Start a program on several ranks and mind them");
  command
      ->add_option("-n,--ranks", arguments->ranks,
                   "How many ranks on this host; auto: one per core")
      ->capture_default_str();
  command
      ->add_option("--bind", options.bind,
                   "Where ranks run: on cores of their own (core), on one "
                   "memory node (numa), anywhere (none)")
      ->capture_default_str();
  command->add_option("--threads", arguments->threads,
                      "OMP_NUM_THREADS of each rank; by default its cores");
  command
      ->add_option("--env", arguments->environment,
                   "NAME=VALUE for the ranks; may be given several times")
      ->allow_extra_args(false);
  command->add_option("--backend", options.backend,
                      "How ranks exchange data, as LOCKSTEP_BACKEND");
  command
      ->add_option("--max-restarts", options.max_restarts,
                   "Start all ranks anew after a failure, so many times")
      ->capture_default_str();
  command
      ->add_option("--grace", arguments->grace,
                   "Seconds between asking ranks to end and killing them")
      ->capture_default_str();
  command->add_option("--log-dir", options.log_dir,
                      "Keep what each rank prints, a file per rank and round");
  command->add_flag("--prefix,!--no-prefix", options.prefix,
                    "Put the rank before each line it prints (the default)");
  command->add_option("--nnodes", options.nodes, "How many hosts take part")
      ->capture_default_str();
  command
      ->add_option("--node-rank", options.node_rank,
                   "Which of them this is; 0 serves the store")
      ->capture_default_str();
  command->add_option("--rendezvous", options.rendezvous,
                      "HOST:PORT on node 0 at which the hosts meet");
  command->add_option("--secret-file", options.secret_file,
                      "The job's secret, the same on all hosts; else "
                      "LOCKSTEP_SECRET_FILE");
  command
      ->add_option("--timeout", arguments->timeout,
                   "Seconds to wait for the other hosts")
      ->capture_default_str();
  command->add_flag("--dry-run", options.dry_run,
                    "Print what would be started, with variables and cores");
  command
      ->add_option("program", options.command, "The program and its arguments")
      ->option_text("-- PROGRAM [ARGUMENTS]");
  command->positionals_at_end();
  command->callback([arguments, &action] {
    action = [arguments] { return run_with(*arguments); };
  });
}

}  // namespace lockstep::tool
