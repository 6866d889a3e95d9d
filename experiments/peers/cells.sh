#!/usr/bin/env bash
# Every cell of docs/performance.md and performance_history.md in which the embedded engine is measured beside its peers, engines in turn, then one table: medians,
# the ratio to the fastest peer, what is wanted. On an otherwise idle machine; none, log, sync and disk take two
# hours with three runs, 40 minutes with one. Then the tables of the rows that measure something else, medians too:
# cold, beyond-memory, churn, reopen, parked, grid.
#   experiments/peers/cells.sh [--runs=N] [--out=DIR] [--directory=DIR] [ROW...]     default: all rows
# --out (default build/cells) gets a CSV and a log a row; a row whose CSV is there is not run again.
# --directory (default: a new one under /tmp) is on a disk, as root for cold and beyond-memory.
set -euo pipefail
cd "$(dirname "$0")/../.."

runs=3
out=build/cells
on_disk=()
mixes=(none log sync disk)
others=(cold beyond-memory churn reopen parked grid)
rows=()
for argument in "$@"; do
  case $argument in
    --runs=*) runs=${argument#*=} ;;
    --out=*) out=${argument#*=} ;;
    --directory=*) on_disk=("$argument") ;;
    *)
      [[ " ${mixes[*]} ${others[*]} " == *" $argument "* ]] || {
        echo "usage: experiments/peers/cells.sh [--runs=N] [--out=DIR] [--directory=DIR] [ROW...]" >&2
        echo "rows: ${mixes[*]} ${others[*]}" >&2
        exit 2
      }
      rows+=("$argument") ;;
  esac
done
[[ ${#rows[@]} -gt 0 ]] || rows=("${mixes[@]}" "${others[@]}")
peers=build/release/bin/nova_peers
[[ -x $peers ]] || { echo "error: no $peers: deploy/packages.sh --experiments, cmake --preset release, ninja -C build/release nova_peers" >&2; exit 1; }
mkdir -p "$out"

measure() { # csv flags...
  local csv=$out/$1.csv
  shift
  [[ -f $csv ]] && return
  echo "== $csv: $*"
  "$peers" "$@" --runs="$runs" --csv="$csv.new" 2>&1 | tee "${csv%.csv}.log" |
    grep --line-buffered -E ' run |^error|^nova_peers|left out'
  mv "$csv.new" "$csv"
}

for row in "${rows[@]}"; do
  case $row in
    none)
      measure none-reads --workloads=R100,RW50,SW50 --seconds=4 --engines=nova,rocksdb-tuned,rocksdb-mmap,rocksdb-mmap-level0-16,leveldb-small
      measure none-writes --workloads=W100 --seconds=20 --engines=nova,rocksdb-vector-memtable,rocksdb-level0-16,rocksdb-mmap-level0-16,leveldb-big ;;
    log) measure log --log --workloads=RW50,W100 --seconds=6 --engines=nova,rocksdb-tuned,rocksdb-mmap-level0-16,leveldb-big ;;
    sync) measure sync --log --sync --threads=4 --workloads=W100 --seconds=5 --engines=nova,rocksdb-tuned,leveldb-small,leveldb-big ;;
    disk)  # modelled: what lies below it must be faster, whatever the page cache keeps
      below=$(mktemp -d /dev/shm/nova-cells-XXXXXX 2> /dev/null || mktemp -d)
      trap 'rm -rf "$below"' EXIT
      disk=(--directory="$below" --disk_mb_per_second=50 --seconds=60 --skip_seconds=30 --nosettle)
      measure disk-reads "${disk[@]}" --workloads=RW50,SW50 --engines=nova,rocksdb,rocksdb-universal-2-memtables
      measure disk-writes "${disk[@]}" --workloads=W100 --engines=nova,rocksdb,rocksdb-tuned ;;
    beyond-memory)
      measure beyond-memory --cell=beyond-memory "${on_disk[@]}" --workloads=R100,M100,RW50,SW50,W100 ;;
    *) measure "$row" --cell="$row" "${on_disk[@]}" ;;
  esac
done

mix_csvs=()
for csv in "$out"/{none-reads,none-writes,log,sync,disk-reads,disk-writes}.csv; do
  [[ ! -f $csv ]] || mix_csvs+=("$csv")
done
[[ ${#mix_csvs[@]} -eq 0 ]] ||
  printf '\n| | nova | best peer | ratio | wanted | put p99.9 ms, least puts/s |\n|---|---|---|---|---|---|\n'
for csv in "${mix_csvs[@]}"; do
  awk -F, -v row="$(basename "$csv" .csv)" '
    BEGIN {
      split("none-reads R100 uniform 1.1 none-reads R100 ranked 1.0 none-reads RW50 uniform 1.2 none-reads RW50 ranked 1.2 " \
            "none-reads SW50 uniform 1.0 none-reads SW50 ranked 1.5 none-writes W100 uniform 1.5 none-writes W100 ranked 1.5 " \
            "log RW50 uniform 1.2 log RW50 ranked 1.2 log W100 uniform 1.2 log W100 ranked 1.2 sync W100 uniform 1.2 sync W100 ranked 1.2 " \
            "disk-reads RW50 uniform 1.0 disk-reads RW50 ranked 1.2 " \
            "disk-reads SW50 uniform 1.0 disk-reads SW50 ranked 1.2 disk-writes W100 uniform 1.2 disk-writes W100 ranked 1.5", w, " ")
      for (i = 1; i in w; i += 4) wanted[w[i] " " w[i + 1] " " w[i + 2]] = w[i + 3]
    }
    function median(column, cell,    n, i, j, t, v) {
      n = split(values[column, cell], v, " ")
      for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] + 0 < v[j - 1] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
      return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
    }
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    {
      cell = $at["workload"] " " $at["distribution"]
      if (!(cell in seen)) { seen[cell] = 1; cells[++count] = cell }
      engines[$at["engine"]] = 1
      values["kops", cell, $at["engine"]] = values["kops", cell, $at["engine"]] " " $at["kops"]
      values["cpu", cell, $at["engine"]] = values["cpu", cell, $at["engine"]] " " $at["cpu_us"]
      if ($at["engine"] == "nova") {
        if ($at["put_p999_us"] > p999[cell]) p999[cell] = $at["put_p999_us"]
        if (!(cell in least) || $at["least_puts"] + 0 < least[cell]) least[cell] = $at["least_puts"] + 0
      }
    }
    END {
      for (i = 1; i <= count; i++) {
        cell = cells[i]
        best = ""
        for (e in engines) if (e != "nova" && (("kops", cell, e) in values) && (best == "" || median("kops", cell SUBSEP e) > median("kops", cell SUBSEP best))) best = e
        ours = median("kops", cell SUBSEP "nova")
        theirs = median("kops", cell SUBSEP best)
        want = wanted[row " " cell]
        printf "| %s, %s | %.1f (%.1f) | %.1f (%.1f), %s | %s%.2f%s | %s | %.1f, %d |\n", row, cell, ours, median("cpu", cell SUBSEP "nova"), theirs,
               median("cpu", cell SUBSEP best), best, ours / theirs < want ? "**" : "", ours / theirs, ours / theirs < want ? "**" : "", want, p999[cell] / 1000, least[cell]
      }
    }' "$csv"
done
for row in "${others[@]}"; do
  [[ ! -f $out/$row.csv ]] || printf '\n%s\n' "$(grep -v '^  ' "$out/$row.log")"
done
