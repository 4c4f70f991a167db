// SPDX-License-Identifier: Apache-2.0
#include "launch/run_plan.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

bool is_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool is_program(const std::string& path) {
  return is_file(path) && ::access(path.c_str(), X_OK) == 0;
}

// As a shell would find it.
std::string find_program(const std::string& name) {
  LOCKSTEP_CHECK(!name.empty(), UsageError, "the name of the program is empty");
  if (name.find('/') != std::string::npos) {
    LOCKSTEP_CHECK(is_file(name), UsageError, "there is no program '{}'", name);
    LOCKSTEP_CHECK(is_program(name), UsageError,
                   "'{}' is not executable; run: chmod +x {}", name, name);
    return name;
  }
  std::string path = env::text("PATH").value_or("/usr/bin:/bin");
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::string folder = path.substr(begin, end - begin);
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (is_program(candidate)) return candidate;
    begin = end + 1;
  }
  throw UsageError(fmt::format(
      "there is no program '{}' in PATH{}", name,
      is_file(name)
          ? fmt::format("; for the one in this directory write ./{}", name)
          : ""));
}

Address rendezvous_of(const RunOptions& options) {
  if (options.nodes == 1) {
    LOCKSTEP_CHECK(options.node_rank == 0, UsageError,
                   "--node-rank {} without --nnodes", options.node_rank);
    return {"127.0.0.1", 0};
  }
  LOCKSTEP_CHECK(options.nodes > 1, UsageError, "--nnodes must be 1 or more");
  LOCKSTEP_CHECK(options.node_rank >= 0 && options.node_rank < options.nodes,
                 UsageError, "--node-rank {} is not in 0..{}",
                 options.node_rank, options.nodes - 1);
  LOCKSTEP_CHECK(!options.rendezvous.empty(), UsageError,
                 "several hosts need --rendezvous HOST:PORT, an address of the "
                 "host with --node-rank 0");
  LOCKSTEP_CHECK(!options.secret_file.empty(), UsageError,
                 "several hosts need --secret-file (or LOCKSTEP_SECRET_FILE): "
                 "the same secret on every host, in a file only you can read");
  const Address address = Address::parse(options.rendezvous);
  LOCKSTEP_CHECK(address.port != 0, UsageError,
                 "--rendezvous needs a port that all hosts know");
  return address;
}

// A launcher may itself be a rank of another, which must find its ranks too.
std::string launchers(const std::string& id) {
  const auto outer = env::text("LOCKSTEP_LAUNCHER");
  return outer ? *outer + "," + id : id;
}

using Variables = std::map<std::string, std::string>;

// What the launcher adds to the environment of rank `local` of this host.
Variables variables_for(const RunOptions& options, const RunPlan& plan,
                        const JobFacts& job, int local) {
  const auto text = [](auto number) { return fmt::format("{}", number); };
  Variables set = {
      {"RANK", text(job.first_rank + local)},
      {"WORLD_SIZE", text(job.world_size)},
      {"LOCAL_RANK", text(local)},
      {"LOCAL_WORLD_SIZE", text(plan.ranks)},
      {"NODE_RANK", text(options.node_rank)},
      {"GROUP_RANK", text(options.node_rank)},
      {"MASTER_ADDR", plan.rendezvous.host},
      {"MASTER_PORT",
       job.master_port != 0 ? text(job.master_port) : "(chosen at the start)"},
      {"LOCKSTEP_STORE", job.store_url},
      {"LOCKSTEP_SECRET", job.secret},
      {"LOCKSTEP_RUN_ID", job.run_id},
      {"LOCKSTEP_RESTART_COUNT", text(job.round)},
      {"LOCKSTEP_LAUNCHER", launchers(job.launcher_id)},
      {"OMP_NUM_THREADS", text(plan.bindings[local].threads)},
  };
  if (!options.backend.empty()) set["LOCKSTEP_BACKEND"] = options.backend;
  if (job.columns > 0) {
    const size_t prefix =
        options.prefix ? fmt::format("[{}] ", job.first_rank + local).size()
                       : 0;
    set["LOCKSTEP_STATUS_COLUMNS"] =
        text(std::max(job.columns - static_cast<int>(prefix), 1));
  }
  for (const auto& [name, value] : options.environment) {
    LOCKSTEP_CHECK(name != "LOCKSTEP_LAUNCHER", UsageError,
                   "--env cannot set LOCKSTEP_LAUNCHER: by it the launcher "
                   "finds the processes it has to end");
    set[name] = value;
  }
  return set;
}

