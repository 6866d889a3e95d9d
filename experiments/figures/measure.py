"""One run of one cell: a cluster, records, disks slowed down, `nova bench`, and what it took.

Nothing is measured before `skip_seconds` have passed; then counters are read, and once more when the last
second has passed. A second counts as stalled in which fewer than a twentieth of the operations ended that
ended in a good second of the same run, one that nine tenths are not better than.

Thread safety: one thread.   Errors: ClusterError.
"""
import os
import re
import subprocess
import time

from cluster import Cluster, ClusterError, cpu_seconds, disks_mb

VOID_ABOVE = 70        # % of the cores: processors, and not disks, were what the row measured
DISTURBED_ABOVE = 10   # % of the cores that processes took which are no part of the run
_SECOND = re.compile(r"^ *(\d+) s +(\d+) ops/s")
_LATENCY = re.compile(r"^(read|write|scan) .* p50 +([\d.]+) .* p99 +([\d.]+) .* max +([\d.]+)", re.M)

# What a run gives, beside its cell: numbers, but for the message of the first operation that failed, and the
# operations of each second.
FIELDS = ("ops", "stalled", "held", "write_p99_ms", "write_max_ms", "written_kb", "read_kb", "network_kb",
          "disks", "busiest", "cpu", "ltc_us", "stoc_us", "others", "failed", "failure", "seconds")


def measure(binaries, zookeeper, directory, settings):
    cluster = Cluster(binaries, zookeeper, directory, settings)
    try:
        cluster.start()
        _load(cluster, settings)
        cluster.settle()
        cluster.limit_disks()
        cluster.settle()
        return _run(cluster, settings)
    finally:
        cluster.end()


def _load(cluster, s):
    loaded = cluster.nova("bench", "LOAD", f"--records={s['records']}", f"--value_bytes={s['value_bytes']}",
                          "--threads=64", "--noprogress")
    if loaded.returncode != 0:
        raise ClusterError(f"the load failed: {(loaded.stdout + loaded.stderr).strip().splitlines()[-1]}")


class _Counters:
    """All that is summed up while a load runs, at one moment."""

    def __init__(self, cluster, bench):
        self.time = time.monotonic()
        self.ours = cluster.cpu_seconds() + cpu_seconds(bench.pid)
        self.ltcs, self.stocs = cluster.cpu_seconds("ltc"), cluster.cpu_seconds("stoc")
        self.machine = _busy_seconds()
        self.written = cluster.metrics("stoc", "nova_stoc_disk_bytes_total", "write")  # by StoC
        self.read = cluster.metrics("stoc", "nova_stoc_disk_bytes_total", "read")
        self.moved = sum(sum(cluster.metrics(kind, f"nova_fabric_bytes_{verb}_total"))
                         for kind in ("ltc", "stoc") for verb in ("read", "written", "sent"))
        self.held = sum(cluster.metrics("ltc", "nova_ltc_write_stall_seconds_total"))


def _run(cluster, s):
    # A put that waits for a minute is a stall, and no failure.
    words = ["--timeout_ms=60000", "bench", s["workload"], f"--distribution={s['distribution']}",
             f"--zipf_constant={s['zipf_constant']}", f"--records={s['records']}",
             f"--value_bytes={s['value_bytes']}", f"--threads={s['threads']}",
             f"--seconds={s['skip_seconds'] + s['seconds'] + 1}"]
    bench = subprocess.Popen(cluster.nova_words(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True)
    try:
        first = int(s["skip_seconds"])
        before, after, seconds, said = _watch(cluster, bench, first, first + int(s["seconds"]))
        report = bench.stdout.read()
        bench.wait()
    finally:
        bench.kill()
        bench.wait()
        bench.stdout.close()
        bench.stderr.close()
    cluster.check()
    if after is None:
        raise ClusterError(f"nova bench ended early: {said or report.strip()}")
    return _result(s, before, after, seconds, report)


def _watch(cluster, bench, first, last):
    """The counters when `first` and `last` seconds had passed, the operations of each second between, and
    what else it said."""
    before = _Counters(cluster, bench) if first == 0 else None
    after, seconds, said = None, [], ""
    for line in bench.stderr:
        second = _SECOND.match(line)
        if second is None:
            said = line.strip()
        if second is None or after is not None:
            continue
        if int(second[1]) > first:
            seconds.append(int(second[2]))
        if int(second[1]) == first:
            before = _Counters(cluster, bench)
        if int(second[1]) == last:
            after = _Counters(cluster, bench)
    return before, after, seconds, said


def _result(s, before, after, seconds, report):
    took = after.time - before.time
    operations = sum(seconds)
    latency = {op: (float(p99), float(longest)) for op, _, p99, longest in _LATENCY.findall(report)}
    p99, longest = latency.get("write", (0.0, 0.0))
    cores = os.cpu_count() * took / 100
    written = [b - a for a, b in zip(before.written, after.written)]
    read = [b - a for a, b in zip(before.read, after.read)]
    at_disk = written if s["page_cache"] else [w + r for w, r in zip(written, read)]
    disks = [b / (mb * 1e6 * took / 100) for b, mb in zip(at_disk, disks_mb(s))]
    return {
        "ops": operations / len(seconds),
        "stalled": 100 * stalled_share(seconds),
        "held": 100 * (after.held - before.held) / (took * s["threads"]),
        "write_p99_ms": p99 / 1000,
        "write_max_ms": longest / 1000,
        "written_kb": sum(written) / 1024 / max(1, operations),
        "read_kb": sum(read) / 1024 / max(1, operations),
        "network_kb": (after.moved - before.moved) / 1024 / max(1, operations),
        "disks": sum(disks) / len(disks),
        "busiest": max(disks),
        "cpu": (after.ours - before.ours) / cores,
        "ltc_us": (after.ltcs - before.ltcs) * 1e6 / max(1, operations),
        "stoc_us": (after.stocs - before.stocs) * 1e6 / max(1, operations),
        "others": max(0.0, (after.machine - before.machine - (after.ours - before.ours)) / cores),
        "failed": int(re.search(r"failed (\d+)", report)[1]),
        "failure": report.partition("first failure: ")[2].strip(),
        "seconds": seconds,
    }


def stalled_share(seconds):
    good = sorted(seconds)[int(0.9 * (len(seconds) - 1))]
    return sum(1 for ops in seconds if ops < good / 20 or ops == 0) / len(seconds)


def _busy_seconds():
    """Of all processors since the machine started, for whomever."""
    with open("/proc/stat", encoding="utf-8") as f:
        user, nice, system, _, _, irq, softirq = map(int, f.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
