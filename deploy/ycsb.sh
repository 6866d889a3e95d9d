#!/usr/bin/env bash
# Runs one phase of a YCSB workload through the Nova binding, by YCSB's own client; prints its summary. Exit code 1: operations
# failed (with another outcome than OK or NOT_FOUND), or none was done.
#   deploy/ycsb.sh load|run a..f [--coordinators=host:port] [--records=N] [--operations=N] [--threads=N] [-p key=value ...]
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "error: $*" >&2; exit 2; }

phase=${1:-} workload=${2:-}
case $phase in load|run) ;; *) fail "the first argument must be load or run" ;; esac
case $workload in [a-f]) ;; *) fail "the second argument must be a workload, a to f" ;; esac
shift 2
coordinators=${NOVA_COORDINATORS:-127.0.0.1:7401} records=100000 operations=100000 threads=16 build=build/release
extra=()
while (($#)); do
  case $1 in
    --coordinators=*) coordinators=${1#*=} ;;
    --records=*) records=${1#*=} ;;
    --operations=*) operations=${1#*=} ;;
    --threads=*) threads=${1#*=} ;;
    --build=*) build=${1#*=} ;;
    -p) extra+=(-p "$2"); shift ;;
    *) fail "unknown argument $1" ;;
  esac
  shift
done
[[ -f client/ycsb/target/nova-binding-0.17.0.jar ]] || fail "the binding is not built: (cd client/ycsb && mvn package)"
[[ -f $build/lib/libnova_client.so ]] || fail "$build/lib/libnova_client.so is not built"
[[ $phase == load ]] && mode=-load || mode=-t
status=0
java -Djna.library.path="$build/lib" -cp 'client/ycsb/target/*:client/ycsb/target/dependency/*' site.ycsb.Client "$mode" \
  -db site.ycsb.db.nova.NovaClient -P "deploy/workloads/workload$workload" -p nova.coordinators="$coordinators" \
  -p recordcount="$records" -p operationcount="$operations" -threads "$threads" -s ${extra[@]+"${extra[@]}"} \
  2> >(grep -v "^DBWrapper:" >&2) | awk '
    { print; fflush() }
    /^\[OVERALL\], Throughput\(ops\/sec\), [0-9.]+/ { throughput = $3 + 0 }
    /^\[[A-Z-]+\], Return=/ { if ($2 ~ /^Return=OK,/) good += $3; else if ($2 !~ /^Return=NOT_FOUND,/) bad += $3 }
    END {
      if (throughput > 0 && good > 0 && !bad) exit 0
      if (bad) print "error: " bad " operations failed" >"/dev/stderr"
      else print "error: the run had no throughput" >"/dev/stderr"
      exit 1
    }' || status=$?
exit $status
