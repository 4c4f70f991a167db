#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks each rule of the layers once and sees that the check names it."""
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).with_name("check_layers.py")

BROKEN = {
    "include/lockstep/base/a.h": ("#include <torch/torch.h>", "torch line"),
    "include/lockstep/net/b.h": ("#include <fmt/format.h>", "users need"),
    "include/lockstep/net/c.h": ('#include "net/private.h"', "private"),
    "src/base/d.cc": ('#include "lockstep/net/b.h"', "may not include 'net'"),
    "src/net/e.cc": ('#include "store/dictionary.h"', "may not include 'store'"),
    "src/store/f.cc": ('#include "net/private.h"', "private to 'net'"),
    "src/store/g.cc": ('#include "lockstep/comm.h"', "for programs"),
    "src/unheard_of/h.cc": ("", "not in the table"),
}


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, (line, _) in BROKEN.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(line + "\n")
        run = subprocess.run([sys.executable, CHECK, folder],
                             stdout=subprocess.PIPE, text=True, check=False)
    missed = [name for name, (_, word) in BROKEN.items()
              if not any(name.rsplit("/", 1)[0] in line and word in line
                         for line in run.stdout.splitlines())]
    print(run.stdout)
    print("not named:", missed)
    return 1 if missed or run.returncode != 1 else 0


sys.exit(main())
