#!/usr/bin/env bash
# One node: run in its namespaces by lab.sh; ends as the node's systemd, which starts an sshd.   node.sh DIRECTORY
# DIRECTORY holds upper (what the node has changed of the file system), work and root, on a tmpfs, and host_key, authorized_keys.
set -euo pipefail
dir=$1 root=$1/root
hostname "$(basename "$1")"
ip link set lo up
mount -t overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" overlay "$root"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,ro,bind "$root/proc/sys"  # the machine's settings are not the node's
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
for hierarchy in $NOVA_LAB_CGROUPS; do mkdir "$root/sys/fs/cgroup/$hierarchy"; done
mount -t cgroup -o none,name=systemd,xattr cgroup "$root/sys/fs/cgroup/systemd"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
for place in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs "$root/$place"; done
chmod 1777 "$root/tmp"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"

# What it starts at boot: an sshd, and what every unit needs. The machine's own services are not asked for.
mkdir -p "$root/etc/lab" "$root/run/sshd"
cp "$dir/host_key" "$dir/authorized_keys" "$root/etc/lab"
cat >"$root/etc/lab/sshd_config" <<CFG
HostKey /etc/lab/host_key
AuthorizedKeysFile /etc/lab/authorized_keys
PasswordAuthentication no
PermitRootLogin prohibit-password
UsePAM yes
PidFile none
Subsystem sftp internal-sftp
CFG
cat >"$root/etc/systemd/system/lab-sshd.service" <<'UNIT'
[Unit]
Wants=systemd-user-sessions.service
After=systemd-user-sessions.service
[Service]
ExecStart=/usr/sbin/sshd -D -e -f /etc/lab/sshd_config
UNIT
printf '[Unit]\nRequires=lab-sshd.service\nAfter=lab-sshd.service\n' >"$root/etc/systemd/system/lab.target"
exec env -i container=lab PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" /lib/systemd/systemd --system --unit=lab.target
