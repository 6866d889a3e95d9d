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
d
[ltc]
b
c
[client]
d ansible_host=10.79.0.14 nova_stoc_data_is_mount=true
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

# --- install, start, check; not before the disk of d is mounted
! play install --limit d || fail "install.yml does not ask that something is mounted at nova_stoc_data"
on d 'mkdir -p /root/disk /srv/disk && mount --bind /root/disk /srv/disk'
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
# --- an LTC that hangs is ended and started again (in a few seconds here)
on c 'mkdir /run/systemd/system/nova-ltc@ltc-c.service.d && cd /run/systemd/system/nova-ltc@ltc-c.service.d && printf "[Service]\nWatchdogSec=3\n" >watch.conf &&
  systemctl daemon-reload && systemctl restart nova-ltc@ltc-c && sleep 6 && [[ $(systemctl show -p NRestarts --value nova-ltc@ltc-c) == 0 ]]' || fail "ltc-c, which was watched, did not stay up: $(on c journalctl -u nova-ltc@ltc-c -n 10)"
on c 'kill -STOP $(pgrep -x nova_ltc)'
for ((tries = 0; tries < 200; tries++)); do [[ $(on c systemctl show -p NRestarts,ActiveState --value nova-ltc@ltc-c | paste -sd ' ') == "1 active" ]] && break; sleep 0.2; done
((tries < 200)) || fail "ltc-c, which hung, was not started again: $(on c systemctl status nova-ltc@ltc-c)"
on c 'rm -r /run/systemd/system/nova-ltc@ltc-c.service.d && systemctl daemon-reload'
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

# --- a disk that is not mounted is no new disk: its StoC waits for it
on d 'systemctl stop nova-stoc@stoc-d && umount /srv/disk && systemctl start --no-block nova-stoc@stoc-d'
for ((tries = 0; tries < 100; tries++)); do [[ $(on d systemctl show -p NRestarts --value nova-stoc@stoc-d) != 0 ]] && break; sleep 0.2; done
((tries < 100)) || fail "stoc-d did not try again without its disk: $(on d journalctl -u nova-stoc@stoc-d -n 5)"
[[ $(count d '^/usr/bin/nova_stoc') == 0 && -z $(on d ls /srv/disk) ]] || fail "stoc-d runs without its disk"
on d 'mount --bind /root/disk /srv/disk'
for ((tries = 0; tries < 100; tries++)); do [[ $(on d systemctl is-active nova-stoc@stoc-d) == active ]] && break; sleep 0.2; done
((tries < 100)) || fail "stoc-d did not come back with its disk: $(on d journalctl -u nova-stoc@stoc-d -n 5)"

# --- each node is restarted while clients go on: none of them sees it
main_pid() { on "$1" systemctl show -p MainPID --value "$2"; }
units=(a/nova-coordinator@coordinator-a {a,b,c,d}/nova-stoc@stoc- {b,c}/nova-ltc@ltc-)
declare -A pids
for unit in "${units[@]}"; do
  [[ $unit != *- ]] || unit+=${unit%%/*}
  pids[$unit]=$(main_pid "${unit%%/*}" "${unit#*/}")
done
# A client that connects anew for each put; and one that stays, with four threads.
on d 'cat >/root/puts.sh <<"PUTS"
cd /root
for ((i = 1; ; ++i)); do
  [[ ! -e enough ]] || exit 0
  nova --coordinators=10.79.0.11:7401 --fabric=tcp put roll/$i v$i 2>>refused && printf "roll/%d\tv%d\n" $i $i >>acknowledged || echo "roll/$i: $?" >>refused
done
PUTS
nohup bash /root/puts.sh >/dev/null 2>&1 & echo $! >/root/puts.pid
nohup nova --coordinators=10.79.0.11:7401 --fabric=tcp bench RW50 --records=2000 --threads=4 --rate=400 --seconds=1000 >/root/bench.txt 2>&1 & echo $! >/root/bench.pid'
must rolling
on d 'touch /root/enough; kill -INT $(</root/bench.pid); while kill -0 $(</root/bench.pid) || kill -0 $(</root/puts.pid); do sleep 0.1; done 2>/dev/null'
for unit in "${!pids[@]}"; do
  now=$(main_pid "${unit%%/*}" "${unit#*/}")
  [[ $now != 0 && $now != "${pids[$unit]}" ]] || fail "rolling.yml did not restart $unit"
done
[[ -z $(on d 'touch /root/refused; cat /root/refused' || echo "no answer") ]] || fail "puts were refused beside rolling.yml: $(on d head -5 /root/refused)"
bench=$(on d cat /root/bench.txt)
grep -qE '^failed 0 +not found 0 ' <<<"$bench" || fail "beside rolling.yml: $bench"
say "beside rolling.yml: $(on d 'wc -l </root/acknowledged') puts by themselves, $(grep -oE '[0-9]+ operations in [0-9.]+ s' <<<"$bench"), longest of them $(grep -oE 'max +[0-9]+' <<<"$bench" | tr -dc '0-9\n' | sort -n | tail -1) us"
(($(on d 'wc -l </root/acknowledged') > 100)) || fail "hardly a put beside rolling.yml"
missing() {  # what was acknowledged beside rolling.yml and is not there
  on d 'comm -23 <(sort /root/acknowledged) <(nova --coordinators=10.79.0.11:7401 --fabric=tcp scan "" 1000000 --prefix=roll/ | sort)' || echo "no answer"
}
[[ -z $(missing) ]] || fail "after rolling.yml puts are missing: $(missing | head -5)"

