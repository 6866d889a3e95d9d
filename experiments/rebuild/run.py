#!/usr/bin/env python3
"""How long a cluster is short of copies when StoCs are gone for good (rebuild, S5), and what that costs others.

  deploy/packages.sh && experiments/rebuild/run.py [--stocs=5] [--gigabytes=2] [--bound=100] [--load] [--hang]
                                                       [--dir=DIR]

Builds nothing: deploy/quickstart.sh has. Starts a cluster of its own by it (--stoc_down_after=5, tables in two
copies), loads records of 1 KB, waits until nothing is flushed or compacted any more, and kills one StoC, for
ever. Prints how many bytes of tables it held, how long after it counted as lost each table had its copies
again, how many bytes the others fetched, and the bound: the bytes that were lost, by the rate that all StoCs
that are left may take together is the least time, by that of one the most. Then it kills another one at once,
and reads every record. With --load `nova bench` runs RW50 meanwhile, before and during the rebuild. With --hang
the first StoC is stopped and not killed (SIGSTOP): its connections stay; and when it counts as lost another one
stands still for 10 s, for it takes copies and gives them.
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


def bench(cluster, workload, records, seconds, *words):
    return subprocess.Popen(
        [cluster.bin, f"--coordinators={cluster.coordinators}", "bench", workload, f"--records={records}",
         f"--seconds={seconds}", "--threads=4", "--noprogress", *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def measure(o, cluster):
    records = int(o.gigabytes * 1e9 / 1024)
    loaded = cluster.nova("bench", "LOAD", f"--records={records}", "--threads=16", "--noprogress")
    if loaded.returncode != 0:
        sys.exit(loaded.stdout + loaded.stderr)
    settle(cluster)
    if o.load:
        print("before:", bench(cluster, "RW50", records, 15).communicate()[0].strip().splitlines()[-1])
    victim = "stoc-1"
    lost = table_bytes(os.path.join(o.dir, victim))
    fetched = cluster.stocs("nova_stoc_copied_bytes_total")
    load = bench(cluster, "RW50", records, 30) if o.load else None
    cluster.kill(victim, signal.SIGSTOP if o.hang else signal.SIGKILL)
    lost_at = None
    stands_still = False
    while True:
        status = cluster.status()
        now = time.time()
        if status is None:
            continue
        presence = {s["name"]: s["presence"] for s in status["stocs"]}
        if lost_at is None and presence[victim] == "lost":
            lost_at = now
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
        time.sleep(0.1)
    cluster.kill("stoc-2")
    took = now - lost_at
    moved = cluster.stocs("nova_stoc_copied_bytes_total") - fetched
    print(f"{o.stocs} StoCs, {tables['all']} tables; {victim} held {lost / 1e6:.0f} MB of files")
    print(f"all copies again {took:.1f} s after it counted as lost; "
          f"{lost / 1e6 / o.bound:.1f} s at the rate of one StoC, {lost / 1e6 / o.bound / (o.stocs - 1):.1f} s at "
          f"that of the {o.stocs - 1} others")
    print(f"fetched {moved / 1e6:.0f} MB, {moved / max(lost, 1):.2f} of what was lost")
    if load is not None:
        print("during:", load.communicate()[0].strip().splitlines()[-1])
    read = cluster.nova("bench", "R100", f"--records={records}", f"--operations={records}", "--threads=16",
                        "--noprogress")
    print("stoc-2 killed as well, each record read:", read.stdout.strip().splitlines()[-1], f"(exit {read.returncode})")


if __name__ == "__main__":
    main()
