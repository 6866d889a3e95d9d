#!/usr/bin/env bash
# Installs, builds and runs every test; ends with ctest's summary. Works on a fresh Debian 12.
#   tests/run.sh            everything but the slow parts
#   tests/run.sh --long     with them (label "long")
# Two builds: asan (AddressSanitizer and UBSan, assertions on) runs the unit tests, release runs the programs: clusters, YCSB.
set -euo pipefail
cd "$(dirname "$0")/.."

long=0
for argument in "$@"; do
  case $argument in
    --long) long=1 ;;
    *) echo "usage: tests/run.sh [--long]" >&2; exit 2 ;;
  esac
done

deploy/packages.sh --test
jobs=$(nproc)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

build() { # preset targets...
  local preset=$1
  shift
  echo "== building ($preset)"
  cmake --preset "$preset" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  ninja -C "build/$preset" -j "$jobs" "$@" >"$log" 2>&1 || { grep -E -m4 -A20 'FAILED|error:' "$log" >&2; exit 1; }
}

build release nova_programs nova_cluster_tests
echo "== building the YCSB binding (its own tests run)"
(cd client/ycsb && mvn -q -B package >"$log" 2>&1) || { tail -40 "$log" >&2; exit 1; }
build asan nova_unit_tests

echo "== unit tests (asan, ubsan)"
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1
ctest --test-dir build/asan -L '^unit$' -j "$jobs" --output-on-failure --no-tests=error >"$log" 2>&1 || { grep -vE ' Passed |Start ' "$log" | tail -n 300; exit 1; }
tail -n 8 "$log"

echo "== clusters of processes, YCSB (release)"
labels=cluster
[[ $long == 1 ]] && labels='cluster|long'
ctest --test-dir build/release -L "^($labels)\$" --output-on-failure --no-tests=error