// Left over from a start by hand or from a launcher that started this one,
// these would be taken for ours.
bool is_stale(const std::string& name) {
  return name == "LOCKSTEP_STATUS_COLUMNS" || name == "LOCKSTEP_RANK" ||
         name == "LOCKSTEP_WORLD_SIZE" || name == "LOCKSTEP_LOCAL_RANK" ||
         name == "LOCKSTEP_LOCAL_WORLD_SIZE";
}

// Ours replace those that are there.
std::vector<std::string> merged_environment(const Variables& set) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (set.count(name) == 0 && !is_stale(name)) merged.push_back(text);
  }
  for (const auto& [name, value] : set) merged.push_back(name + "=" + value);
  return merged;
}

}  // namespace

RunPlan make_run_plan(const RunOptions& options, const Machine& machine) {
  LOCKSTEP_CHECK(!options.command.empty(), UsageError,
                 "nothing to run; write: lockstep run -n 4 -- ./program");
  LOCKSTEP_CHECK(options.ranks >= 0 && options.ranks <= 4096, UsageError,
                 "{} ranks on one host make no sense", options.ranks);
  LOCKSTEP_CHECK(options.threads.value_or(1) > 0, UsageError,
                 "--threads must be 1 or more");
  LOCKSTEP_CHECK(options.max_restarts >= 0, UsageError,
                 "--max-restarts must be 0 or more");
  RunPlan plan;
  plan.rendezvous = rendezvous_of(options);
  plan.program = find_program(options.command[0]);
  plan.ranks = options.ranks > 0 ? options.ranks
                                 : static_cast<int>(machine.cores.size());
  auto binding = plan_binding(machine, plan.ranks, bind_policy_of(options.bind),
                              options.threads);
  plan.bindings = std::move(binding.ranks);
  plan.note = std::move(binding.note);
  return plan;
}

std::vector<RankPlan> rank_plans(const RunOptions& options, const RunPlan& plan,
                                 const JobFacts& job) {
  std::vector<RankPlan> ranks;
  for (int local = 0; local < plan.ranks; ++local) {
    RankPlan rank;
    rank.rank = job.first_rank + local;
    rank.command.arguments = options.command;
    rank.command.program = plan.program;
    rank.command.environment =
        merged_environment(variables_for(options, plan, job, local));
    rank.command.cpus = plan.bindings[local].cpus;
    rank.output.rank = rank.rank;
    rank.output.prefix = options.prefix;
    if (!options.log_dir.empty()) {
      rank.output.log_path = fmt::format("{}/rank-{}.round-{}.log",
                                         options.log_dir, rank.rank, job.round);
    }
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

std::string describe(const RankPlan& rank, const RunOptions& options,
                     const RunPlan& plan, const JobFacts& job) {
  std::string text = fmt::format("rank {} on {}:", rank.rank,
                                 rank.command.cpus.empty()
                                     ? "any core"
                                     : "cpu " + to_text(rank.command.cpus));
  for (const auto& argument : rank.command.arguments) text += " " + argument;
  text += "\n";
  const auto variables =
      variables_for(options, plan, job, rank.rank - job.first_rank);
  for (const auto& [name, value] : variables) {
    text += fmt::format("  {}={}\n", name,
                        name == "LOCKSTEP_SECRET" ? "(not shown)" : value);
  }
  return text;
}

}  // namespace lockstep::detail
