#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads every #include against the table of layers: who may see whom; and sees
that private names are in lockstep::detail and no type is defined twice.

Usage: check_layers.py [ROOT]; exits 1 and names each line that breaks a rule.
"""
import pathlib
import re
import sys

from private_names import defined_types, misplaced_names

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
    "ddp/reducer": ["base", "trace", "collective", "comm", "tensor", "plan", "hook"],
    "ddp/wrapper": ["base", "trace", "collective", "comm", "tensor", "plan", "hook",
                    "ddp/reducer"],
}
ABOVE_TORCH_LINE = ["tensor", "hook", "ddp/reducer", "ddp/wrapper"]
# Whose private headers a layer may include, besides its own.
SEES_INSIDE = {"ddp/wrapper": ["ddp/reducer"]}
# Public headers of ddp that are the wrapper's; the others are the Reducer's.
WRAPPER_HEADERS = ["data_parallel_core.h", "ddp_options.h", "ddp_stats.h",
                   "distributed_data_parallel.h", "mixed_precision.h", "script_module.h",
                   "visit_tensors.h", "wrapped_model.h"]
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def layer_of(include):
    """The layer an include names, if it is one of ours."""
    parts = include.split("/")
    public = parts[0] == "lockstep"
    if public:
        parts = parts[1:]
    if len(parts) < 2:
        return None
    layer = parts[0]
    if layer == "ddp":
        layer += "/" + (room_of(parts[1]) if public else parts[1])
    return layer if layer in MAY_INCLUDE else None


def room_of(header):
    """Where a public header of ddp belongs."""
    return "wrapper" if header in WRAPPER_HEADERS else "reducer"


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
        if (seen and seen != layer and not include.startswith("lockstep/")
                and seen not in SEES_INSIDE.get(layer, [])):
            yield where + f"{include} is private to '{seen}'"
        if public and match.group(1) == '"' and not include.startswith("lockstep/"):
            yield where + f"a public header includes the private {include}"
        if public and match.group(1) == "<" and re.match(
                r"(fmt|spdlog|openssl|nlohmann)/", include):
            yield where + f"a public header makes its users need {include}"


def names_outside_detail(path):
    for line, words in misplaced_names(path):
        yield f"{path}:{line}: not in lockstep::detail: {words}"


def types_defined_twice(root):
    where = {}
    for base in ("include", "src"):
        for path in sorted((root / base).rglob("*")):
            if path.suffix not in (".h", ".cc"):
                continue
            for line, name in defined_types(path):
                first = where.setdefault(name, path)
                if first != path:  # one file has variants behind #if
                    yield f"{path}:{line}: {name} is defined in {first}, too"


def problems(root):
    for base, public in (("include/lockstep", True), ("src", False)):
        for folder in sorted((root / base).iterdir()):
            if not folder.is_dir():
                continue
            for path in sorted(folder.rglob("*")):
                if path.suffix not in (".h", ".cc"):
                    continue
                name = str(path.relative_to(root / base))
                layer = layer_of("lockstep/" + name if public else name)
                if layer:
                    yield from problems_in(path, layer, public)
                else:
                    yield f"{path}: not in the table of layers"
                if not public:
                    yield from names_outside_detail(path)
            if not public and not (folder / "README.md").is_file():
                yield f"{folder}: has no README.md"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = [*problems(root), *types_defined_twice(root)]
    print("\n".join(found) if found else
          "layers: every include is allowed, private names are in detail")
    return 1 if found else 0


sys.exit(main())
