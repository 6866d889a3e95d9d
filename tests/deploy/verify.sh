#!/usr/bin/env bash
# `systemd-analyze verify` of deploy/systemd, in a root where systemd's own units and the programs that ExecStart names are. Prints what
# it finds, and ends with 1 if it finds anything. Status 77, and one line, without systemd-analyze.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
units=$here/../../deploy/systemd
command -v systemd-analyze >/dev/null || { echo "deploy: skipped: systemd-analyze is missing (deploy/packages.sh --test installs it)"; exit 77; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/etc/systemd/system" "$root/usr/lib/systemd" "$root/usr/bin"
ln -s usr/lib "$root/lib"
cp -a /lib/systemd/system "$root/usr/lib/systemd/"
cp "$units"/*.service "$root/etc/systemd/system/"
for program in $(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$units"/*.service); do install -D -m 755 /bin/true "$root$program"; done

verify() { # unit: what is wrong with it
  systemd-analyze verify --root="$root" --man=no --generators=no --recursive-errors=no "$1" 2>&1 || echo "$1: systemd-analyze ended with $?"
}

found=0
for file in "$units"/*.service; do
  unit=${file##*/}
  wrong=$(verify "${unit/@./@x.}")
  [[ -z $wrong ]] && echo "good: $unit" && continue
  echo "$wrong"
  found=1
done

# It would be noticed: a directive that systemd does not know, a program that is not there.
broken=$root/etc/systemd/system/nova-broken.service
sed 's/^LimitNOFILE=/LimitNoFiles=/' "$units/nova-zookeeper.service" >"$broken"
[[ $(verify nova-broken.service) == *LimitNoFiles* ]] || { echo "a directive that systemd does not know was not noticed"; found=1; }
sed 's/^ExecStart=[^ ]*/&_missing/' "$units/nova-zookeeper.service" >"$broken"
[[ $(verify nova-broken.service) == *java_missing* ]] || { echo "a program that is missing was not noticed"; found=1; }
exit "$found"
