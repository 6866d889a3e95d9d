#!/usr/bin/env python3
"""How long a cluster is short of copies when StoCs are gone for good (rebuild, S5), and what that costs others.

  deploy/packages.sh && experiments/rebuild/run.py [--stocs=5] [--gigabytes=2] [--bound=100] [--load] [--hang]
                                                       [--seconds=15] [--dir=DIR]

Builds nothing: deploy/quickstart.sh has. Starts a cluster of its own by it (--stoc_down_after=5, tables in two
copies), loads records of 1 KB, waits until nothing is flushed or compacted any more, and kills one StoC, for
ever. Prints how many bytes of tables it held, how long after it counted as lost each table had its copies
again, how many bytes the others fetched, and the bound: the bytes that were lost, by the rate that all StoCs
that are left may take together is the least time, by that of one the most. Then it kills another one at once,
and reads every record.

With --load `nova bench` runs RW50 all the while, as an open loop: at half the rate that a closed loop of 16 threads
reached just before, with latencies from the moment when an operation was to begin. A table has throughput and
latencies for --seconds before the loss, from the loss until the StoC counts as lost, until all copies are there
again, and for --seconds after that; the other StoC is killed then. What waits when a phase ends is in none of
them: a throughput below the rate says that the cluster was behind.

With --hang the first StoC is stopped and not killed (SIGSTOP): its connections stay; and when it counts as lost
another one stands still for 10 s, for it takes copies and gives them.
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stocs", type=int, default=5)
    parser.add_argument("--gigabytes", type=float, default=2, help="of records; in tables twice as much")
    parser.add_argument("--bound", type=int, default=100, help="of each StoC, in MB/s")
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--seconds", type=float, default=15, help="of load before and after")
    parser.add_argument("--hang", action="store_true")
    parser.add_argument("--dir", default=os.path.join(ROOT, "build", "rebuild"))
    parser.add_argument("--port_base", type=int, default=7700)
    o = parser.parse_args()
    cluster = Cluster(o)
    cluster.start()
    try:
        measure(o, cluster)
    finally:
        cluster.quickstart("clean")


class Cluster:
    def __init__(self, options):
        self.o = options
        self.bin = os.path.join(ROOT, "build", "release", "bin", "nova")
        self.coordinators = f"127.0.0.1:{options.port_base + 1}"

    def quickstart(self, *words):
        subprocess.run([os.path.join(ROOT, "deploy", "quickstart.sh"), *words, f"--dir={self.o.dir}"],
                       check=True, stdout=subprocess.DEVNULL)

    def start(self):
        self.quickstart("up", "--no_ycsb", "--ltcs=2", f"--stocs={self.o.stocs}", f"--port_base={self.o.port_base}",
                        "--coordinator_flag=--stoc_down_after=5",
                        f"--stoc_flag=--rebuild_mb_per_s={self.o.bound}")

    def nova(self, *words):
        return subprocess.run([self.bin, f"--coordinators={self.coordinators}", *words], capture_output=True,
                              text=True)

    def status(self):
        said = self.nova("status", "--json")
        return json.loads(said.stdout) if said.returncode == 0 else None

    def metric(self, node, name):
        kind, number = node.rsplit("-", 1)
        port = self.o.port_base + {"stoc": 10, "ltc": 30}[kind] + int(number) + 100
        try:
            page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2).read().decode()
        except OSError:
            return 0
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+]+)", page, re.M)
        return sum(float(v) for v in found)

    def stocs(self, name):
        return sum(self.metric(f"stoc-{i}", name) for i in range(self.o.stocs))

    def kill(self, node, how=signal.SIGKILL):
        with open(os.path.join(self.o.dir, node, "pid")) as f:
            os.kill(int(f.read()), how)


def settle(cluster):
    """Until no StoC has written anything for 5 s."""
    before, since = -1, time.time()
    while time.time() - since < 5:
        now = cluster.stocs("nova_stoc_disk_bytes_total")
        if now != before:
            before, since = now, time.time()
        time.sleep(0.5)


def table_bytes(directory):
    files = os.path.join(directory, "data", "files")
    return sum(os.path.getsize(os.path.join(files, f)) for f in os.listdir(files))


class Load:
    """RW50 at a rate, in phases; each is a process of its own."""

    def __init__(self, cluster, records, seconds):
        self.cluster, self.records = cluster, records
        closed = self.begin(f"--seconds={seconds}").communicate()[0]
        self.rate = float(re.search(r"([0-9.]+) ops/s", closed)[1]) / 2
        self.reports = {}
        print(f"a closed loop of 16 threads: {2 * self.rate:.0f} operations a second; from now on {self.rate:.0f}")

    def begin(self, *words):
        return subprocess.Popen(
            [self.cluster.bin, f"--coordinators={self.cluster.coordinators}", "bench", "RW50",
             f"--records={self.records}", "--threads=16", "--noprogress", *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, phase, seconds):
        self.start(phase)
        time.sleep(seconds)
        self.stop()

    def start(self, phase):
        self.phase, self.process = phase, self.begin(f"--rate={self.rate:.0f}", "--seconds=3600")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.reports[self.phase] = self.process.communicate()[0]

    def print(self):
        print(f"{'':12} {'ops/s':>7} {'failed':>6}   put ms: p50    p99    max   get ms: p50    p99    max   p99 / before")
        before = {}
        for phase, report in self.reports.items():
            times = {}
            for op in ("write", "read"):
                line = re.search(rf"^{op} .*?p50 +([0-9.]+) .*?p99 +([0-9.]+) .*?max +([0-9.]+)", report, re.M)
                times[op] = [float(us) / 1000 for us in line.groups()] if line else [float("nan")] * 3
                before.setdefault(op, times[op][1])
            put, get = times["write"], times["read"]
            rate = re.search(r"([0-9.]+) ops/s", report)
            failed = re.search(r"failed ([0-9]+)", report)
            if not rate or not failed:
                sys.exit(report)
            print(f"{phase:12} {rate[1]:>7} {failed[1]:>6}        {put[0]:6.2f} {put[1]:6.1f} {put[2]:6.0f}        "
                  f"{get[0]:6.2f} {get[1]:6.1f} {get[2]:6.0f}   "
                  f"{put[1] / before['write']:.2f} {get[1] / before['read']:.2f}")


def measure(o, cluster):
    records = int(o.gigabytes * 1e9 / 1024)
    loaded = cluster.nova("bench", "LOAD", f"--records={records}", "--threads=16", "--noprogress")
    if loaded.returncode != 0:
        sys.exit(loaded.stdout + loaded.stderr)
    settle(cluster)
    load = Load(cluster, records, o.seconds) if o.load else None
    if load:
        load.run("before", o.seconds)
    victim = "stoc-1"
    lost = table_bytes(os.path.join(o.dir, victim))
    fetched = cluster.stocs("nova_stoc_copied_bytes_total")
    if load:
        load.start("away")
    cluster.kill(victim, signal.SIGSTOP if o.hang else signal.SIGKILL)
    lost_at = None
    stands_still = False
    while True:
        time.sleep(0.25)
        status = cluster.status()
        now = time.time()
        if status is None:
            continue
        presence = {s["name"]: s["presence"] for s in status["stocs"]}
        if lost_at is None and presence[victim] == "lost":
            lost_at = now
            if load:
                load.stop()
                load.start("rebuild")
            if o.hang:
                cluster.kill("stoc-3", signal.SIGSTOP)
                stands_still = True
        if stands_still and now > lost_at + 10:
            cluster.kill("stoc-3", signal.SIGCONT)
            stands_still = False
        tables = status["copies"]["tables"]
        heard = status["copies"]["ranges_whose_tables_are_not_heard_of"] == 0
        if lost_at is not None and not stands_still and heard and tables["degraded"] == 0:
            break
    took = now - lost_at
    moved = cluster.stocs("nova_stoc_copied_bytes_total") - fetched
    if load:
        load.stop()
        load.run("after", o.seconds)
        load.print()
    cluster.kill("stoc-2")
    print(f"{o.stocs} StoCs, {tables['all']} tables; {victim} held {lost / 1e6:.0f} MB of files")
    print(f"all copies again {took:.1f} s after it counted as lost; "
          f"{lost / 1e6 / o.bound:.1f} s at the rate of one StoC, {lost / 1e6 / o.bound / (o.stocs - 1):.1f} s at "
          f"that of the {o.stocs - 1} others")
    print(f"fetched {moved / 1e6:.0f} MB, {moved / max(lost, 1):.2f} of what was lost")
    read = cluster.nova("bench", "R100", f"--records={records}", f"--operations={records}", "--threads=16",
                        "--noprogress")
    print("stoc-2 killed as well, each record read:", read.stdout.strip().splitlines()[-1], f"(exit {read.returncode})")


if __name__ == "__main__":
    main()
