#!/usr/bin/env bash
# Runs in the guest (run.sh): makes the RDMA devices, then the steps named, or all. A line "softroce ..." each on the console; what
# they print is in NOVA_OUT/STEP.log; the status in NOVA_OUT/status: 0 when every step was good.
#
# rxe0 and rxe1 lie on the two ends of a veth pair. Both ends stay in the first network namespace, for Soft-RoCE of this kernel
# receives in no other (docs/rdma.md); rules send what goes from one address to the other over the wire, not through loopback.
set -uo pipefail

ip link set lo up
ip link add v0 type veth peer name v1
for i in 0 1; do
  j=$((1 - i)) from=10.77.0.$((i + 1)) to=10.77.0.$((2 - i))
  echo 1 >"/proc/sys/net/ipv4/conf/v$i/accept_local"
  echo 0 >"/proc/sys/net/ipv4/conf/v$i/rp_filter"
  ip link set "v$i" mtu 4300 up
  ip addr add "$from/24" dev "v$i"
  ip neigh replace "$to" lladdr "$(<"/sys/class/net/v$j/address")" dev "v$i"
  ip route add "$to" dev "v$i" src "$from" table "$((100 + i))"
  ip rule add pref "$((10 + i))" iif lo from "$from" to "$to" lookup "$((100 + i))"
  ip rule add pref "$((20 + i))" oif "v$i" lookup "$((100 + i))"
done
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
echo 100000 >/proc/sys/net/core/netdev_max_backlog  # a long READ's answer comes at once, and is to be lossless
ip rule add pref 100 lookup local
ip rule del pref 0
for i in 0 1; do rdma link add "rxe$i" type rxe netdev "v$i"; done
export NOVA_VERBS_ADDRESS=10.77.0.1 NOVA_VERBS_SERVER=10.77.0.2


status=0
step() { # name limit command...
  local name=$1 limit=$2 begin=$SECONDS code=0
  shift 2
  timeout "$limit" "$@" >"$NOVA_OUT/$name.log" 2>&1 || code=$?
  echo "softroce $name: $([[ $code == 0 ]] && echo good || echo "FAILED ($code)") in $((SECONDS - begin)) s: $(grep -aE '^\[  (PASSED|FAILED)' "$NOVA_OUT/$name.log" | head -1)"
  [[ $code == 0 ]] || { status=1; grep -aE 'FAILED|Failure' -A6 "$NOVA_OUT/$name.log" | cut -c1-200 | head -60 | sed "s/^/softroce $name: /"; }
}

tests=$NOVA_BUILD/tests
run_step() {
  case $1 in
    contract) step contract 300 "$tests/rdma/nova_rdma_test" --gtest_filter='*/Verbs' ;;
    verbs) step verbs 400 "$tests/softroce/nova_verbs_test" ;;
    stoc) step stoc 300 "$tests/stoc/nova_stoc_test" --gtest_filter='*/Verbs' ;;
    logc) step logc 300 "$tests/logc/nova_logc_test" --gtest_filter='*/Verbs' ;;
    cluster) step cluster 600 "$tests/softroce/nova_verbs_cluster_test" ;;
    *) step "$(basename "$1")" 600 bash "$1" ;;  # a script, by hand
  esac
}

[[ $# -gt 0 ]] || set -- contract verbs stoc logc cluster
for name in "$@"; do run_step "$name"; done
dmesg >"$NOVA_OUT/dmesg"
echo "$status" >"$NOVA_OUT/status"
