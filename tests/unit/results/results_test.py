#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""results.py on a build folder with made-up test programs."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

RESULTS = pathlib.Path(__file__).parents[2] / "results.py"

# A program as gtest would make it. A test fails as often as its file says, and
# "crash" ends the process.
PROGRAM = '''#!/usr/bin/env python3
import os, sys
filter_word = [w for w in sys.argv if w.startswith("--gtest_filter=")]
wanted = filter_word[0].split("=")[1] if filter_word else "*"
tests = TESTS
names = [n for n in tests if wanted == "S.*" or n in wanted.split(":")]
if "--gtest_list_tests" in sys.argv:
    print("S.")
    for name in names: print("  " + name.split(".")[1])
    sys.exit(0)
failed = False
for name in names:
    print("[ RUN      ] " + name, flush=True)
    count = "FOLDER/" + name
    runs = len(open(count).read()) if os.path.exists(count) else 0
    open(count, "a").write("x")
    how, times = tests[name]
    if runs < times:
        if how == "crash": os.abort()
        print("because of " + name)
        print("[  FAILED  ] %s, where GetParam() = 1 (3 ms)" % name)
        failed = True
    else:
        print("[       OK ] %s (3 ms)" % name)
sys.exit(1 if failed else 0)
'''


class ResultsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.counts = self.folder / "counts"
        self.counts.mkdir()

    def run_twice(self, tests):
        """Runs ctest, then the second try; its exit code and output."""
        program = self.folder / "program"
        program.write_text(PROGRAM.replace("TESTS", repr(tests)).replace(
            "FOLDER", str(self.counts)))
        program.chmod(0o755)
        (self.folder / "CTestTestfile.cmake").write_text(
            f'add_test(program.S "{program}" "--gtest_filter=S.*")\n')
        subprocess.run(["ctest", "--output-junit", "Testing/junit.xml"],
                       cwd=self.folder, capture_output=True)
        done = subprocess.run(
            [sys.executable, RESULTS, "second_try", self.folder],
            capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def runs_of(self, name):
        file = self.counts / name
        return len(file.read_text()) if file.exists() else 0

    def flaky(self):
        return (self.folder / "flaky.log").read_text()

    def test_what_passes_the_second_time_is_flaky(self):
        code, _ = self.run_twice({"S.A": ("fail", 0), "S.B": ("fail", 1)})
        self.assertEqual(code, 0)
        self.assertIn("FLAKY: S.B\n", self.flaky())
        self.assertIn("because of S.B", self.flaky())
        self.assertNotIn("S.A", self.flaky())
        self.assertEqual(self.runs_of("S.A"), 1)

    def test_what_fails_twice_is_red(self):
        code, output = self.run_twice({"S.A": ("fail", 2), "S.B": ("fail", 1)})
        self.assertEqual(code, 1)
        self.assertIn("FAILED twice: S.A\n", output)
        self.assertNotIn("FAILED twice: S.B", output)
        self.assertEqual(self.runs_of("S.A"), 2)

    def test_behind_a_crash_the_rest_is_run(self):
        code, _ = self.run_twice({"S.A": ("fail", 0), "S.B": ("crash", 1),
                                  "S.C": ("fail", 1), "S.D": ("fail", 0)})
        self.assertEqual(code, 0)
        self.assertIn("FLAKY: S.B\n", self.flaky())
        self.assertIn("FLAKY: S.C\n", self.flaky())
        self.assertEqual(self.runs_of("S.D"), 1)

    def test_a_second_crash_is_red(self):
        code, output = self.run_twice({"S.A": ("crash", 9), "S.B": ("fail", 2)})
        self.assertEqual(code, 1)
        self.assertIn("FAILED twice: S.A\n", output)
        self.assertIn("FAILED twice: S.B\n", output)


if __name__ == "__main__":
    unittest.main()