# --- a node less; and not one of those that copies need
! play remove -e nova_role=stoc || fail "remove.yml without --limit does not ask for one host"
must remove -e nova_role=ltc --limit c
[[ $(count c '^/usr/bin/nova_ltc') == 0 ]] || fail "an LTC on c after its removal"
must remove -e nova_role=stoc --limit d
[[ $(count d '^/usr/bin/nova_stoc') == 0 ]] || fail "a StoC on d after its removal"
left=$(find "$lab/d/upper" -path '*/srv/disk/*' -o -name '*stoc-d*' -not -type c)
[[ -z $left ]] || fail "left on d after the removal of its StoC: $left"
! play remove -e nova_role=stoc --limit c || fail "remove.yml took one of three StoCs, where manifests have three copies"
[[ $(on c systemctl is-active nova-stoc@stoc-c) == active ]] || fail "stoc-c was stopped though it may not be removed"
sed -i '/^\[stoc\]/,/^\[ltc\]/{/^d$/d}; /^\[ltc\]/,/^\[client\]/{/^c$/d}' "$lab/inventory"
must check
[[ -z $(missing) ]] || fail "after remove.yml puts are missing: $(missing | head -5)"
# (Orphans are no fault yet: their range's owner lists a StoC's files every three minutes.)
on a nova fsck --zookeeper=10.79.0.11:2181 --fabric=tcp --orphan_grace_s=0 >"$out/fsck.txt" ||
  [[ $(grep -c '^orphan ' "$out/fsck.txt") == $(sed -n 's/^findings: //p' "$out/fsck.txt") ]] || fail "after remove.yml: $(tail -20 "$out/fsck.txt")"

# --- a role more on a host, of a cluster that has data
sed -i '/^\[stoc\]/a d' "$lab/inventory"
sed -i '/^\[ltc\]/a c' "$lab/inventory"
must site
for unit in d/nova-stoc@stoc-d c/nova-ltc@ltc-c; do
  [[ $(on "${unit%%/*}" systemctl is-active "${unit#*/}") == active ]] || fail "$unit does not run after site.yml"
done
for ((tries = 0; tries < 100; tries++)); do
  [[ $(nova status | awk '$1 == "ltc" && $2 == "ltc-c" { for (i = 3; i < NF; ++i) if ($(i + 1) ~ /^ranges/) print $i }') == [1-9]* ]] && break
  sleep 0.3
done
((tries < 100)) || fail "ltc-c, which is new, has no range: $(nova status)"
[[ -z $(missing) ]] || fail "after site.yml with more nodes puts are missing: $(missing | head -5)"

# --- stop: nothing, where a host cannot be reached, be it one of a StoC alone
sed -i 's/10\.79\.0\.14/10.79.0.99/' "$lab/inventory"  # d, at an address that nobody has
! play stop || fail "stop.yml went on though d could not be reached"
sed -i 's/10\.79\.0\.99/10.79.0.14/' "$lab/inventory"
for unit in a/nova-coordinator@coordinator-a {a,b,c,d}/nova-stoc@stoc- {b,c}/nova-ltc@ltc- {a,b,c}/nova-zookeeper; do
  [[ $unit != *- ]] || unit+=${unit%%/*}
  [[ $(on "${unit%%/*}" systemctl is-active "${unit#*/}") == active ]] || fail "stop.yml stopped $unit though d could not be reached"
done

# --- stop: not the StoCs, as long as an LTC could not write what it has in memory (they hang, all of them)
nova put fruit/apple sweet
for node in "${nodes[@]}"; do on "$node" 'kill -STOP $(pgrep -x nova_stoc)'; done
! play stop || fail "stop.yml went on though an LTC could not flush"
grep -q 'did not stop in order' "$out/stop.log" || fail "stop.yml does not say that an LTC did not stop in order"
for node in "${nodes[@]}"; do
  [[ $(count "$node" '^/usr/bin/nova_stoc') == 1 ]] || fail "stop.yml stopped the StoC on $node"
  on "$node" 'kill -CONT $(pgrep -x nova_stoc)'
done
must start
[[ $(nova get fruit/apple) == sweet ]] || fail "what an LTC had not flushed is lost"
must stop
for node in "${nodes[@]}"; do
  [[ $(count "$node" '^/usr/bin/(nova|java)') == 0 ]] || fail "processes on $node after stop: $(on "$node" ps -eo args)"
done

# --- as after a power failure: everything at once, and ZooKeeper only when the others have given up on it once; what was written is there
on a systemctl start --no-block nova-coordinator@coordinator-a nova-stoc@stoc-a
on b systemctl start --no-block nova-stoc@stoc-b nova-ltc@ltc-b
on c systemctl start --no-block nova-stoc@stoc-c nova-ltc@ltc-c
on d systemctl start --no-block nova-stoc@stoc-d
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
