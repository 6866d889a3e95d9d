#!/usr/bin/env bash
# One node: run in its namespaces by lab.sh; ends as the node's sshd.   node.sh DIRECTORY
# DIRECTORY holds upper (what the node has changed of the file system), work and root, on a tmpfs, and host_key, authorized_keys.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$1 name=$(basename "$1") root=$1/root
hostname "$name"
ip link set lo up
mount -t overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" overlay "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mkdir -p "$root/run/sshd"
cp "$here/systemctl.py" "$root/usr/bin/systemctl"
cp "$here/systemctl.py" "$root/usr/bin/journalctl"
cp "$dir/host_key" "$dir/authorized_keys" "$root/run/sshd"
cat >"$root/run/sshd/config" <<CFG
HostKey /run/sshd/host_key
AuthorizedKeysFile /run/sshd/authorized_keys
PasswordAuthentication no
PermitRootLogin prohibit-password
UsePAM yes
PidFile none
Subsystem sftp internal-sftp
CFG
exec chroot "$root" /usr/sbin/sshd -D -e -f /run/sshd/config
