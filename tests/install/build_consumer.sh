#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build_consumer.sh installed|subdirectory SOURCE BUILD
# Builds tests/install/consumer against an installed lockstep or its source,
# and runs it.
set -euo pipefail
way=$1 source=$2 build=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
options=()
if [ "$way" = installed ]; then
  cmake --install "$build" --prefix "$work/prefix" >/dev/null
  test -x "$work/prefix/bin/lockstep"
  "$work/prefix/bin/lockstep" --version
  options+=("-DCMAKE_PREFIX_PATH=$work/prefix")
else
  options+=("-DLOCKSTEP_SOURCE=$source")
fi
cmake -S "$source/tests/install/consumer" -B "$work/build" -G Ninja \
  "${options[@]}" >"$work/log" ||
  { cat "$work/log"; exit 1; }
if [ "$way" = subdirectory ]; then
  # All targets are there, without our tests; building one of them, which needs
  # a single layer, shows that they build in a foreign tree.
  targets=$(cmake --build "$work/build" --target help)
  grep '^lockstep_ddp: ' <<<"$targets"
  if grep '_test: ' <<<"$targets"; then exit 1; fi
  cmake --build "$work/build" -j 2 --target tiny -- --quiet
  "$work/build/tiny" | grep '^hello from lockstep [0-9]'
  exit
fi
cmake --build "$work/build" -j 2 -- --quiet
"$work/build/app" | grep '^hello from lockstep [0-9].*, 6$'
# Below the torch line nothing loads libtorch.
if ldd "$work/build/small" | grep torch; then exit 1; fi
"$work/build/small" | grep '^hello from lockstep [0-9]'
