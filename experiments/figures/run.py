#!/usr/bin/env python3
"""The paper's figures and tables, on clusters of processes with modelled disks (docs/experiments.md).

  deploy/packages.sh --experiments && cmake --preset release
  ninja -C build/release nova nova_coordinator nova_ltc_main nova_stoc_main
  experiments/figures/run.py FIGURE... | --all | --list
      --out=DIR          FIGURE.txt, .csv and .png                                       (build/figures)
      --runs=N           of each cell; cells take turns: all once, then all again        (1)
      --seconds=S        measured of each run                                            (the flag file's)
      --slower=N         disks, memory and records N times smaller, where processors and not disks bind
      --only=AXIS=POINT  cells at that point; given again for the same axis: at any of them
      --set=KEY=VALUE    a setting of all cells (flag_file.py), as --set=log_mode=memory
      --quick            a smoke test: the first and the last point of each axis, few records, 2 s
      --report           makes the table and the picture anew from the CSV of an earlier call
      --build=DIR        programs are in DIR/bin                                         (build/release)
      --data=DIR         where disks lie: what is below a modelled disk has to be faster (/dev/shm, else /tmp)

A flag file (FIGURE.toml, flag_file.py) a figure. Exit code 1: a cell gave no result; 2: wrong words.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

import availability
import flag_file
import report
from cluster import ClusterError, Zookeeper, known_flags
from measure import measure

ROOT = os.path.dirname(os.path.dirname(flag_file.HERE))
# Of --quick. Few records, and not so few that no memtable fills.
QUICK = {"records": 4000, "seconds": 2.0, "skip_seconds": 1.0}


def main():
    o = parse_words()
    for ends in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ends, lambda number, _: sys.exit(128 + number))  # clusters are ended on the way out
    try:
        if o.list:
            for name in flag_file.names():
                figure = flag_file.read(name)
                print(f"{name:8} {len(figure.cells) or '':>3} cells  {figure.title}")
            return 0
        figures = [prepared(flag_file.read(name), o) for name in (flag_file.names() if o.all else o.figures)]
    except flag_file.FlagFileError as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    os.makedirs(o.out, exist_ok=True)
    return max([produce(figure, o) for figure in figures])


def parse_words():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS, allow_abbrev=False)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=argparse.SUPPRESS)
    for flag in ("--all", "--list", "--quick", "--report"):
        parser.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    for flag, kind, default in (("--out", str, os.path.join(ROOT, "build", "figures")), ("--runs", int, 1),
                                ("--seconds", float, None), ("--slower", int, 1),
                                ("--build", str, os.path.join(ROOT, "build", "release")),
                                ("--data", str, "/dev/shm" if os.path.isdir("/dev/shm") else None)):
        parser.add_argument(flag, type=kind, default=default, help=argparse.SUPPRESS)
    for flag in ("--only", "--set"):
        parser.add_argument(flag, action="append", default=[], help=argparse.SUPPRESS)
    o = parser.parse_args()
    if not (o.figures or o.all or o.list):
        parser.error("which figure? see --list")
    if o.runs < 1 or o.slower < 1 or (o.seconds is not None and o.seconds < 1):
        parser.error("--runs, --slower and --seconds must be at least 1")
    if any("=" not in words for words in o.only + o.set):
        parser.error("--only=AXIS=POINT, --set=KEY=VALUE")
    o.binaries = os.path.join(o.build, "bin")
    return o


def prepared(figure, o):
    """The figure with the cells and settings that the words ask for."""
    if figure.model:
        return figure
    wanted = {}
    for only in o.only:
        axis, _, point = only.partition("=")
        wanted.setdefault(axis, []).append(point)
    figure.keep(wanted)
    if o.quick:
        figure.keep({axis: [points[0][0], points[-1][0]] for axis, points in figure.axes.items()
                     if axis not in wanted})
    if o.slower > 1:
        figure.slow_down(o.slower)
    if o.quick:
        figure.override(QUICK)
    if o.seconds is not None:
        figure.override({"seconds": o.seconds})
    figure.override(dict(setting_of(words) for words in o.set))
    return figure


def setting_of(words):
    """KEY=VALUE, the value as in a flag file; one that is nothing there is a text."""
    key, _, value = words.partition("=")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value


def produce(figure, o):
    """The figure's files. Returns the exit code."""
    base = os.path.join(o.out, figure.name)
    if figure.model:
        return produce_model(figure, base)
    if o.report:
        commit, results = report.read_csv(base + ".csv", figure)
    else:
        commit, results = commit_of(ROOT), run_cells(figure, o, base + ".csv")
    words = head(figure, commit, results, o.set)
    text = report.text(figure, words, results)
    write(base + ".txt", text)
    print(text, flush=True)
    why = report.draw(base + ".png", figure, results)
    if why:
        print(f"no picture {base}.png: {why}", file=sys.stderr)
    return 1 if why or not results or any(r.error for r in results) else 0


