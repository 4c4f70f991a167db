# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of lockstep's command line for bash. It is installed where
# bash-completion looks; without bash-completion, source it in ~/.bashrc.

# What `lockstep run` knows; those in the second list take a value.
_lockstep_run_flags="-h --help --prefix --no-prefix --dry-run"
_lockstep_run_options="-n --ranks --bind --threads --env --backend
  --max-restarts --grace --log-dir --nnodes --node-rank --rendezvous
  --secret-file --timeout"

# The same of `lockstep bench`, and what it measures.
_lockstep_bench_flags="-h --help --registered --sync --async --check --no-check"
_lockstep_bench_options="-n --ranks --backend --bind --bytes --step --dtype --op
  --root --iterations --warmup --timeout --json"
_lockstep_collectives="all_reduce broadcast reduce all_gather gather scatter
  reduce_scatter all_to_all barrier sendrecv"

# _lockstep_words CURRENT WORDS: those that begin like CURRENT.
_lockstep_words() {
  mapfile -t COMPREPLY < <(compgen -W "$2" -- "$1")
}

# _lockstep_paths CURRENT -f|-d|-c...: files, directories, commands.
_lockstep_paths() {
  local current=$1
  shift
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$@" -- "$current")
}

# _lockstep_takes_value OPTION [OPTIONS]: by default those of run.
_lockstep_takes_value() {
  local options=${2-$_lockstep_run_options}
  [[ " ${options//$'\n'/ } " == *" $1 "* ]]
}

# Sets `current` to the word to complete and `option` to the one before; of
# --bind=core, bash makes three words.
_lockstep_current_words() {
  current=${COMP_WORDS[COMP_CWORD]}
  option=${COMP_WORDS[COMP_CWORD - 1]}
  if [[ $current == "=" ]]; then
    current=""
  elif [[ $option == "=" ]]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  fi
}

# Sets `program` to where the program stands among the words before the
# current one, or to the current one after `--`; leaves it 0 if there is none.
_lockstep_find_program() {
  local i
  for ((i = 2; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --)
        program=$((i + 1))
        return
        ;;
      -*)
        if _lockstep_takes_value "${COMP_WORDS[i]}"; then
          # bash makes three words of --bind=core.
          [[ ${COMP_WORDS[i + 1]} == "=" ]] && ((i++))
          ((i++))
        fi
        ;;
      *)
        program=$i
        return
        ;;
    esac
  done
}

# _lockstep_program INDEX: the program and its arguments.
_lockstep_program() {
  local current=${COMP_WORDS[COMP_CWORD]}
  if declare -F _comp_command_offset >/dev/null; then
    _comp_command_offset "$1"
  elif declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif ((COMP_CWORD == $1)); then
    _lockstep_paths "$current" -c -f
  else
    _lockstep_paths "$current" -f
  fi
}

# _lockstep_value CURRENT OPTION
_lockstep_value() {
  case $2 in
    -n | --ranks) _lockstep_words "$1" "auto" ;;
    --bind) _lockstep_words "$1" "core numa none" ;;
    --backend) _lockstep_words "$1" "auto shm gloo local" ;;
    --dtype)
      _lockstep_words "$1" "float32 float64 float16 bfloat16 int8 uint8 int16
        int32 int64 bool"
      ;;
    --op)
      _lockstep_words "$1" "sum average product min max band bor bxor
        premul_sum"
      ;;
    --secret-file | --json) _lockstep_paths "$1" -f ;;
    --log-dir) _lockstep_paths "$1" -d ;;
  esac
}

_lockstep_run() {
  local program=0
  _lockstep_find_program
  if ((program > 0)); then
    _lockstep_program "$program"
    return
  fi
  local current option
  _lockstep_current_words
  if _lockstep_takes_value "$option"; then
    _lockstep_value "$current" "$option"
  elif [[ -z $current || $current == -* ]]; then
    _lockstep_words "$current" "$_lockstep_run_flags $_lockstep_run_options --"
  else
    _lockstep_program "$COMP_CWORD"
  fi
}

_lockstep_bench() {
  local current option
  _lockstep_current_words
  if _lockstep_takes_value "$option" "$_lockstep_bench_options"; then
    _lockstep_value "$current" "$option"
  elif [[ $current == -* ]]; then
    _lockstep_words "$current" "$_lockstep_bench_flags $_lockstep_bench_options"
  else
    _lockstep_words "$current" "$_lockstep_collectives"
  fi
}

_lockstep() {
  COMPREPLY=()
  local current=${COMP_WORDS[COMP_CWORD]}
  if ((COMP_CWORD == 1)); then
    _lockstep_words "$current" "run info bench -h --help --version"
  elif [[ ${COMP_WORDS[1]} == run ]]; then
    _lockstep_run
  elif [[ ${COMP_WORDS[1]} == bench ]]; then
    _lockstep_bench
  elif [[ ${COMP_WORDS[1]} == info ]]; then
    _lockstep_words "$current" "-h --help"
  fi
}

complete -F _lockstep lockstep
