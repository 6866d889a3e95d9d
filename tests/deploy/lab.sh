# Sourced by run.sh inside its namespaces: makes the nodes, runs each playbook and looks at what it did.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
playbooks=$here/../../deploy/ansible
build=$1
out=$build/deploy_test
rm -rf "$out"
mkdir -p "$out"
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /run
lab=/run/lab
mkdir -p "$lab" /run/sshd /run/netns

fail() { echo "deploy: FAILED: $*" >&2; exit 1; }
say() { printf 'deploy: %3d s: %s\n' "$SECONDS" "$*"; }

# --- nodes
nodes=(a b c d)
ip link set lo up
ip link add lab type bridge
ip addr add 10.79.0.1/24 dev lab
ip link set lab up
ssh-keygen -q -t ed25519 -N '' -f "$lab/key"
for i in "${!nodes[@]}"; do
  node=${nodes[$i]} address=10.79.0.$((11 + i)) dir=$lab/${nodes[$i]}
  mkdir -p "$dir"/{upper,work,root}
  ssh-keygen -q -t ed25519 -N '' -f "$dir/host_key"
  cp "$lab/key.pub" "$dir/authorized_keys"
  echo "$address $(cut -d' ' -f1,2 "$dir/host_key.pub")" >>"$lab/known_hosts"
  ip netns add "$node"
  ip link add "v-$node" type veth peer name eth0 netns "$node"
  ip link set "v-$node" master lab up
  ip -n "$node" addr add "$address/24" dev eth0
  ip -n "$node" link set eth0 up
  (
    for hierarchy in $NOVA_LAB_CGROUPS; do  # a tree of its own for its systemd
      mkdir "/sys/fs/cgroup/$hierarchy/$NOVA_LAB-$node"
      echo "$BASHPID" >"/sys/fs/cgroup/$hierarchy/$NOVA_LAB-$node/cgroup.procs"
    done
    exec ip netns exec "$node" unshare --mount --pid --fork --kill-child --uts --ipc --cgroup bash "$here/node.sh" "$dir"
  ) >"$out/boot-$node.log" 2>&1 &
done
cat >"$lab/inventory" <<INVENTORY
[all:vars]
ansible_user=root
ansible_ssh_private_key_file=$lab/key
ansible_ssh_common_args=-o UserKnownHostsFile=$lab/known_hosts
nova_build_dir=$build
nova_results_dir=$out/results
nova_fabric=tcp
nova_ranges=8
nova_zookeeper_heap_mb=128
nova_lock_mb=64
nova_stoc_data=/srv/disk
nova_stoc_flags=--log_memory_mb=128 --file_buffer_mb=32
nova_ltc_flags=--memtable_limit_mb=128 --block_cache_mb=32
[zookeeper]
a ansible_host=10.79.0.11
b ansible_host=10.79.0.12
c ansible_host=10.79.0.13
[coordinator]
a
[stoc]
a
b
c
[ltc]
b
c
[client]
d ansible_host=10.79.0.14
INVENTORY

on() { # node command...
  local i
  for i in "${!nodes[@]}"; do [[ ${nodes[$i]} == "$1" ]] && local address=10.79.0.$((11 + i)); done
  shift
  ssh -n -o BatchMode=yes -o UserKnownHostsFile="$lab/known_hosts" -i "$lab/key" "root@$address" "$@"
}
for node in "${nodes[@]}"; do
  for ((tries = 0; tries < 300; tries++)); do on "$node" true 2>/dev/null && break; sleep 0.1; done
  on "$node" true || fail "node $node: $(tail -3 "$out/boot-$node.log")"
done

play() { # playbook [arguments]: what it printed goes to OUT/playbook.log
  local name=$1 code=0
  shift
  (cd "$playbooks" && HOME=$lab ANSIBLE_NOCOLOR=1 ansible-playbook -i "$lab/inventory" "$name.yml" "$@" 2>&1 |
    while IFS= read -r line; do printf '%4d %s\n' "$SECONDS" "$line"; done >"$out/$name.log") || code=$?
  say "$name $*: $code"
  return "$code"
}
must() { play "$@" || { grep -E -A12 'fatal:|FAILED|ERROR' "$out/$1.log" | cut -c1-1500 | head -40 >&2; fail "$1.yml"; }; }
unchanged() { ! grep -E 'changed=[1-9]' "$out/$1.log" || fail "$1.yml a second time changed something: $(grep -m3 'changed:' "$out/$1.log")"; }
nova() { on d nova --coordinators=10.79.0.11:7401 --fabric=tcp "$@"; }
count() { # node pattern: processes whose command line has it
  local args
  args=$(on "$1" "ps -eo args") || { echo "no answer"; return; }
  grep -cE "$2" <<<"$args" || true  # none is no failure
}

