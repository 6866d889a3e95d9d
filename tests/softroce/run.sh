#!/usr/bin/env bash
# Boots a QEMU guest with Debian's kernel and Soft-RoCE on this machine's own file system, and runs tests/softroce/guest.sh in it.
#   tests/softroce/run.sh BUILD [STEP...]     BUILD: a build directory whose tests and programs are built; STEP: see guest.sh
# Ends with the guest's status and leaves its logs in BUILD/softroce/out. Status 77, and one line, where QEMU or the kernel cannot
# be had. The guest mounts / read-only under a tmpfs: what runs in it changes nothing here but that directory.
set -euo pipefail

skip() { echo "softroce: skipped: $1"; exit 77; }

[[ $# -ge 1 ]] || { echo "usage: tests/softroce/run.sh BUILD [STEP...]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
shift
for tool in qemu-system-x86_64 busybox depmod dpkg-deb cpio rdma; do
  command -v "$tool" >/dev/null || PATH=$PATH:/sbin:/usr/sbin command -v "$tool" >/dev/null || skip "no qemu: $tool is missing (deploy/packages.sh --test installs it)"
done
export PATH=$PATH:/sbin:/usr/sbin

work=$build/softroce
out=$work/out
rm -rf "$out"
mkdir -p "$work" "$out"

# --- the kernel, once
if [[ ! -s $work/vmlinuz || ! -s $work/version ]]; then
  package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-[0-9]/ {print $2; exit}')
  [[ -n $package ]] || skip "no kernel: apt knows no linux-image-amd64"
  rm -rf "$work/kernel" && mkdir -p "$work/kernel"
  (cd "$work/kernel" && apt-get download "$package" >apt.log 2>&1) || skip "no kernel: $package cannot be downloaded"
  dpkg-deb -x "$work/kernel"/linux-image-*.deb "$work/kernel/root"
  rm -f "$work/kernel"/*.deb
  version=${package#linux-image-}
  depmod -b "$work/kernel/root" "$version"
  cp "$work/kernel/root/boot/vmlinuz-$version" "$work/vmlinuz"
  echo "$version" >"$work/version"
fi
version=$(<"$work/version")

# --- an initramfs: busybox, the modules, and an init that moves to the host's file system
ramfs=$work/initramfs
rm -rf "$ramfs" && mkdir -p "$ramfs"/{bin,modules,host,upper,root,proc,sys,dev}
cp "$(command -v busybox)" "$ramfs/bin/busybox"
modules=()
for module in virtio_pci virtio_net 9pnet_virtio 9p overlay dummy veth crc32_generic sch_netem ib_uverbs rdma_ucm rdma_rxe; do
  while read -r verb path _; do
    [[ $verb == insmod && " ${modules[*]} " != *" $path "* ]] && modules+=("$path")
  done < <(modprobe -d "$work/kernel/root" -S "$version" --show-depends "$module" 2>/dev/null)
done
[[ ${#modules[@]} -gt 0 ]] || skip "no kernel: $version has no rdma_rxe"
for i in "${!modules[@]}"; do
  name=$(printf '%03d-%s' "$i" "$(basename "${modules[$i]}")")
  cp "${modules[$i]}" "$ramfs/modules/$name"
done
cat >"$ramfs/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for m in /modules/*; do insmod \$m || echo "softroce: \$m was not loaded"; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=loose,ro hostroot /host || exec poweroff -f
mount -t tmpfs -o size=75% tmpfs /upper
mkdir /upper/upper /upper/work
mount -t overlay -o lowerdir=/host,upperdir=/upper/upper,workdir=/upper/work overlay /root
for d in proc sys dev; do mount --move /\$d /root/\$d; done
mkdir -p /root/dev/shm /root/dev/pts /root/dev/infiniband /root$out
mount -t tmpfs tmpfs /root/dev/shm
mount -t devpts devpts /root/dev/pts
mount -t tmpfs tmpfs /root/run
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288 out /root$out
chroot /root /usr/bin/env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp \\
  NOVA_BUILD='$build' NOVA_OUT='$out' bash '$here/guest.sh' $*
sync
poweroff -f
INIT
chmod +x "$ramfs/init"
(cd "$ramfs" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initramfs.gz"

# --- the guest
timeout "${NOVA_SOFTROCE_SECONDS:-900}" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m "${NOVA_SOFTROCE_MB:-4096}" \
  -nographic -no-reboot -kernel "$work/vmlinuz" -initrd "$work/initramfs.gz" -append "console=ttyS0 quiet panic=-1" \
  -virtfs local,path=/,mount_tag=hostroot,security_model=none,readonly=on,multidevs=remap \
  -virtfs "local,path=$out,mount_tag=out,security_model=none" </dev/null >"$out/console" 2>&1 || true
grep -aoE 'softroce [a-z0-9_.]+: .*' "$out/console" | tr -d '\r' || true
if [[ ! -s $out/status ]]; then
  echo "softroce: the guest did not end in order; its console is $out/console" >&2
  tail -n 20 "$out/console" >&2
  exit 1
fi
exit "$(<"$out/status")"
