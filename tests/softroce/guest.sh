#!/usr/bin/env bash
# Runs in the guest (run.sh): makes the RDMA devices, then the steps named, or all. A line "softroce ..." each on the console; what
# they print is in NOVA_OUT/STEP.log; the status in NOVA_OUT/status: 0 when every step was good.
#
# rxe0 and rxe1 lie on the two ends of a veth pair. Both ends stay in the first network namespace, for Soft-RoCE of this kernel
# receives in no other (docs/rdma.md); rules send what goes from one address to the other over the wire, not through loopback.
set -uo pipefail

ip link set lo up
ip link add v0 type veth peer name v1

# Brings both ends up, with addresses and the rules between them; again after one was down.
wire() {
  local i j from to
  for i in 0 1; do
    j=$((1 - i)) from=10.77.0.$((i + 1)) to=10.77.0.$((2 - i))
    echo 1 >"/proc/sys/net/ipv4/conf/v$i/accept_local"
    echo 0 >"/proc/sys/net/ipv4/conf/v$i/rp_filter"
    ip link set "v$i" mtu 4300 up
    ip addr replace "$from/24" dev "v$i"
    ip neigh replace "$to" lladdr "$(<"/sys/class/net/v$j/address")" dev "v$i"
    ip rule add pref "$((10 + i))" iif lo from "$from" to "$to" lookup "$((100 + i))" 2>/dev/null
    ip rule add pref "$((20 + i))" oif "v$i" lookup "$((100 + i))" 2>/dev/null
  done
  for i in 0 1; do
    from=10.77.0.$((i + 1)) to=10.77.0.$((2 - i))
    ip route replace "$to" dev "v$i" src "$from" table "$((100 + i))"
  done
}
wire
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
echo 100000 >/proc/sys/net/core/netdev_max_backlog  # a long READ's answer comes at once, and is to be lossless
ip rule add pref 100 lookup local
ip rule del pref 0
for i in 0 1; do rdma link add "rxe$i" type rxe netdev "v$i"; done
export NOVA_VERBS_ADDRESS=10.77.0.1 NOVA_VERBS_SERVER=10.77.0.2 NOVA_TEST_PATIENCE=3


status=0
step() { # name limit command...
  local name=$1 limit=$2 begin=$SECONDS code=0
  shift 2
  if [[ $(type -t "$1") == function ]]; then set -- bash -c '"$@"' bash "$@"; fi
  timeout "$limit" "$@" >"$NOVA_OUT/$name.log" 2>&1 || code=$?
  echo "softroce $name: $([[ $code == 0 ]] && echo good || echo "FAILED ($code)") in $((SECONDS - begin)) s: $(
    awk '/^\[  PASSED  \] [0-9]+ test/ { n += $4 } END { if (n) print n, "passed" }' "$NOVA_OUT/$name.log")"
  [[ $code == 0 ]] || { status=1; grep -aE 'FAILED|Failure' -A6 "$NOVA_OUT/$name.log" | cut -c1-200 | head -60 | sed "s/^/softroce $name: /"; }
}

# The tests of a binary, dealt out to as many processes at once: most of them wait.
shards() { # processes command...
  local n=$1 i code=0 pids=()
  shift
  for ((i = 0; i < n; ++i)); do
    GTEST_TOTAL_SHARDS=$n GTEST_SHARD_INDEX=$i "$@" >"$NOVA_OUT/shard.$i" 2>&1 &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i" || code=$?; done
  for ((i = 0; i < n; ++i)); do cat "$NOVA_OUT/shard.$i"; done
  return "$code"
}

