#!/usr/bin/env bash
# Runs every fuzz target for some seconds, from a corpus that is kept in build/clang/corpus; ends at the first finding.
#   tests/fuzz/run.sh [SECONDS]   (10)
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-10}
command -v clang++ >/dev/null || { echo "error: clang is needed: apt-get install clang" >&2; exit 2; }
cmake --preset clang >/dev/null
mapfile -t targets < <(sed -n 's/^nova_fuzzer(\([a-z_]*\) .*/\1/p' tests/fuzz/CMakeLists.txt)
ninja -C build/clang "${targets[@]}"
for target in "${targets[@]}"; do
  mkdir -p "build/clang/corpus/$target"
  log=build/clang/$target.log
  if ! build/clang/fuzz/"$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -artifact_prefix="build/clang/$target-" \
    "build/clang/corpus/$target" >"$log" 2>&1; then
    tail -40 "$log" >&2
    echo "error: $target (log: $log)" >&2
    exit 1
  fi
  echo "$target: $(grep -E 'DONE' "$log")"
done
