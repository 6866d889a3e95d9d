#!/usr/bin/env bash
# Installs what building, testing and running Nova needs on Debian 12. Does nothing when all is there.
#   deploy/packages.sh            to build and run
#   deploy/packages.sh --test     and to test
#   deploy/packages.sh --fuzz     and to fuzz (tests/run.sh --long)
#   deploy/packages.sh --experiments   and to compare with other engines; one comes from Maven Central, to ~/.cache/nova
#   deploy/packages.sh --node     only what a node of a cluster runs, with programs built elsewhere (deploy/ansible does this)
#   deploy/packages.sh --control  only what the host needs that deploy/ansible is run from
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache mold pkg-config
  libgflags-dev libgoogle-glog-dev libprotobuf-dev protobuf-compiler libgrpc++-dev protobuf-compiler-grpc
  libabsl-dev libzookeeper-mt-dev libisal-dev libxxhash-dev liblz4-dev libzstd-dev libedit-dev libcpp-httplib-dev libcli11-dev nlohmann-json3-dev
  libibverbs-dev librdmacm-dev ibverbs-providers
  zookeeper default-jdk-headless maven procps
)
node=(
  libgflags2.2 libgoogle-glog0v6 libprotobuf32 libgrpc++1.51 libabsl20220623 libzookeeper-mt2 libisal2 liblz4-1 libzstd1 libedit2 libcpp-httplib0.11
  libibverbs1 librdmacm1 ibverbs-providers rdma-core ibverbs-utils zookeeper default-jre-headless procps python3
)
control=(ansible-core openssh-client gnuplot-nox)
case ${1:-} in
  '') ;;
  --test)
    packages+=(libgtest-dev libgmock-dev clang clang-format golang-go python3 qemu-system-x86 busybox-static kmod cpio iproute2 ibverbs-utils)
    packages+=("${node[@]}" "${control[@]}" openssh-server systemd)  # tests/deploy: nodes in namespaces; systemd-analyze
    ;;
  --fuzz) packages+=(clang libclang-rt-14-dev) ;;
  --experiments) packages+=(librocksdb-dev libleveldb-dev liblmdb-dev libbenchmark-dev gnuplot-nox python3 unzip) ;;
  --node) packages=("${node[@]}") ;;
  --control) packages=("${control[@]}") ;;
  *) echo "error: unknown argument $1" >&2; exit 2 ;;
esac

# The newest RocksDB (nova_peers: rocksdb10): the library for Linux on x86-64 that its Java package holds, which
# exports the C interface too.
fetch_rocksdb10() {
  local version=10.10.1 sum=fda4a26cd4ea229636c5379ed41d827ce119a99c404fab94d9f863783c9ccb18
  local library=${XDG_CACHE_HOME:-$HOME/.cache}/nova/librocksdbjni-$version.so
  [[ $(uname -m) == x86_64 && ! -f $library ]] || return 0
  echo "fetching RocksDB $version from Maven Central"
  local scratch jar
  scratch=$(mktemp -d)
  jar=$scratch/rocksdbjni-$version-linux64.jar
  if ! mvn -q -B dependency:copy -Dartifact=org.rocksdb:rocksdbjni:$version:jar:linux64 \
      -DoutputDirectory="$scratch" >"$scratch/log" 2>&1; then
    echo "error: mvn failed: $(grep -F '[ERROR]' "$scratch/log" | head -1)" >&2
    rm -rf "$scratch"
    exit 2
  fi
  if ! echo "$sum  $jar" | sha256sum --check --status; then
    echo "error: RocksDB $version is not what was expected: its SHA-256 is $(sha256sum "$jar" | cut -d' ' -f1), not $sum" >&2
    rm -rf "$scratch"
    exit 2
  fi
  mkdir -p "${library%/*}"
  unzip -p "$jar" librocksdbjni-linux64.so >"$library.new"
  mv "$library.new" "$library"
  rm -rf "$scratch"
}

missing=()
for package in "${packages[@]}"; do
  case $package in  # a Java, a Maven or a Go of another source will do
    default-jre-headless) command -v java >/dev/null && continue ;;
    default-jdk-headless) command -v javac >/dev/null && continue ;;
    maven) command -v mvn >/dev/null && continue ;;
    golang-go) command -v go >/dev/null && continue ;;
  esac
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
finish() {
  [[ $1 != --experiments ]] || fetch_rocksdb10
  exit 0
}
[[ ${#missing[@]} -gt 0 ]] || finish "${1:-}"

echo "installing packages: ${missing[*]}"
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null || { echo "error: packages are missing and this is not root: apt-get install ${missing[*]}" >&2; exit 2; }
  sudo=sudo
fi
log=$(mktemp)
if ! { ${sudo:-} apt-get update && ${sudo:-} env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  echo "error: apt-get failed: $(grep -E '^E:' "$log" | head -1)" >&2
  exit 2
fi
rm -f "$log"
finish "${1:-}"
