#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a run of ctest has found, test by test of gtest.

  results.py slowest BUILD [COUNT]   the slowest tests of the last run
  results.py names BUILD             every test that ctest would run
  results.py second_try BUILD        runs what has failed once more, alone

ctest has one test per suite (discover_suites.cmake), each of which leaves its
results in BUILD/Testing/results; `./dev` lets ctest write the rest into
BUILD/Testing/junit.xml.

second_try is for CI. A test that passes then is FLAKY: its first output is
printed and kept in BUILD/flaky.log, and it counts as passed. The exit code is 1
if a test has failed twice.
"""
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

TIME_LIMIT = 600  # seconds for one second try
END = r"\[(       OK|  FAILED |  SKIPPED) \] "


class Build:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def run_tests(self):
        """(name, seconds, has passed, output) of each ctest test that ran."""
        root = xml.parse(self.folder / "Testing/junit.xml").getroot()
        for case in root.iter("testcase"):
            output = case.findtext("system-out") or ""
            status = case.get("status")
            yield (case.get("name"), float(case.get("time")),
                   status in ("run", "notrun", "disabled"), output)

    def commands(self):
        """The command of each ctest test, by its name."""
        listing = subprocess.run(
            ["ctest", "--show-only=json-v1"], cwd=self.folder,
            capture_output=True, text=True, check=True).stdout
        return {test["name"]: test.get("command", [])
                for test in json.loads(listing)["tests"]}

    def results_file(self, name):
        file = re.sub("[^A-Za-z0-9_.]", "-", name) + ".json"
        return self.folder / "Testing/results" / file

    def gtest_results(self, name):
        """{gtest name: (seconds, has passed)}; empty if it did not get there."""
        try:
            results = json.loads(self.results_file(name).read_text())
        except (OSError, ValueError):
            return {}
        found = {}
        for suite in results["testsuites"]:
            for test in suite["testsuite"]:
                full_name = suite["name"] + "." + test["name"]
                found[full_name] = (float(test["time"].rstrip("s")),
                                    not test.get("failures"))
        return found


def gtest_filter(command):
    for word in command:
        if word.startswith("--gtest_filter="):
            return word
    return None


def is_suite(command):
    """Whether this is a test program itself, and not one that starts it."""
    return len(command) > 1 and command[1] == gtest_filter(command)


def listed(command, filter_word):
    """The gtest names that a filter selects."""
    text = subprocess.run(
        [command[0], filter_word, "--gtest_list_tests"],
        capture_output=True, text=True, check=True).stdout
    names, suite = [], ""
    for line in text.splitlines():
        line = line.split("#")[0].rstrip()
        if line.startswith("  "):
            names.append(suite + line.strip())
        elif line.endswith("."):
            suite = line
    return names


def output_of(name, output):
    """The lines of one gtest test in what its suite has printed."""
    begin = output.find(f"[ RUN      ] {name}\n")
    if begin < 0:
        return output[-4000:]
    end = re.compile(END + re.escape(name)).search(output, begin)
    return output[begin:end.end() if end else None]


def ended(output):
    """{gtest name: has passed} of those whose end was printed."""
    line = re.compile("^" + END + r"(\S+?),? .*\(\d+ ms\)$", re.MULTILINE)
    return {match[2]: "FAILED" not in match[1]
            for match in line.finditer(output)}


def run(command, folder):
    """(exit code is 0, output)"""
    try:
        done = subprocess.run(
            command, cwd=folder, timeout=TIME_LIMIT, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace")
        return done.returncode == 0, done.stdout
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode(errors="replace")
        return False, f"{output}\ntimed out after {TIME_LIMIT} s"


class SecondTry:
    def __init__(self, build):
        self.build = build
        self.flaky = []   # (name, first output)
        self.failed = []  # (name, second output)

    def judge(self, name, first, command):
        passed, second = run(command, self.build.folder)
        print(f"{name}: {'passed alone: FLAKY' if passed else 'failed again'}",
              flush=True)
        if passed:
            self.flaky.append((name, first))
        else:
            self.failed.append((name, second))

    def suite(self, command, output):
        """Each test that failed alone; then those that were not reached."""
        done = ended(output)
        names = listed(command, gtest_filter(command))
        begun = re.findall(r"^\[ RUN      \] (\S+)$", output, re.MULTILINE)
        for name in names:
            if done.get(name) or (name not in done and name not in begun):
                continue
            self.judge(name, output_of(name, output),
                       [command[0], f"--gtest_filter={name}"])
        rest = [name for name in names if name not in begun]
        if rest and not begun:  # it did not even start: once, as a whole
            self.judge(command[0], output[-4000:], command)
        elif rest:
            word = "--gtest_filter=" + ":".join(rest)
            passed, output = run([command[0], word], self.build.folder)
            if not passed:
                self.suite([command[0], word], output)
        elif all(done.get(name) for name in names):
            # Every test passed, and then the process failed.
            self.judge(command[0], output[-4000:], command)

    def all(self):
        commands = self.build.commands()
        for name, _, passed, output in list(self.build.run_tests()):
            if passed:
                continue
            if is_suite(commands[name]):
                self.suite(commands[name], output)
            else:
                self.judge(name, output[-4000:],
                           ["ctest", "--output-on-failure", "--no-tests=error",
                            "-R", f"^{re.escape(name)}$"])

    def report(self):
        with open(self.build.folder / "flaky.log", "a") as log:
            for name, output in self.flaky:
                log.write(f"== FLAKY: {name}\n{output}\n")
        for name, output in self.failed:
            print(f"== FAILED twice: {name}\n{output}")
        return 1 if self.failed else 0


def slowest(build, count):
    times = []
    for name, seconds, _, _ in build.run_tests():
        results = build.gtest_results(name)
        times += [(time, test) for test, (time, _) in results.items()]
        if not results:
            times.append((seconds, name))
    for seconds, name in sorted(times, reverse=True)[:count]:
        print(f"{seconds:8.1f} s  {name}")


def names(build):
    for name, command in build.commands().items():
        if is_suite(command):
            print("\n".join(listed(command, gtest_filter(command))))
        else:
            print(name)


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in (
            "slowest", "names", "second_try"):
        sys.exit(__doc__)
    build = Build(arguments[1])
    if arguments[0] == "slowest":
        slowest(build, int(arguments[2]) if len(arguments) > 2 else 10)
    elif arguments[0] == "names":
        names(build)
    else:
        attempt = SecondTry(build)
        attempt.all()
        sys.exit(attempt.report())


if __name__ == "__main__":
    main(sys.argv[1:])
