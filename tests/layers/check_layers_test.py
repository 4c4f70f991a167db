#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks each rule of the layers once and sees that the check names it, and
nothing that keeps them."""
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
    "src/ddp/reducer/n.cc": ('#include "lockstep/ddp/ddp_options.h"',
                             "may not include 'ddp/wrapper'"),
    "src/ddp/o.cc": ("", "not in the table"),
    "src/unheard_of/h.cc": ("", "not in the table"),
    "src/launch/i.h": ("namespace lockstep { struct A {}; }", "lockstep::detail"),
    "src/comm/j.h": ("namespace lockstep { void f(); }", "lockstep::detail"),
    "src/backend/k.cc": ("namespace lockstep { struct B {}; }",
                         "lockstep::detail"),
    "src/plan/l.cc": ("namespace lockstep { using C = int; }",
                      "lockstep::detail"),
    "src/trace/m.h": ("namespace lockstep::detail { class D {}; }",
                      "lockstep::detail::D is defined in"),
}

# Nobody else sees these names, or they are where they belong.
ALLOWED = {
    "src/collective/first.h": "namespace lockstep::detail { class D {}; }",
    "src/tensor/private.h": """
HWY_BEFORE_NAMESPACE();
namespace lockstep::detail {
namespace codec { enum class Status { kDone }; }
template <class T> void encode(const T& value) { struct Local {}; }
}
namespace lockstep {
// struct Comment {};
class Public::Impl : public detail::Engine { struct Nested {}; };
}
""",
    "src/tensor/source.cc": """
#define LOCKSTEP_TWO_LINES \\
  struct Macro {};
namespace lockstep {
namespace { struct Helper { int x = '{'; }; using Words = int; }
using Impl = Public::Impl;
using detail::encode;
const char* text() { return "namespace a { struct Text {};"; }
}
""",
}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, (line, _) in BROKEN.items():
            write(pathlib.Path(folder, name), line + "\n")
        for name, text in ALLOWED.items():
            write(pathlib.Path(folder, name), text)
        run = subprocess.run([sys.executable, CHECK, folder],
                             stdout=subprocess.PIPE, text=True, check=False)
    missed = [name for name, (_, word) in BROKEN.items()
              if not any(name.rsplit("/", 1)[0] in line and word in line
                         for line in run.stdout.splitlines())]
    accused = [name for name in ALLOWED if f"{name}:" in run.stdout]
    print(run.stdout)
    print("not named:", missed)
    print("named without reason:", accused)
    return 1 if missed or accused or run.returncode != 1 else 0


sys.exit(main())
