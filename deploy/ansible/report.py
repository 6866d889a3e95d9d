#!/usr/bin/env python3
"""Sums up what collect.yml brought, and draws it with gnuplot: report.py RESULTS

Reads RESULTS/HOST/TOOL-WORKLOAD-PHASE.out and .err (YCSB's summary and status lines; `nova bench`'s). Writes summary.txt, and
throughput.svg and latency.svg where gnuplot is installed; prints the summary. Exit code 2: there is nothing to sum up. Exit
code 1: some runs have no throughput, so they failed, or were cut off; the others are summed up.
"""
import pathlib
import re
import shutil
import subprocess
import sys

YCSB_THROUGHPUT = re.compile(r"\[OVERALL\], Throughput\(ops/sec\), ([\d.]+)")
YCSB_LATENCY = re.compile(r"\[(READ|UPDATE|INSERT|SCAN|READ-MODIFY-WRITE)\], (\d+)thPercentileLatency\(us\), ([\d.]+)")
YCSB_SECOND = re.compile(r" (\d+) sec: \d+ operations; ([\d.]+) current ops/sec")
NOVA_THROUGHPUT = re.compile(r"operations in [\d.]+ s, (\d+) ops/s")
NOVA_LATENCY = re.compile(r"^(read|write|scan) .* p50 +([\d.]+) +p95 +([\d.]+) +p99 +([\d.]+)", re.M)
NOVA_SECOND = re.compile(r"^ *(\d+) s +(\d+) ops/s", re.M)


class Run:
    """One phase of a benchmark on one host."""

    def __init__(self, path):
        self.host, self.name = path.parent.name, path.stem
        out = path.read_text()
        err = path.with_suffix(".err").read_text() if path.with_suffix(".err").exists() else ""
        throughput = YCSB_THROUGHPUT.search(out) or NOVA_THROUGHPUT.search(out)
        self.throughput = float(throughput.group(1)) if throughput else None
        self.latency = {}  # operation -> {percentile: us}
        for operation, percentile, us in YCSB_LATENCY.findall(out):
            self.latency.setdefault(operation.lower(), {})[int(percentile)] = float(us)
        for operation, *us in NOVA_LATENCY.findall(out):
            self.latency[operation] = dict(zip((50, 95, 99), map(float, us)))
        seconds = YCSB_SECOND.findall(err) or NOVA_SECOND.findall(err)
        self.seconds = {}
        for second, ops in seconds:
            self.seconds.setdefault(int(second), float(ops))  # YCSB's last line is of a part of a second


def summary(runs):
    lines = []
    for name in sorted({r.name for r in runs}):
        of_name = [r for r in runs if r.name == name]
        lines.append(f"{name}: {sum(r.throughput for r in of_name):.0f} ops/s from {len(of_name)} client host(s)")
        for r in of_name:
            lines.append(f"  {r.host}: {r.throughput:.0f} ops/s")
            for operation, us in sorted(r.latency.items()):
                lines.append(f"    {operation:18} " + "  ".join(f"p{p} {us[p]:.0f} us" for p in sorted(us)))
    return "\n".join(lines) + "\n"


def draw(results, runs):
    """Data goes to gnuplot inline; an empty chart is not drawn."""
    head = "set terminal svg size 900,500 background 'white'\nset key outside\nset grid\nset yrange [0:*]\n"
    lines = [r for r in runs if r.seconds]
    if lines:
        plots = ", ".join(f"'-' using 1:2 with linespoints title '{r.host} {r.name}' noenhanced" for r in lines)
        data = "".join("".join(f"{s} {ops}\n" for s, ops in r.seconds.items()) + "e\n" for r in lines)
        gnuplot(f"{head}set xrange [0:*]\nset output '{results}/throughput.svg'\nset xlabel 'seconds'\nset ylabel 'operations/s'\nplot {plots}\n{data}")
    bars = [(f"{r.host} {r.name} {o}", us) for r in runs if r.name.endswith("-run") for o, us in sorted(r.latency.items())]
    if bars:
        plots = ", ".join(f"'-' using 2:xtic(1) title 'p{p}'" for p in (50, 95, 99))
        data = "".join("".join(f"\"{label}\" {us.get(p, 0)}\n" for label, us in bars) + "e\n" for p in (50, 95, 99))
        gnuplot(f"{head}set output '{results}/latency.svg'\nset style data histogram\nset style fill solid\nset ylabel 'us'\n"
                f"set xtics rotate by -30 noenhanced\nplot {plots}\n{data}")


def gnuplot(program):
    subprocess.run(["gnuplot"], input=program, text=True, check=True)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: report.py RESULTS")
    results = pathlib.Path(sys.argv[1])
    runs = [Run(p) for p in sorted(results.glob("*/*.out"))]
    failed = [r for r in runs if r.throughput is None]
    runs = [r for r in runs if r.throughput is not None]
    if not runs:
        print(f"error: no results of a benchmark in {results}: bench.yml, then collect.yml", file=sys.stderr)
        sys.exit(2)
    text = summary(runs)
    (results / "summary.txt").write_text(text)
    print(text, end="")
    if shutil.which("gnuplot"):
        draw(results, runs)
    else:
        print("no charts: gnuplot is not installed (deploy/packages.sh --control)")
    for r in failed:
        print(f"error: no throughput in {r.host}/{r.name}.out: the run failed, or was cut off", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
