#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mpirun_test.sh HELLO_RANKS ...: the real mpirun starts a program of ours.
set -euo pipefail
hello=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 700 "$work"
export XDG_RUNTIME_DIR=$work OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset LOCKSTEP_SECRET LOCKSTEP_STORE RANK WORLD_SIZE
for ranks in 1 3; do
  mpirun --oversubscribe -n "$ranks" "$hello" | tee "$work/out"
  grep -q "all $ranks ranks have met (started by Open MPI)" "$work/out"
done
# The last rank takes the store's file along.
if find "$work" -name 'lockstep-*' | grep .; then
  echo "a store file was left behind"
  exit 1
fi
