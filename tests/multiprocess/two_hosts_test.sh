#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# two_hosts_test.sh HELLO_RANKS LOCKSTEP LAUNCH_WORKER: two launchers on two
# hosts, which are network namespaces joined by a cable (veth).
set -euo pipefail
hello=$1 lockstep=$2 worker=$3
work=$(mktemp -d)
a=lsa$$ b=lsb$$
clean_up() {
  jobs -p | xargs -r kill -9 2>/dev/null || true
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT
if ! { ip netns add "$a" && ip netns add "$b"; } 2>"$work/why"; then
  cat "$work/why"
  echo "NETWORK NAMESPACES ARE NOT ALLOWED HERE: two hosts were not tested"
  [ "${LOCKSTEP_NO_NAMESPACES:-}" = 1 ] && exit 77
  echo "set LOCKSTEP_NO_NAMESPACES=1 to accept that"
  exit 1
fi
ip -n "$a" link add cable type veth peer name cable netns "$b"
ip -n "$a" addr add 10.87.0.1/24 dev cable
ip -n "$b" addr add 10.87.0.2/24 dev cable
for host in "$a" "$b"; do
  ip -n "$host" link set lo up
  ip -n "$host" link set cable up
done
(umask 077 && head -c 32 /dev/urandom | base64 >"$work/secret")

# both TIMEOUT PROGRAM...: a launcher on each host; their exit codes in
# code_a and code_b, what they print in out_a and out_b.
both() {
  local timeout=$1
  shift
  local options=(--nnodes 2 --rendezvous 10.87.0.1:7000 -n 2 --grace 1
    --secret-file "$work/secret" --timeout "$timeout")
  ip netns exec "$a" timeout 60 "$lockstep" run "${options[@]}" --node-rank 0 \
    "${extra_a[@]}" -- "$@" >"$work/out_a" 2>&1 &
  local pid_a=$!
  ip netns exec "$b" timeout 60 "$lockstep" run "${options[@]}" --node-rank 1 \
    "${extra_b[@]}" -- "$@" >"$work/out_b" 2>&1 &
  local pid_b=$!
  code_a=0 code_b=0
  wait "$pid_a" || code_a=$?
  wait "$pid_b" || code_b=$?
  out_a=$(cat "$work/out_a") out_b=$(cat "$work/out_b")
}
expect() {  # expect WHAT COMMAND...
  local what=$1
  shift
  if ! "$@"; then
    printf 'not so: %s\n-- a (%s)\n%s\n-- b (%s)\n%s\n' "$what" "$code_a" \
      "$out_a" "$code_b" "$out_b"
    exit 1
  fi
}
extra_a=() extra_b=()

both 60 "$hello"
expect "both hosts succeed" [ "$code_a$code_b" = 00 ]
expect "four ranks meet" grep -q "all 4 ranks have met" <<<"$out_a"
expect "ranks count on" grep -q "rank 3 of 4" <<<"$out_a"

# A rank of either host dies: both launchers end, with its code and its name.
for rank in 0 3; do
  both 60 "$worker" fail exit "$rank" after
  expect "both give its exit code" [ "$code_a$code_b" = 33 ]
  for out in "$out_a" "$out_b"; do
    expect "both name rank $rank" \
      grep -q "rank $rank failed: exited with code 3" <<<"$out"
  done
done

# A failing round starts again on both.
extra_a=(--max-restarts 1) extra_b=(--max-restarts 1)
both 60 "$worker" flaky 1
expect "the second round succeeds" [ "$code_a$code_b" = 00 ]
expect "it starts again" grep -q "starting again" <<<"$out_b"
extra_a=() extra_b=()

# The hosts disagree on how many they are.
extra_b=(--nnodes 3)
both 3 "$hello"
expect "different --nnodes are told" \
  grep -q -- "--nnodes" <<<"$out_a$out_b"
expect "and nobody succeeds" [ "$code_a" != 0 -a "$code_b" != 0 ]
extra_b=()

# A host that never joins is named.
ip netns exec "$a" "$lockstep" run --nnodes 2 --node-rank 0 -n 1 --timeout 1 \
  --rendezvous 10.87.0.1:7000 --secret-file "$work/secret" -- "$hello" \
  >"$work/alone" 2>&1 && { echo "succeeded alone"; exit 1; }
grep -q "node rank 1 of 2 had not joined" "$work/alone" || {
  cat "$work/alone"
  exit 1
}

# Two launchers with the same node rank: the second is told.
ip netns exec "$a" timeout 20 "$lockstep" run --nnodes 3 --node-rank 0 -n 1 \
  --timeout 5 --rendezvous 10.87.0.1:7000 --secret-file "$work/secret" -- \
  "$hello" >/dev/null 2>&1 &
for second in 1 2; do
  ip netns exec "$b" timeout 20 "$lockstep" run --nnodes 3 --node-rank 1 -n 1 \
    --timeout 5 --rendezvous 10.87.0.1:7000 --secret-file "$work/secret" -- \
    "$hello" >"$work/twin$second" 2>&1 &
done
wait
grep -q "has --node-rank 1 already" "$work/twin1" "$work/twin2" || {
  cat "$work/twin1" "$work/twin2"
  exit 1
}
echo "two hosts work and fail as one"
