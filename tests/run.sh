#!/usr/bin/env bash
# Installs, builds and runs every test; ends with what was skipped, a failure but for tests/may_skip, and what red tests printed.
# Works on a fresh Debian 12. A build that fails ends it; a red test does not.
#   tests/run.sh            everything but the slow parts
#   tests/run.sh --long     with them (label "long")
# Two builds: asan (AddressSanitizer and UBSan, assertions on) runs the unit tests and one test of processes
# that are killed, release runs the programs: clusters, YCSB. --long has two more: tsan (ThreadSanitizer) runs the
# unit tests again, release many more seeds of the chaos, clang the fuzz targets, with a fuzzer, for 20 s each.
set -euo pipefail
cd "$(dirname "$0")/.."

long=0
for argument in "$@"; do
  case $argument in
    --long) long=1 ;;
    *) echo "usage: tests/run.sh [--long]" >&2; exit 2 ;;
  esac
done

stage() { printf '== %4d s: %s\n' "$SECONDS" "$*"; }

stage "packages"
deploy/packages.sh --test
jobs=$(nproc)
at_once=$((jobs + (jobs + 1) / 2))  # tests: many wait more than they compute
log=$(mktemp)
skipped=$(mktemp)
failures=$(mktemp)
trap 'rm -f "$log" "$skipped" "$failures"' EXIT

# Tests take the standard headers parsed once, and so does all that asan and tsan build; the libraries of release do not, so
# that a source of theirs that lacks an include is found here.
build() { # preset targets...
  local preset=$1 headers=ALL
  shift
  [[ $preset == release ]] && headers=TESTS
  stage "building ($preset)"
  cmake --preset "$preset" -DNOVA_BUILD_TESTS=ON -DNOVA_PRECOMPILED_HEADERS="$headers" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  ninja -C "build/$preset" -j "$jobs" "$@" >"$log" 2>&1 || { grep -E -m4 -A20 'FAILED|error:' "$log" >&2; exit 1; }
}

long_tests=()
[[ $long == 1 ]] && long_tests=(nova_long_tests)
build release nova_programs nova_cluster_tests "${long_tests[@]}"
stage "building the YCSB binding (its own tests run)"
(cd client/ycsb && mvn -q -B package >"$log" 2>&1) || { tail -40 "$log" >&2; exit 1; }
stage "format and locks (clang)"
find common coordinator stoc logc ltc client experiments tests -name '*.h' -o -name '*.cc' | xargs -P "$jobs" -n 100 clang-format --dry-run -Werror
tests/tidy/thread_safety.py build/release
build asan nova_unit_tests nova_programs nova_linear_kill_test

# Runs tests of a build, and notes which were skipped, and why, and what the red ones printed, for the end.
run_tests() { # preset ctest-arguments...
  local preset=$1
  shift
  ctest --test-dir "build/$preset" --no-tests=error "$@" || red=1
  awk '/ Testing: / { name = $3 }
       /: Skipped$/ { if ((getline reason) <= 0 || reason == "") reason = "no reason"; print name ": " reason; next }
       /^\[  SKIPPED \] / { print name ": skipped" }' \
    "build/$preset/Testing/Temporary/LastTest.log" | awk -F: '!seen[$1]++' >>"$skipped"
  awk -v preset="$preset" '/ Testing: / { name = $3; n = 0 }
       { line[n++] = $0 }
       /^Test Failed\.$/ { print "== red: " name " (" preset ")"; for (i = n > 104 ? n - 104 : 4; i < n - 4; ++i) print line[i] }' \
    "build/$preset/Testing/Temporary/LastTest.log" >>"$failures"
}

unit_tests() { # preset
  stage "unit tests ($1)"
  run_tests "$1" -L '^unit$' -j "$at_once" >"$log" 2>&1
  tail -n 8 "$log"
}

red=0
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:exitcode=99 UBSAN_OPTIONS=print_stacktrace=1
unit_tests asan
stage "processes that are killed (asan)"
run_tests asan -R '^LinearKillTest'

stage "clusters of processes, YCSB, rules of the tree (release)"
labels='cluster|tidy'
[[ $long == 1 ]] && labels+='|long' && export NOVA_CONTROLS=all
run_tests release -L "^($labels)\$" -E '^LinearKillTest' -j "$at_once"

if [[ $long == 1 ]]; then
  build tsan nova_unit_tests
  unit_tests tsan
  build release nova_cluster_sim_test
  stage "5,000 seeds of the chaos (release)"
  NOVA_SIM_SEEDS=5000 NOVA_SIM_JOBS=$(nproc) build/release/tests/cluster_sim/nova_cluster_sim_test --gtest_filter='ChaosTest.*' || red=1
  stage "fuzzing (clang)"
  deploy/packages.sh --fuzz
  tests/fuzz/run.sh 20 || red=1
fi

[[ -s $skipped ]] && printf 'skipped:\n' && sed 's/^/  /' "$skipped"
if grep -vEf <(grep -vE '^(#|$)' tests/may_skip) "$skipped" >"$log"; then
  echo "error: tests were skipped that tests/may_skip does not name:" >&2
  sed 's/^/  /' "$log" >&2
  red=1
fi
cat "$failures" >&2
[[ $red == 0 ]] || { stage "red" >&2; exit 1; }
stage "done"
