#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""On a terminal, a rank's progress bar is the last line of the screen.

Usage: status_line_test.py LOCKSTEP_BINARY
"""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import unittest

LOCKSTEP = os.path.abspath(sys.argv[1])
PATIENCE = 60  # seconds


def screen_of(text):
    """The lines that a terminal would show."""
    lines, column = [""], 0
    for part in re.findall(r"\033\[[?\d]*[a-zA-Z]|.", text, flags=re.DOTALL):
        if part == "\n":
            lines.append("")
        elif part == "\r":
            column = 0
        elif part == "\033[K":
            lines[-1] = lines[-1][:column]
        elif not part.startswith("\033"):
            lines[-1] = lines[-1][:column] + part + lines[-1][column + 1:]
            column += 1
    return lines


class Terminal:
    """Runs two ranks in a terminal 70 columns wide."""

    def __init__(self, script, term="xterm"):
        self.outside, inside = pty.openpty()
        termios.tcsetwinsize(inside, (24, 70))
        self.launcher = subprocess.Popen(
            [LOCKSTEP, "run", "-n", "2", "--", "/bin/sh", "-c", script],
            stdin=subprocess.DEVNULL, stdout=inside, stderr=inside,
            env={**os.environ, "TERM": term})
        os.close(inside)
        self.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.launcher.kill()
        self.launcher.wait()
        os.close(self.outside)

    def read(self):
        """False once everybody has closed the terminal."""
        if not select.select([self.outside], [], [], PATIENCE)[0]:
            raise TimeoutError(repr(self.text))
        try:
            got = os.read(self.outside, 4096)
        except OSError:  # what Linux says then
            return False
        self.text += got.decode()
        return bool(got)

    def read_until(self, text):
        while text not in self.text:
            if not self.read():
                raise EOFError(repr(self.text))

    def read_to_end(self):
        while self.read():
            pass
        return screen_of(self.text)


class StatusLine(unittest.TestCase):

    def test_stays_below_the_lines_of_other_ranks(self):
        # A rank that reads from its pipe goes on when the test opens it too.
        with tempfile.TemporaryDirectory() as folder:
            pipes = [f"{folder}/0", f"{folder}/1"]
            for pipe in pipes:
                os.mkfifo(pipe)
            with Terminal(rf"""
                if [ $RANK = 0 ]; then
                  printf '\r1 of %s' $LOCKSTEP_STATUS_COLUMNS
                  cat {pipes[0]}
                  printf '\r2'; printf '\rdone   \n'
                else
                  cat {pipes[1]}
                  echo out; cat {pipes[1]}; echo err >&2
                fi""") as terminal:
                terminal.read_until("1 of 66")
                self.assertEqual(screen_of(terminal.text), ["[0] 1 of 66"])
                for text in ["out", "err"]:
                    open(pipes[1], "w").close()
                    terminal.read_until(text)
                open(pipes[0], "w").close()
                self.assertEqual(terminal.read_to_end(), [
                    "[1] out", "[1] err", "[0] done   ", ""])

    def test_is_a_line_when_the_ranks_are_interrupted(self):
        with Terminal(r"printf '\r1'; printf '\r2 of 9'; exec sleep 100"
                      ) as terminal:
            while terminal.text.count("2 of 9") < 2:
                self.assertTrue(terminal.read())
            terminal.launcher.send_signal(signal.SIGINT)
            lines = terminal.read_to_end()
            self.assertEqual(sorted(lines), ["", "[0] 2 of 9", "[1] 2 of 9"])
            self.assertEqual(lines[-1], "")
            self.assertEqual(terminal.launcher.wait(PATIENCE),
                             128 + signal.SIGINT)

    def test_is_above_the_report_of_a_failure(self):
        with Terminal(r"[ $RANK = 1 ] || exec sleep 100; "
                      r"printf '\r1'; printf '\r2 of 9'; exit 3") as terminal:
            lines = terminal.read_to_end()
            self.assertEqual(lines[0], "[1] 2 of 9")
            self.assertRegex(lines[1], "^lockstep: rank 1 failed")
            self.assertIn("    | 2 of 9", lines)

    def test_is_not_shown_on_a_dumb_terminal(self):
        with Terminal(r"""[ $RANK = 1 ] && exit
            printf '\r1'; printf '\r%s2\n' $LOCKSTEP_STATUS_COLUMNS
            """, term="dumb") as terminal:
            terminal.read_to_end()
            self.assertEqual(terminal.text, "[0] 2\r\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
