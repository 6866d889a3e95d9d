#!/usr/bin/env bash
# Puts what a node is to have into one archive, laid out as on the node: programs, units, limits, and in /opt/nova what clients need.
#   deploy/ansible/archive.sh BUILD ARCHIVE
# The same files make the same archive, byte for byte. YCSB is in it when its binding is built.
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build=$1 archive=$2
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
for program in nova nova_coordinator nova_fsck nova_ltc nova_stoc; do
  [[ -x $build/bin/$program ]] || { echo "error: $build/bin/$program is not built: cmake --preset release, ninja -C build/release" >&2; exit 2; }
  install -D -m 755 "$build/bin/$program" "$tree/usr/bin/$program"
done
for unit in "$source_dir"/deploy/systemd/*.service; do install -D -m 644 "$unit" "$tree/etc/systemd/system/${unit##*/}"; done
install -D -m 644 "$source_dir/deploy/ansible/limits.conf" "$tree/etc/security/limits.d/nova.conf"
install -D -m 644 -t "$tree/usr/share/doc/nova" "$source_dir"/docs/*.md
install -D -m 644 "$build/lib/libnova_client.so" "$tree/opt/nova/lib/libnova_client.so"
install -D -m 755 "$source_dir/deploy/ycsb.sh" "$tree/opt/nova/deploy/ycsb.sh"
install -D -m 644 -t "$tree/opt/nova/deploy/workloads" "$source_dir"/deploy/workloads/*
ycsb=client/ycsb/target
if [[ -f $source_dir/$ycsb/nova-binding-0.17.0.jar ]]; then
  install -D -m 644 -t "$tree/opt/nova/$ycsb" "$source_dir/$ycsb/nova-binding-0.17.0.jar"
  install -D -m 644 -t "$tree/opt/nova/$ycsb/dependency" "$source_dir/$ycsb"/dependency/*.jar
fi
(cd "$tree" && find . -type f -printf '%P\n') | tar --create --file="$archive.new" --directory="$tree" --sort=name --mtime=@0 --owner=0 --group=0 \
  --numeric-owner --files-from=-
mv "$archive.new" "$archive"