def produce_model(figure, base):
    heading, rows = availability.rows(figure)
    text = f"{figure.title}\n\n{figure.what}\n\n{report.aligned([heading, *rows])}\n"
    write(base + ".txt", text)
    write(base + ".csv", "".join(",".join(f'"{v}"' for v in row) + "\n" for row in [heading, *rows]))
    print(text, flush=True)
    why = report.plot(base + ".png", figure.title, availability.panels(figure))
    if why:
        print(f"no picture {base}.png: {why}", file=sys.stderr)
    return 1 if why else 0


def run_cells(figure, o, csv):
    """All cells in turn, --runs times; the CSV is written anew after each."""
    results = []
    commit = commit_of(ROOT)
    directory = tempfile.mkdtemp(prefix="nova-figures-", dir=o.data)
    zookeeper = None
    try:
        leave_out_unknown(figure, o.binaries)
        zookeeper = Zookeeper(directory)
        for run in range(1, o.runs + 1):
            for number, cell in enumerate(figure.cells, 1):
                print(f"{figure.name}: run {run} of {o.runs}, cell {number} of {len(figure.cells)}: "
                      f"{cell.name}", file=sys.stderr, flush=True)
                started = time.monotonic()
                results.append(run_cell(figure, cell, run, o.binaries, zookeeper, directory))
                report.write_csv(csv, figure, commit, results)
                say(results[-1], time.monotonic() - started)
    except ClusterError as e:
        print(f"error: {e}", file=sys.stderr)
    finally:
        if zookeeper is not None:
            zookeeper.end()
        shutil.rmtree(directory, ignore_errors=True)
    return results


def run_cell(figure, cell, run, binaries, zookeeper, directory):
    place = os.path.join(directory, f"{figure.name}-{figure.cells.index(cell)}-{run}")
    try:
        return report.Result(cell, run, measure(binaries, zookeeper, place, cell.settings))
    except ClusterError as e:
        return report.Result(cell, run, None, str(e))


def say(result, took):
    said = result.error or "  ".join(f"{field} {result.values[field]:.3g}" for field in (
        "ops", "stalled", "held", "disks", "busiest", "cpu", "others"))
    print(f"  {said}  ({took:.0f} s)", file=sys.stderr, flush=True)


def leave_out_unknown(figure, binaries):
    """Cells with flags that the programs do not have: one line for each such flag."""
    for program in ("nova_ltc", "nova_stoc"):
        known = known_flags(binaries, program)
        flags = program[5:] + "_flags"
        missing = sorted({f for c in figure.cells for f in c.settings[flags] if f not in known})
        for flag in missing:
            without = [c for c in figure.cells if flag in c.settings[flags]]
            print(f"{figure.name}: left out, for {program} has no --{flag}: "
                  + "; ".join(c.name for c in without), file=sys.stderr)
            figure.cells = [c for c in figure.cells if c not in without]


def commit_of(root):
    said = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True,
                          text=True, check=False)
    return said.stdout.strip() or "unknown"


def head(figure, commit, results, overrides):
    cells = [c.settings for c in figure.cells] or [{"seconds": 0, "records": 0, "disk_mb": 0}]
    ranges = {key: sorted({s[key] for s in cells}) for key in ("seconds", "records", "disk_mb")}
    runs = max((r.run for r in results), default=0)
    said = {key: " or ".join(f"{v:,g}" for v in values) for key, values in ranges.items()}
    words = (f"commit {commit}, {os.cpu_count()} processors, {runs} run(s) of {said['seconds']} s, "
             f"{said['records']} records, disks of {said['disk_mb']} MB/s.")
    return " ".join([words, figure.scaled, *overrides]).strip()


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


if __name__ == "__main__":
    sys.exit(main())
