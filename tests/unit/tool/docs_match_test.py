#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `lockstep` says of itself, its man page, its completion and its pages
in docs/ name the same options.

Usage: docs_match_test.py LOCKSTEP_BINARY SOURCE_DIR
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

LOCKSTEP = os.path.abspath(sys.argv[1])
SOURCE = pathlib.Path(sys.argv[2]).resolve()
COMPLETION = SOURCE / "tools/lockstep/completion.bash"
DOCS = (SOURCE / "docs/launcher.md").read_text()
BENCH_DOCS = (SOURCE / "docs/bench-command.md").read_text()
# Without comments; roff writes a hyphen that can be copied as \-.
MAN = re.sub(r'^\.\\".*\n', "",
             (SOURCE / "tools/lockstep/lockstep.1").read_text(),
             flags=re.MULTILINE).replace(r"\-", "-")

OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]+|-[a-z])(?![\w-])")


def output_of(*arguments):
    return subprocess.run([LOCKSTEP, *arguments], stdout=subprocess.PIPE,
                          text=True, check=True).stdout


def options_in_help(*command):
    """The names at the start of each line of the help that has some."""
    options = set()
    for line in output_of(*command, "--help").splitlines():
        head = re.match(r"\s+((-{1,2}[a-z][a-z-]*(\{\w+\})?,?\s*)+)", line)
        if head:
            options.update(OPTION.findall(re.sub(r"\{\w+\}", "", head[1])))
    return options


def options_on_lines(lines):
    return {name for line in lines for name in OPTION.findall(line)}


def complete(*words):
    """What bash offers for the last word."""
    listed = " ".join(shlex.quote(word) for word in words)
    script = f"""
        source {shlex.quote(str(COMPLETION))}
        complete -p lockstep >/dev/null || exit 1
        COMP_WORDS=({listed})
        COMP_CWORD={len(words) - 1}
        COMP_LINE={shlex.quote(" ".join(words))}
        COMP_POINT=${{#COMP_LINE}}
        _lockstep
        printf '%s\\n' "${{COMPREPLY[@]}}"
        """
    return subprocess.run(["bash", "--norc", "--noprofile", "-c", script],
                          stdout=subprocess.PIPE, text=True,
                          check=True).stdout.split()


RUN_OPTIONS = options_in_help("run")
BENCH_OPTIONS = options_in_help("bench")
ALL_OPTIONS = (options_in_help() | RUN_OPTIONS | options_in_help("info") |
               BENCH_OPTIONS)


class Documents(unittest.TestCase):

    def test_the_help_can_be_read(self):
        self.assertLessEqual({"-h", "-n", "--ranks", "--no-prefix",
                              "--dry-run"}, RUN_OPTIONS)
        self.assertIn("--version", ALL_OPTIONS)

    def test_the_man_page_lists_the_options_and_no_others(self):
        section = MAN.split(".SH OPTIONS\n")[1].split("\n.SH ")[0]
        tags = re.findall(r"^\.TP\n(.*)", section, flags=re.MULTILINE)
        self.assertEqual(options_on_lines(tags), ALL_OPTIONS)

    def test_the_man_page_mentions_no_option_that_is_not_there(self):
        # After " -- " comes a program with options of its own.
        lines = [line.split(" -- ")[0] for line in MAN.splitlines()]
        long_names = {name for name in options_on_lines(lines)
                      if name.startswith("--")}
        self.assertLessEqual(long_names, ALL_OPTIONS)

    def test_the_page_on_the_launcher_lists_the_options_and_no_others(self):
        rows = re.findall(r"^\| (`-[^|]*)\|", DOCS, flags=re.MULTILINE)
        self.assertEqual(options_on_lines(rows), RUN_OPTIONS)

    def test_the_page_on_measuring_lists_the_options_and_no_others(self):
        rows = re.findall(r"^\| (`-[^|]*)\|", BENCH_DOCS, flags=re.MULTILINE)
        self.assertEqual(options_on_lines(rows), BENCH_OPTIONS)

    def test_all_list_the_collectives(self):
        names = complete("lockstep", "bench", "")
        self.assertIn("all_reduce", names)
        for text in (MAN, BENCH_DOCS, output_of("bench", "--help")):
            self.assertLessEqual(set(names), set(re.findall(r"[a-z_]+", text)))

    def test_both_list_the_variables_of_a_rank(self):
        plan = output_of("run", "-n", "1", "--backend", "auto", "--dry-run",
                         "--", "true")
        names = set(re.findall(r"^  (\w+)=", plan, flags=re.MULTILINE))
        self.assertLessEqual({"RANK", "LOCKSTEP_STORE"}, names)
        for text in (MAN, DOCS):
            self.assertLessEqual(names, set(re.findall(r"[A-Z_]{4,}", text)))


