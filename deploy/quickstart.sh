#!/usr/bin/env bash
# A whole Nova cluster on this machine, over the tcp fabric: installs what is missing, builds, starts ZooKeeper, a coordinator,
# LTCs and StoCs as processes on loopback, loads and runs YCSB's workload A, and leaves the cluster up.
#
#   deploy/quickstart.sh [options]           all of the above
#   deploy/quickstart.sh start|stop|status|fsck|clean [--dir=DIR]      start: what does not run of it
#
#   --dir=DIR           data, logs and ports                        (build/quickstart)
#   --port_base=N       first of the ports used                     (7400)
#   --ltcs=N --stocs=N  how many of each                            (2, 3)
#   --ranges=N          ranges the key space is cut into            (16)
#   --records=N --operations=N --threads=N   of the YCSB run        (100000, 100000, 16)
#   --memtable_limit_mb=N --block_cache_mb=N of each LTC            (512, 128)
#   --log_mode=MODE --table_replicas=N       of each LTC            (auto; 2, as far as there are StoCs)
#   --ltc_flag=FLAG --stoc_flag=FLAG --coordinator_flag=FLAG        any flag of theirs (--help), given as often as needed
#   --fsck_flag=FLAG    any flag of nova_fsck                       (of fsck, which also reads a cluster that is stopped)
#   --no_ycsb           start the cluster only
#   --anyway            of stop: also where LTCs have not written all to tables (clean does so too)
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/.." && pwd)
cd "$source_dir"

command=up
dir=build/quickstart
port_base=7400 ltcs=2 stocs=3 ranges=16 records=100000 operations=100000 threads=16
memtable_limit_mb=512 block_cache_mb=128 ycsb=1 anyway=0
ltc_flags=() stoc_flags=() coordinator_flags=() fsck_flags=()

starting=0 launched=()
fail() {
  echo "error: $*" >&2
  if [[ $starting == 1 ]]; then  # leave nothing half started
    starting=0
    kill_launched
  fi
  exit 2
}
say() { echo "== $*"; }

number() { [[ $2 =~ ^[0-9]+$ && $2 -ge $3 && $2 -le $4 ]] || fail "--$1=$2 must be a number in [$3, $4]"; }

for argument in "$@"; do
  case $argument in
    up|start|stop|status|fsck|clean) command=$argument ;;
    --dir=?*) dir=${argument#*=} ;;
    --port_base=*) port_base=${argument#*=}; number port_base "$port_base" 1024 65000 ;;
    --ltcs=*) ltcs=${argument#*=}; number ltcs "$ltcs" 1 16 ;;
    --stocs=*) stocs=${argument#*=}; number stocs "$stocs" 1 16 ;;
    --ranges=*) ranges=${argument#*=}; number ranges "$ranges" 1 1024 ;;
    --records=*) records=${argument#*=}; number records "$records" 1 1000000000 ;;
    --operations=*) operations=${argument#*=}; number operations "$operations" 1 1000000000 ;;
    --threads=*) threads=${argument#*=}; number threads "$threads" 1 1024 ;;
    --memtable_limit_mb=*) memtable_limit_mb=${argument#*=}; number memtable_limit_mb "$memtable_limit_mb" 16 1000000 ;;
    --block_cache_mb=*) block_cache_mb=${argument#*=}; number block_cache_mb "$block_cache_mb" 1 1000000 ;;
    --log_mode=?*) ltc_flags+=("$argument") ;;
    --table_replicas=?*) number table_replicas "${argument#*=}" 1 16; ltc_flags+=("$argument") ;;
    --ltc_flag=--?*) ltc_flags+=("${argument#*=}") ;;
    --stoc_flag=--?*) stoc_flags+=("${argument#*=}") ;;
    --fsck_flag=--?*) fsck_flags+=("${argument#*=}") ;;
    --coordinator_flag=--?*) coordinator_flags+=("${argument#*=}") ;;
    --no_ycsb) ycsb=0 ;;
    --anyway) anyway=1 ;;
    -h|--help) sed -n '2,21s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) fail "unknown argument $argument (see --help)" ;;
  esac
done
mkdir -p "$dir" 2>/dev/null || fail "cannot make $dir"
dir=$(cd "$dir" && pwd)
settings=$dir/settings
bin=$source_dir/build/release/bin
nodes() { # name and directory of everything that runs, in the order of starting
  echo zookeeper coordinator-0
  for ((i = 0; i < stocs; i++)); do echo "stoc-$i"; done
  for ((i = 0; i < ltcs; i++)); do echo "ltc-$i"; done
}

