#!/usr/bin/env bash
# Runs fuzz targets for some seconds each, one a core at a time, from a corpus that is kept in build/clang/corpus; ends at the first
# finding. COUNT: only so many targets, drawn anew in each run; NOVA_FUZZ_SEED=n draws those that a run has printed n for.
#   tests/fuzz/run.sh [SECONDS [COUNT]]   (10, all)
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-10}
command -v clang++ >/dev/null || { echo "error: clang is needed: apt-get install clang" >&2; exit 2; }
cmake --preset clang >/dev/null
mapfile -t targets < <(sed -n 's/^nova_fuzzer(\([a-z_]*\) .*/\1/p' tests/fuzz/CMakeLists.txt)
if [[ -n ${2:-} ]]; then
  seed=${NOVA_FUZZ_SEED:-$RANDOM}
  mapfile -t targets < <(printf '%s\n' "${targets[@]}" | shuf -n "$2" --random-source=<(yes "$seed"))
  echo "NOVA_FUZZ_SEED=$seed: ${targets[*]}"
fi
build=$(mktemp)
trap 'rm -f "$build"' EXIT
ninja -C build/clang "${targets[@]}" >"$build" 2>&1 || { grep -E -m4 -A20 'FAILED|error:' "$build" >&2; exit 1; }

run_one() { # target
  mkdir -p "build/clang/corpus/$1"
  local log=build/clang/$1.log
  if ! "build/clang/fuzz/$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -artifact_prefix="build/clang/$1-" \
    "build/clang/corpus/$1" >"$log" 2>&1; then
    tail -40 "$log" >&2
    echo "error: $1 (log: $log)" >&2
    exit 255  # xargs starts no other
  fi
  echo "$1: $(grep -E 'DONE' "$log")"
}
export -f run_one
export seconds
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'run_one {}'