class Completion(unittest.TestCase):

    def test_completes_commands(self):
        self.assertEqual(complete("lockstep", "r"), ["run"])
        self.assertEqual(complete("lockstep", "in"), ["info"])
        self.assertEqual(complete("lockstep", "b"), ["bench"])

    def test_knows_the_options_and_no_others(self):
        self.assertEqual(set(complete("lockstep", "run", "-")) - {"--"},
                         RUN_OPTIONS)
        self.assertEqual(set(complete("lockstep", "info", "-")),
                         options_in_help("info"))
        self.assertEqual(set(complete("lockstep", "bench", "-")),
                         BENCH_OPTIONS)
        self.assertEqual(set(complete("lockstep", "-")), options_in_help())

    def test_completes_an_option(self):
        self.assertEqual(complete("lockstep", "run", "--bi"), ["--bind"])
        self.assertEqual(complete("lockstep", "run", "-n", "4", "--dr"),
                         ["--dry-run"])

    def test_completes_where_to_bind_with_words_that_are_understood(self):
        places = complete("lockstep", "run", "--bind", "")
        self.assertEqual(places, ["core", "numa", "none"])
        for place in places:
            output_of("run", "-n", "1", "--bind", place, "--dry-run", "--",
                      "true")

    def test_completes_after_an_equals_sign(self):
        # bash makes three words of --bind=co.
        self.assertEqual(complete("lockstep", "run", "--bind", "=", "co"),
                         ["core"])
        self.assertEqual(complete("lockstep", "run", "--bind", "="),
                         ["core", "numa", "none"])

    def test_completes_what_to_measure_and_how(self):
        self.assertEqual(complete("lockstep", "bench", "all_r"),
                         ["all_reduce"])
        self.assertEqual(complete("lockstep", "bench", "all_reduce", "--reg"),
                         ["--registered"])
        self.assertEqual(
            complete("lockstep", "bench", "all_reduce", "--op", "b"),
            ["band", "bor", "bxor"])
        for option in ("--dtype", "--op"):
            for word in complete("lockstep", "bench", "barrier", option, ""):
                self.assertIn(word, BENCH_DOCS)

    def test_completes_backends(self):
        self.assertEqual(complete("lockstep", "run", "--backend", ""),
                         ["auto", "shm", "gloo", "local"])

    def test_completes_files_and_directories(self):
        with tempfile.TemporaryDirectory() as folder:
            here = pathlib.Path(folder)
            (here / "job.secret").touch()
            (here / "job.logs").mkdir()
            start = f"{folder}/job"
            self.assertEqual(
                sorted(complete("lockstep", "run", "--secret-file", start)),
                [f"{start}.logs", f"{start}.secret"])
            self.assertEqual(complete("lockstep", "run", "--log-dir", start),
                             [f"{start}.logs"])
            self.assertIn(f"{start}.secret",
                          complete("lockstep", "run", "--", "cat", start))

    def test_after_the_dashes_come_a_program_and_its_arguments(self):
        self.assertIn("bash", complete("lockstep", "run", "--", "bas"))
        # --bi is the program's business now, with and without the dashes.
        for words in (["--", "cat"], ["cat"], ["-n", "4", "cat"]):
            self.assertEqual(complete("lockstep", "run", *words, "--bi"), [])


class ExamplesInDocs(unittest.TestCase):
    def test_the_backend_of_the_page_is_the_one_that_is_compiled(self):
        page = (SOURCE / "docs/backends.md").read_text()
        code = re.search(r"```cpp\n(// A backend for a world of one.*?)```",
                         page, re.S).group(1)
        example = SOURCE / "examples/own_backend/own_backend.cc"
        self.assertIn(code, example.read_text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