# The ports, by role; the numbers are stable so that a started cluster finds itself again.
zookeeper_port() { echo $((port_base)); }
coordinator_port() { echo $((port_base + 1)); }
port_of() { # name -> port
  case $1 in
    zookeeper) zookeeper_port ;;
    coordinator-0) coordinator_port ;;
    stoc-*) echo $((port_base + 10 + ${1#stoc-})) ;;
    ltc-*) echo $((port_base + 30 + ${1#ltc-})) ;;
  esac
}
metrics_port_of() { echo $(($(port_of "$1") + 100)); }

load_settings() {
  [[ -f $settings ]] || fail "no cluster in $dir: run deploy/quickstart.sh first"
  # shellcheck disable=SC1090
  source "$settings"
}

alive() { # name: is the process we started still there, and still ours?
  local pid
  pid=$(cat "$dir/$1/pid" 2>/dev/null) || return 1
  [[ -n $pid && -r /proc/$pid/cmdline && $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) == *"$dir/$1"* ]]
}

# Of a process this run started: its command line cannot be read while it becomes the program.
running() { kill -0 "$(cat "$dir/$1/pid" 2>/dev/null)" 2>/dev/null; }

has_ended() { # name: its process is gone, or waits for nothing but its parent
  local stat
  stat=$(cat "/proc/$(cat "$dir/$1/pid" 2>/dev/null)/stat" 2>/dev/null) || return 0
  [[ ${stat##*) } == [ZX]* ]]
}

any_alive() { # name...
  local name
  for name in "$@"; do alive "$name" && return 0; done
  return 1
}

port_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

launch() { # name command...
  local name=$1
  shift
  mkdir -p "$dir/$name"
  : >"$dir/$name/ready"
  setsid "$@" >"$dir/$name/ready" 2>>"$dir/$name/log" </dev/null &
  echo $! >"$dir/$name/pid"
  # Until the shell's copy has become the program, `alive` would not know it.
  for ((tries = 0; tries < 1000; tries++)); do  # 20 s: a busy machine may take a while to load a program
    alive "$name" || ! running "$name" && break
    sleep 0.02
  done
}

wait_ready() { # name seconds: until it has printed its ready line
  local name=$1 tenths=$(($2 * 10))
  while ! grep -q '^ready ' "$dir/$name/ready"; do
    running "$name" || fail "$name did not start: $(grep -E '^(error|E|F|setsid)' "$dir/$name/log" | tail -1) (log: $dir/$name/log)"
    ((tenths-- > 0)) || fail "$name is not ready after $2 s (log: $dir/$name/log)"
    sleep 0.1
  done
}

start_zookeeper() {
  mkdir -p "$dir/zookeeper/data"
  cat >"$dir/zookeeper/zoo.cfg" <<CFG
tickTime=500
dataDir=$dir/zookeeper/data
clientPort=$(zookeeper_port)
clientPortAddress=127.0.0.1
admin.enableServer=false
maxClientCnxns=0
minSessionTimeout=1000
maxSessionTimeout=60000
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
CFG
  launch zookeeper java -Xmx256m -XX:+UseSerialGC -cp "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar" \
    -Dorg.slf4j.simpleLogger.defaultLogLevel=warn org.apache.zookeeper.server.quorum.QuorumPeerMain "$dir/zookeeper/zoo.cfg"
  local tenths=300
  while ! port_taken "$(zookeeper_port)"; do
    running zookeeper || fail "ZooKeeper did not start: $(tail -1 "$dir/zookeeper/log")"
    ((tenths-- > 0)) || fail "ZooKeeper does not listen after 30 s (log: $dir/zookeeper/log)"
    sleep 0.1
  done
}

# Each range has two segments of its log at each of three StoCs, or more. Of many ranges they are smaller, so that they take no more than
# half of what a StoC has for them, 1024 MB.
segment_kb() {
  local kb=1024
  while ((kb > 64 && kb * 4 * ranges * (stocs < 3 ? stocs : 3) > 1024 * 1024 * stocs)); do ((kb /= 2)); done
  echo "$kb"
}

start_node() { # name
  local name=$1
  local common=(--zookeeper="127.0.0.1:$(zookeeper_port)" --name="$name" --address="127.0.0.1:$(port_of "$name")"
    --metrics_address="127.0.0.1:$(metrics_port_of "$name")" --log_dir="$dir/$name")
  mkdir -p "$dir/$name"
  case $name in
    coordinator-*) launch "$name" "$bin/nova_coordinator" "${common[@]}" "${coordinator_flags[@]}" ;;
    stoc-*) launch "$name" "$bin/nova_stoc" "${common[@]}" --coordinators="127.0.0.1:$(coordinator_port)" --data="$dir/$name/data" \
      --segment_kb="$(segment_kb)" "${stoc_flags[@]}" ;;
    ltc-*) launch "$name" "$bin/nova_ltc" "${common[@]}" --coordinators="127.0.0.1:$(coordinator_port)" \
      --table_replicas=$((stocs < 2 ? stocs : 2)) --log_replicas=$((stocs < 3 ? stocs : 3)) \
      --manifest_replicas=$((stocs < 3 ? stocs : 3)) --memtable_limit_mb="$memtable_limit_mb" --block_cache_mb="$block_cache_mb" \
      --segment_kb="$(segment_kb)" "${ltc_flags[@]}" ;;
  esac
}

# What does not run of it; what runs is left alone.
start_cluster() {
  local name port
  launched=()
  for name in $(nodes); do
    alive "$name" && continue
    launched+=("$name")
    for port in $(port_of "$name") $(metrics_port_of "$name"); do
      port_taken "$port" && fail "port $port ($name) is taken: give another --port_base"
    done
  done
  if ((${#launched[@]} == 0)); then
    say "all of it runs already"
    return
  fi
  say "starting ${launched[*]}"
  starting=1
  start_launched zookeeper
  start_launched coordinator-
  start_launched stoc-
  start_launched ltc-
  starting=0
}

start_launched() { # prefix: those of them, all at once; and waits for them
  local name
  for name in "${launched[@]}"; do
    case $name in
      zookeeper) [[ $1 == zookeeper ]] && start_zookeeper ;;
      "$1"*) start_node "$name" ;;
    esac
  done
  for name in "${launched[@]}"; do
    [[ $name == "$1"* && $name != zookeeper ]] && wait_ready "$name" 30
  done
  return 0
}

dir_word() { [[ $dir == "$source_dir/build/quickstart" ]] || echo " --dir=$dir"; }

nova() { "$bin/nova" --coordinators="127.0.0.1:$(coordinator_port)" "$@"; }

create_ranges() { # evenly over YCSB's keys: "user" and a hash of up to 19 digits
  local splits=()
  for ((i = 1; i < ranges; i++)); do splits+=("user$((1000000000000000000 + i * (8200000000000000000 / ranges)))"); done
  nova create-ranges "${splits[@]}" || fail "the ranges were not created"
}

wait_open() {
  local tenths=600
  while [[ $(nova --timeout_ms=2000 status 2>/dev/null | grep -cE '^[0-9]+ .* open ') -lt $ranges ]]; do
    ((tenths-- > 0)) || fail "the ranges did not open in 60 s: $(nova status | tail -3)"
    sleep 0.1
  done
}

stop_named() { # signal seconds name...
  local signal=$1 tenths=$(($2 * 10)) name
  shift 2
  for name in "$@"; do
    alive "$name" && kill "-$signal" "$(cat "$dir/$name/pid")"
  done
  for name in "$@"; do
    while alive "$name"; do
      if ((tenths-- <= 0)); then
        echo "warning: $name does not stop, killing it" >&2
        kill -KILL "$(cat "$dir/$name/pid")" 2>/dev/null || true
        tenths=50
      fi
      sleep 0.1
    done
    # A process that ends loses its command line before its sockets, which the next start needs.
    for ((tries = 0; tries < 50; tries++)); do
      has_ended "$name" && ! port_taken "$(port_of "$name")" && ! port_taken "$(metrics_port_of "$name")" && break
      sleep 0.1
    done
    rm -f "$dir/$name/pid"
  done
}

kill_launched() {
  local name
  for name in "${launched[@]}"; do
    alive "$name" && kill -KILL "$(cat "$dir/$name/pid")"
  done
  return 0
}

# Once the LTCs have stopped: ranges that still have logs, in words; nothing: all that was acknowledged is in tables.
left_in_logs() {
  local status ranges
  for ((tries = 0; tries < 10; tries++)); do  # the coordinator hears of it from ZooKeeper
    status=$(nova --timeout_ms=5000 status --json 2>/dev/null) || { echo "the coordinator does not answer, so it cannot be told"; return; }
    ranges=$(grep -oE '"log_groups":[1-9]' <<<"$status" | wc -l) || true
    ((ranges > 0)) || return 0
    sleep 0.5
  done
  echo "$ranges ranges still have logs"
}

stop_cluster() { # LTCs flush before StoCs stop
  local all left
  all=$(nodes)
  say "stopping LTCs (they flush)"
  stop_named TERM 90 $(grep -o 'ltc-[0-9]*' <<<"$all")
  if [[ $anyway == 0 ]] && any_alive $(grep -o 'stoc-[0-9]*' <<<"$all"); then
    left=$(left_in_logs)
    [[ -z $left ]] || fail "LTCs may not have written all that was acknowledged to tables: $left.
The StoCs run on: what is in logs in their memory (--log_mode=memory) is lost when they stop. Why: $dir/ltc-*/nova_ltc.WARNING
to have it written:    deploy/quickstart.sh start$(dir_word), then stop
to stop all the same:  deploy/quickstart.sh stop --anyway$(dir_word)"
  fi
  say "stopping StoCs, coordinator, ZooKeeper"
  stop_named TERM 30 $(grep -o 'stoc-[0-9]*' <<<"$all")
  stop_named TERM 30 coordinator-0
  stop_named TERM 30 zookeeper
}

# Of StoCs that do not run the directories are read. Where ZooKeeper does not run either, it does for as long as that takes.
check() {
  local alone=0 code=0 directories=() name
  for name in $(nodes); do
    [[ $name == stoc-* ]] && ! alive "$name" && directories+=("$dir/$name/data")
  done
  if ! alive zookeeper; then
    alone=1
    start_zookeeper
  fi
  "$bin/nova" fsck --zookeeper="127.0.0.1:$(zookeeper_port)" --store_dirs="$(IFS=,; echo "${directories[*]}")" "${fsck_flags[@]}" || code=$?
  [[ $alone == 0 ]] || stop_named TERM 30 zookeeper
  return "$code"
}

show() { # ends as `nova status` does
  local code=0
  nova status || code=$?
  cat <<TEXT

data, logs   $dir/<node>/
coordinator  127.0.0.1:$(coordinator_port)   status page http://127.0.0.1:$(metrics_port_of coordinator-0)/
client       export NOVA_COORDINATORS=127.0.0.1:$(coordinator_port); $bin/nova shell
stop, start  deploy/quickstart.sh stop | start | status | fsck | clean$(dir_word)
TEXT
  return "$code"
}

case $command in
  up)
    started=$SECONDS
    deploy/packages.sh
    [[ -f $settings ]] && fail "there is a cluster in $dir already: deploy/quickstart.sh start, or clean"
    say "building (release)"
    cmake --preset release -DNOVA_BUILD_TESTS="$([[ -f build/release/CTestTestfile.cmake ]] && echo ON || echo OFF)" >"$dir/build.log" 2>&1 ||
      fail "cmake failed: $(grep -m1 -A3 'CMake Error' "$dir/build.log" | tr '\n' ' ') (log: $dir/build.log)"
    NINJA_STATUS='[%f/%t] ' ninja -C build/release nova_coordinator nova_stoc_main nova_ltc_main nova nova_fsck nova_client 2>&1 | tee -a "$dir/build.log" |
      awk '{ if (/^\[/) { printf "\r%s\033[K", substr($0, 1, 100); fflush() } else print }' || fail "the build failed (log: $dir/build.log)"
    echo
    if [[ $ycsb == 1 ]]; then
      say "building the YCSB binding"
      (cd client/ycsb && mvn -q -B -DskipTests package >"$dir/maven.log" 2>&1) ||
        fail "maven failed: $(grep -m1 ERROR "$dir/maven.log") (log: $dir/maven.log)"
    fi
    {
      printf 'port_base=%s ltcs=%s stocs=%s ranges=%s memtable_limit_mb=%s block_cache_mb=%s\n' \
        "$port_base" "$ltcs" "$stocs" "$ranges" "$memtable_limit_mb" "$block_cache_mb"
      printf 'ltc_flags=(%s) stoc_flags=(%s) coordinator_flags=(%s)\n' \
        "${ltc_flags[*]@Q}" "${stoc_flags[*]@Q}" "${coordinator_flags[*]@Q}"
    } >"$settings.new"
    start_cluster
    mv "$settings.new" "$settings"  # from here on there is a cluster to stop, start and clean
    say "creating $ranges ranges"
    create_ranges
    wait_open
    if [[ $ycsb == 1 ]]; then
      for phase in load run; do
        say "YCSB workload a, $phase: $records records, $operations operations, $threads threads"
        deploy/ycsb.sh "$phase" a --coordinators="127.0.0.1:$(coordinator_port)" --records="$records" --operations="$operations" \
          --threads="$threads"
      done
    fi
    say "status"
    show
    say "up in $((SECONDS - started)) s; the cluster stays up"
    ;;
  start)
    load_settings
    start_cluster
    wait_open
    show
    ;;
  stop)
    load_settings
    stop_cluster
    ;;
  status)
    load_settings
    for name in $(nodes); do
      printf '%-14s %-8s port %s\n' "$name" "$(alive "$name" && echo up || echo down)" "$(port_of "$name")"
    done
    show
    ;;
  fsck)
    load_settings
    check
    ;;
  clean)
    if [[ -f $settings ]]; then
      load_settings
      anyway=1
      stop_cluster
    fi
    rm -rf "$dir"
    say "removed $dir"
    ;;
esac
