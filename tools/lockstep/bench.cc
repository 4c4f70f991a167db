// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "bench_options.h"
#include "bench_start.h"
#include "commands.h"

namespace lockstep::tool {
namespace {

constexpr const char* kFooter =
    R"(Collectives: all_reduce, broadcast, reduce, all_gather, gather, scatter,
reduce_scatter, all_to_all, barrier, sendrecv (all send to the next rank).

Columns, for n ranks:
  size   bytes of the larger buffer of a rank: S
  time   of one operation: the median of the slowest rank's
  algbw  S / time
  busbw  algbw times 2(n-1)/n for all_reduce, (n-1)/n for those with a part
         for each rank, 1 for the others: what each rank's link must carry
  eff.   on one host: bytes that must be read and written (2nS for all_reduce)
         per second, by what the same ranks reach when each copies S bytes
  wrong  elements that are not what they should be; exit code 1 if any)";

void add_what(CLI::App& command, BenchArguments& arguments) {
  command
      .add_option("collective", arguments.collective,
                  "What to measure; see below")
      ->required()
      ->option_text("COLLECTIVE");
  command.add_option("--bytes", arguments.bytes,
                     "Sizes MIN:MAX, or one; K, M, G are powers of 1024 "
                     "[1K:16M]");
  command
      .add_option("--step", arguments.step,
                  "Each size is so many times the one before")
      ->capture_default_str();
  command
      .add_option("--dtype", arguments.dtype,
                  "float32, float64, float16, bfloat16, int8, uint8, int16, "
                  "int32, int64 or bool")
      ->capture_default_str();
  command.add_option("--op", arguments.op,
                     "sum, average, product, min, max, band, bor, bxor or "
                     "premul_sum [sum]");
  command.add_option("--root", arguments.root,
                     "Which rank broadcasts, gathers, scatters [0]");
}

void add_where(CLI::App& command, BenchArguments& arguments) {
  command
      .add_option("-n,--ranks", arguments.ranks,
                  "How many ranks to start on this host; auto: one per core")
      ->capture_default_str();
  command
      .add_option("--backend", arguments.backend,
                  "How ranks exchange data; local: ranks are threads")
      ->capture_default_str();
  command
      .add_option("--bind", arguments.bind,
                  "Where ranks run: core, numa or none, as in lockstep run")
      ->capture_default_str();
}

void add_how(CLI::App& command, BenchArguments& arguments) {
  command.add_flag("--registered", arguments.registered,
                   "Use memory that the group has allocated");
  command.add_flag("--sync,!--async", arguments.sync,
                   "Run on the caller's thread (the default), or launch and "
                   "wait");
  command
      .add_option("--iterations", arguments.iterations,
                  "Measurements per size; one of short operations has several")
      ->capture_default_str();
  command
      .add_option("--warmup", arguments.warmup,
                  "Operations before the first measurement of a size")
      ->capture_default_str();
  command.add_flag("--check,!--no-check", arguments.check,
                   "Verify results, before and after measuring (the default)");
  command
      .add_option("--timeout", arguments.timeout,
                  "Seconds that one operation may take")
      ->capture_default_str();
  command.add_option("--json", arguments.json, "Write the rows to this file");
}

}  // namespace

void add_bench(CLI::App& app, const std::vector<std::string>& words,
               Action& action) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command =
      app.add_subcommand("bench", "Measure and verify a collective");
  add_what(*command, *arguments);
  add_where(*command, *arguments);
  add_how(*command, *arguments);
  command->footer(kFooter);
  command->callback([arguments, words, &action] {
    action = [arguments, words] {
      return start_bench(options_of(*arguments), words);
    };
  });
}

}  // namespace lockstep::tool
