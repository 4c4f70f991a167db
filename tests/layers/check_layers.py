#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads every #include against the table of layers: who may see whom.

Usage: check_layers.py [ROOT]; exits 1 and names each line that breaks a rule.
"""
import pathlib
import re
import sys

# layer -> layers it may include, besides itself (docs/architecture.md).
MAY_INCLUDE = {
    "base": [],
    "trace": ["base"],
    "net": ["base", "trace"],
    "store": ["base", "net", "trace"],
    "collective": ["base"],
    "comm": ["base", "trace", "store", "collective"],
    "launch": ["base", "net", "store", "trace"],
    # launch is for init(): a group begins with the place of its process.
    "backend": ["base", "trace", "net", "store", "collective", "comm", "launch"],
    "plan": ["base"],
    "tensor": ["base", "trace", "collective", "comm"],
    "hook": ["base", "trace", "collective", "comm", "tensor"],
    "ddp": ["base", "trace", "collective", "comm", "tensor", "plan", "hook"],
}
ABOVE_TORCH_LINE = ["tensor", "hook", "ddp"]
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def layer_of(include):
    """The layer an include names, if it is one of ours."""
    parts = include.split("/")
    if parts[0] == "lockstep":
        parts = parts[1:]
    return parts[0] if len(parts) > 1 and parts[0] in MAY_INCLUDE else None


def problems_in(path, layer, public):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        include = match.group(2)
        # <net/if.h> is the system's: our own are in quotes.
        ours = match.group(1) == '"' or include.startswith("lockstep/")
        seen = layer_of(include) if ours else None
        where = f"{path}:{number}: "
        if TORCH.match(include) and layer not in ABOVE_TORCH_LINE:
            yield where + f"'{layer}' is below the torch line, includes {include}"
        if include in ("lockstep/comm.h", "lockstep/lockstep.h"):
            yield where + f"'{layer}' includes {include}, which is for programs"
        if seen and seen != layer and seen not in MAY_INCLUDE[layer]:
            yield where + f"'{layer}' may not include '{seen}' ({include})"
        if seen and seen != layer and not include.startswith("lockstep/"):
            yield where + f"{include} is private to '{seen}'"
        if public and match.group(1) == '"' and not include.startswith("lockstep/"):
            yield where + f"a public header includes the private {include}"
        if public and match.group(1) == "<" and re.match(
                r"(fmt|spdlog|openssl|nlohmann)/", include):
            yield where + f"a public header makes its users need {include}"


def problems(root):
    for base, public in (("include/lockstep", True), ("src", False)):
        for folder in sorted((root / base).iterdir()):
            if not folder.is_dir():
                continue
            if folder.name not in MAY_INCLUDE:
                yield f"{folder}: not in the table of layers"
                continue
            for path in sorted(folder.rglob("*")):
                if path.suffix in (".h", ".cc"):
                    yield from problems_in(path, folder.name, public)
            if not public and not (folder / "README.md").is_file():
                yield f"{folder}: has no README.md"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = list(problems(root))
    print("\n".join(found) if found else "layers: every include is allowed")
    return 1 if found else 0


sys.exit(main())