# Nothing may be an error here; the guest's clock is nobody's.
doctor() {
  local doctor="$NOVA_BUILD/bin/nova --fabric=verbs doctor" code said
  $doctor --address=10.77.0.1:7450 --fence_test=here
  [[ $? -le 1 ]] || return 1

  # Against the other end of the wire: nobody serves there; one does; one whose link carries less.
  said=$($doctor --address=10.77.0.1:0 --fence_test=10.77.0.2:7460)
  [[ $? -eq 2 ]] && grep -A1 'ERROR    fence test against 10.77.0.2:7460: .*Connection refused' <<<"$said" || return 1
  for mtu in 4300 1500; do
    ip link set v1 mtu "$mtu"
    $doctor --address=10.77.0.2:7460 --fence_serve &
    for ((i = 0; i < 100; i++)); do ss -ltn | grep -q 10.77.0.2:7460 && break; sleep 0.1; done
    said=$($doctor --address=10.77.0.1:0 --fence_test=10.77.0.2:7460)
    code=$?
    grep -E 'far end|fence test' <<<"$said"
    wait $! && [[ $code -le 1 ]] || return 1
    grep -q 'fence test 10.77.0.2:7460 T2, ibv_dereg_mr: refused' <<<"$said" && grep -q 'T1, .*: landed' <<<"$said" &&
      grep -q '; Nova trusts T2' <<<"$said" || return 1
    if [[ $mtu == 4300 ]]; then
      grep -q 'good     far end 10.77.0.2:7460: MTU 4096, here 4096, and a WRITE of that arrives' <<<"$said" || return 1
    else
      grep -q 'warning  far end 10.77.0.2:7460: MTU 1024, here 4096: connections use the lower' <<<"$said" || return 1
    fi
  done
  ip link set v1 mtu 4300

  ip link set v0 mtu 1500
  $doctor --address=10.77.0.1:7450 | grep -A1 'warning  rxe0:1: MTU 1024, the device has 4096' || return 1
  ip link set v0 mtu 4300
  ip link set v0 down
  $doctor --rdma_device=rxe0 | grep -A1 'ERROR    rxe0:1: link down' || return 1
  wire
}

bench() {
  "$NOVA_BUILD/bin/nova_fabric_bench" --fabric=verbs --address=10.77.0.1 --operations=500 || return 1
  command -v ib_write_lat >/dev/null || return 0
  local tool
  for tool in ib_write_lat ib_read_lat ib_write_bw; do
    local flags="-d rxe0 -x 1 -F -n 500 -s $([[ $tool == *_bw ]] && echo 65536 || echo 64)"
    timeout 60 $tool $flags >/dev/null 2>&1 &
    sleep 2
    timeout 60 $tool $flags 10.77.0.1 2>&1 | grep -aE '^ *(#bytes|[0-9]+ )' | sed "s/^/$tool /"
    wait
  done
}
export -f bench doctor shards wire

tests=$NOVA_BUILD/tests
# Of the StoC's tests not those of disks and of bandwidth: they wait, a fabric is no part of them, and the unit tests have them over tcp.
of_disks='*HungDisk*:*Bandwidth*:*Pace*:*DoesNotWaitBehindTheWritesOfTables*'
run_step() {
  case $1 in
    contract) step contract 300 "$tests/rdma/nova_rdma_test" --gtest_filter='*/Verbs' ;;
    verbs) step verbs 400 "$tests/softroce/nova_verbs_test" ;;
    stoc) step stoc 500 shards 3 "$tests/stoc/nova_stoc_test" --gtest_filter="*/Verbs-$of_disks" ;;
    logc) step logc 300 shards 2 "$tests/logc/nova_logc_test" --gtest_filter='*/Verbs' ;;
    doctor) step doctor 120 doctor ;;
    bench) step bench 600 bench ;;  # nova_fabric_bench is built by hand
    cluster) step cluster 600 "$tests/softroce/nova_verbs_cluster_test" ;;
    *) step "$(basename "$1")" 600 bash "$1" ;;  # a script, by hand
  esac
}

[[ $# -gt 0 ]] || set -- doctor contract verbs stoc logc cluster
for name in "$@"; do run_step "$name"; done
dmesg >"$NOVA_OUT/dmesg"
echo "$status" >"$NOVA_OUT/status"