# --- install, start, check
must site
for node in b c; do
  for unit in nova-zookeeper "nova-stoc@stoc-$node" "nova-ltc@ltc-$node"; do
    [[ $(on "$node" systemctl is-active "$unit") == active ]] || fail "$unit on $node is not active"
  done
done
[[ $(on b systemctl show -p NRestarts --value nova-ltc@ltc-b) == 0 ]] || fail "ltc-b needed restarts to come up: $(on b journalctl -u nova-ltc@ltc-b -n 20)"
lockable=$(bash -c 'ulimit -l unlimited' 2>/dev/null && echo unlimited || ulimit -Hl)  # in KiB: all there is to give on this machine
[[ $lockable == unlimited ]] && bytes=unlimited || bytes=$((lockable * 1024))
on b 'cat /proc/$(pgrep -x nova_ltc)/limits' | grep -qE "^Max locked memory +$bytes +$bytes" || fail "the LTC may not lock $bytes of memory"
[[ $(on b ps -o user= -C nova_stoc) == nova ]] || fail "nova_stoc does not run as nova"
on b test -d /srv/disk/stoc-b || fail "stoc-b does not keep its files where nova_stoc_data says"
[[ $(on d ulimit -l) == "$lockable" ]] || fail "a login on d may not lock memory"
# --- a node that dies is started again, and the cluster is whole again
on c 'kill -9 $(pgrep -x nova_stoc)'
for ((tries = 0; tries < 200; tries++)); do [[ $(on c pgrep -cx nova_stoc) == 1 ]] && break; sleep 0.2; done
((tries < 200)) || fail "stoc-c was not started again"
must install
unchanged install

# --- bench, collect
must bench -e nova_bench=nova -e nova_workload=RW50 -e nova_records=2000 -e nova_operations=5000 -e nova_threads=4
must bench -e nova_workload=a -e nova_records=2000 -e nova_operations=5000 -e nova_threads=4
must collect
for name in nova-RW50-load nova-RW50-run ycsb-a-load ycsb-a-run; do
  grep -qE "^$name: [1-9][0-9]* ops/s from 1 client" "$out/results/summary.txt" || fail "no line of $name in summary.txt: $(cat "$out/results/summary.txt")"
done
for chart in throughput latency; do grep -q '</svg>' "$out/results/$chart.svg" || fail "$chart.svg was not drawn"; done
for log in a/nova-coordinator@coordinator-a b/nova-stoc@stoc-b c/nova-ltc@ltc-c a/nova-zookeeper; do
  [[ -s $out/results/$log.log ]] || fail "no log $log"
done

# --- stop
nova put fruit/apple sweet
must stop
for node in "${nodes[@]}"; do
  [[ $(count "$node" '^/usr/bin/(nova|java)') == 0 ]] || fail "processes on $node after stop: $(on "$node" ps -eo args)"
done

# --- as after a power failure: everything at once, and ZooKeeper only when the others have given up on it once; what was written is there
on a systemctl start --no-block nova-coordinator@coordinator-a nova-stoc@stoc-a
for node in b c; do on "$node" systemctl start --no-block "nova-stoc@stoc-$node" "nova-ltc@ltc-$node"; done
for ((tries = 0; tries < 300; tries++)); do [[ $(on b systemctl show -p NRestarts --value nova-ltc@ltc-b) != 0 ]] && break; sleep 0.2; done
((tries < 300)) || fail "ltc-b did not try again without ZooKeeper: $(on b journalctl -u nova-ltc@ltc-b -n 5)"
for node in a b c; do on "$node" systemctl start nova-zookeeper; done
for ((tries = 0; tries < 60; tries++)); do [[ $(nova get fruit/apple 2>/dev/null) == sweet ]] && break; sleep 1; done
((tries < 60)) || fail "the cluster did not come back by itself: $(on a journalctl -u nova-coordinator@coordinator-a -n 5; on b journalctl -u nova-ltc@ltc-b -n 5)"
say "back after ZooKeeper was late, $(on b systemctl show -p NRestarts --value nova-ltc@ltc-b) restarts of ltc-b"

# --- wipe
for limit in all b; do ! play wipe --limit "$limit" || fail "wipe.yml --limit $limit does not ask for confirm=yes"; done
on b test -d /var/lib/nova || fail "wipe.yml without confirm=yes removed data"
must wipe -e confirm=yes
for node in "${nodes[@]}"; do
  [[ $(count "$node" '^/usr/bin/(nova|java)') == 0 ]] || fail "processes on $node after wipe: $(on "$node" ps -eo args)"
  left=$(find "$lab/$node/upper" -iname '*nova*' -o -path '*/srv/disk/*')
  [[ -z $left ]] || fail "left on $node after wipe: $left"
  ! grep -q nova "$lab/$node/upper/etc/passwd" || fail "user nova is left on $node"
done
say "good"
