#!/usr/bin/env bash
# How long a range is opened whose owner died with a full log: a cluster on this machine, one range, memtables
# and StoC memory so large that nothing is flushed meanwhile. RECORDS puts of 8 bytes; the owner is killed with
# -9; another LTC reads the log from StoC memory and writes it to tables. Prints what that LTC says of it.
# The time until somebody opens (the lease of the dead) is not counted.
#
#   experiments/reopen_range/run.sh [RECORDS [RUNS]]     (3000000 1); build/release is made by deploy/quickstart.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
records=${1:-3000000} runs=${2:-1}
dir=build/reopen_range
port_base=7700
quickstart() { deploy/quickstart.sh "$@" --dir=$dir >>"$dir.log" 2>&1; }

for ((run = 1; run <= runs; run++)); do
  rm -rf "$dir"
  : >"$dir.log"
  quickstart --no_ycsb --port_base=$port_base --ranges=1 --log_mode=memory --memtable_limit_mb=4000 \
    --ltc_flag=--memtable_mb=1024 --stoc_flag=--log_memory_mb=2048
  trap 'quickstart clean' EXIT
  coordinators=127.0.0.1:$((port_base + 1))
  build/release/bin/nova --coordinators=$coordinators bench LOAD --records="$records" --value_bytes=8 \
    --threads=16 >>"$dir.log"
  owner=$(build/release/bin/nova --coordinators=$coordinators status | grep -oE 'ltc-[0-9]+' | sort | uniq -c | sort -rn |
    awk 'NR == 1 { print $2 }')
  kill -9 "$(cat $dir/"$owner"/pid)"
  for ((tenths = 0; tenths < 1200; tenths++)); do
    if line=$(grep -rhoE 'range 1 open at epoch [2-9].*' $dir/ltc-*/ 2>/dev/null | tail -1) && [[ -n $line ]]; then break; fi
    sleep 0.1
  done
  echo "run $run, $records records: ${line:-the range was not opened in two minutes}"
  quickstart clean
  trap - EXIT
done
