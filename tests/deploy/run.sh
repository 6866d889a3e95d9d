#!/usr/bin/env bash
# Runs deploy/ansible for real: four nodes, each a set of namespaces with a systemd and an sshd in it and a file system of its own (an
# overlay on this machine's), and a control host beside them on a bridge.
#   tests/deploy/run.sh BUILD      BUILD: a build directory whose programs are built; client/ycsb is built too
# Leaves what the playbooks printed and collected in BUILD/deploy_test. Status 77, and one line, where namespaces are not to be had.
#
# What is not as on real nodes: packages are there already, so that packages.sh --node installs none.
set -euo pipefail

skip() { echo "deploy: skipped: $1"; exit 77; }

here=$(cd "$(dirname "$0")" && pwd)
if [[ ${1:-} == --inside ]]; then
  shift
  . "$here/lab.sh"
  exit 0
fi
[[ $# -eq 1 ]] || { echo "usage: tests/deploy/run.sh BUILD" >&2; exit 2; }
build=$(cd "$1" && pwd)
export PATH=$PATH:/sbin:/usr/sbin
for tool in ansible-playbook sshd ssh-keygen ip gnuplot systemctl; do
  command -v "$tool" >/dev/null || skip "$tool is missing (deploy/packages.sh --test installs it)"
done
[[ -f $here/../../client/ycsb/target/nova-binding-0.17.0.jar ]] || skip "the binding is not built: (cd client/ycsb && mvn package)"
unshare --net --mount --pid --fork --kill-child true 2>/dev/null || skip "no namespaces: unshare is not permitted"
unshare --net --mount bash -c 'ip link add v0 type veth peer name v1 && ip link add b0 type bridge && mount -t tmpfs tmpfs /run &&
  mkdir /run/u /run/w && mount -t overlay -o lowerdir=/,upperdir=/run/u,workdir=/run/w overlay /run/u' 2>/dev/null ||
  skip "no namespaces: veth, bridge or overlay are not permitted"

export NOVA_LAB=nova-lab-$$ NOVA_LAB_CGROUPS="systemd unified"
for hierarchy in $NOVA_LAB_CGROUPS; do
  mkdir "/sys/fs/cgroup/$hierarchy/$NOVA_LAB" 2>/dev/null && rmdir "/sys/fs/cgroup/$hierarchy/$NOVA_LAB" ||
    skip "no namespaces: no control groups at /sys/fs/cgroup/$hierarchy for the nodes' systemd"
done

# Everything is made inside namespaces of its own, and is gone with them; here is the proof.
traces() { ip netns list; ip -o link | awk '{print $2}'; grep -c . /proc/self/mountinfo; find /run -maxdepth 1 | sort; find /sys/fs/cgroup -maxdepth 2 -name 'nova-lab-*'; }
before=$(traces)
code=0
timeout --kill-after=5 "${NOVA_DEPLOY_SECONDS:-1150}" unshare --net --mount --pid --fork --kill-child --mount-proc bash "$here/run.sh" --inside "$build" || code=$?
for hierarchy in $NOVA_LAB_CGROUPS; do find "/sys/fs/cgroup/$hierarchy" -depth -path "*/$NOVA_LAB-*" -type d -exec rmdir {} +; done
[[ $(traces) == "$before" ]] || { echo "deploy: left behind: $(diff <(echo "$before") <(traces))" >&2; exit 1; }
exit "$code"
