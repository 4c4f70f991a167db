#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# torchrun_test.sh HELLO_RANKS ...: the real torchrun starts a program of ours.
set -euo pipefail
hello=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work  # torchrun's own logs
unset LOCKSTEP_SECRET LOCKSTEP_STORE RANK WORLD_SIZE
# Debian 12's torchrun and Python 3.11 disagree about the default of -r and -t;
# a rank that does not exist keeps both quiet.
/usr/bin/torchrun --standalone --nproc_per_node 3 -r 9:1 -t 9:1 --no_python \
  "$hello" | tee "$work/out"
grep -q "all 3 ranks have met (started by torchrun)" "$work/out"
