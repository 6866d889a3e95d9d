#!/usr/bin/env bash
# Start-up service of a host of profile.py: packages, and IP over InfiniBand at the address given, which RDMA connections are made by.
#   deploy/cloudlab/setup.sh [ADDRESS]
set -euo pipefail
"$(dirname "$0")/../packages.sh" --node
[[ $# -eq 0 ]] && exit 0
modprobe ib_ipoib
for interface in /sys/class/net/ib*; do
  [[ -e $interface ]] || { echo "error: no InfiniBand interface: ibv_devinfo says how the ports are set up" >&2; exit 2; }
  ip link set "${interface##*/}" up
  ip address replace "$1/24" dev "${interface##*/}"
  exit 0
done
