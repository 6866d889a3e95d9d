"""experiments/figures without a cluster: flag files, what is computed of runs, and what is void."""
import pathlib
import subprocess
import sys
import tempfile

FIGURES = pathlib.Path(__file__).resolve().parents[2] / "experiments/figures"
sys.dont_write_bytecode = True
sys.path.insert(0, str(FIGURES))
# pylint: disable=wrong-import-position
import availability  # noqa: E402
import cluster  # noqa: E402
import flag_file  # noqa: E402
import measure  # noqa: E402
import report  # noqa: E402
import run  # noqa: E402


def refused(text):
    try:
        flag_file.Figure("x", text)
    except flag_file.FlagFileError as e:
        return str(e)
    return ""


# Every flag file is read, and has cells or a model; the paper's compare them with what the paper states.
OURS = ["offload", "slow_stoc"]
names = flag_file.names()
assert names == ["fig1", "fig2", "fig11", "fig12", "fig13", "fig14", "fig15", "fig16", *OURS, "table2",
                 "table4", "table5"], names
for name in names:
    figure = flag_file.read(name)
    assert figure.model or (figure.cells and (figure.paper or name in OURS)), name
    assert figure.what, name

# What is wrong in one is said in one line.
GOOD = 'title = "t"\n[axes]\nstocs = [1, 10]\nworkload = ["W100", "SW50"]\n'
assert refused(GOOD) == ""
for wrong, why in (
        ('titel = "t"', "unknown key 'titel'"), ("x", "x.toml"), ("", "no title"),
        ('title = "t"\n[cell]\nstoc = 1', "unknown setting 'stoc'"),
        ('title = "t"\n[axes]\nmemory = [1]', "points need names"),
        ('title = "t"\n[axes]\nmemory = [{name = "a", stoc = 1}]', "'stoc'"),
        ('title = "t"\n[cell]\nstocs = "ten"', "stocs = 'ten' is no int"),
        ('title = "t"\n[cell]\nalpha = 3\ndelta = 8', "no multiple of alpha"),
        (GOOD + '[chart]\nbars = "memory"', "is no axis"),
        (GOOD + "[[paper]]\ncell = {stocs = 3}\nops = 1", "no such cells"),
        (GOOD + "[[paper]]\ncell = {stocs = 10}\nfactor = 2", "goes with `over`"),
        (GOOD + "[[paper]]\ncell = {stocs = 10}\nover = {stocs = 1}\nops = 2", "goes with `over`")):
    assert why in refused(wrong) and "\n" not in refused(wrong), (wrong, refused(wrong))

# The grid: the product of the axes, each point's settings over the file's, flags by name.
figure = flag_file.Figure("x", """
title = "t"
[cell]
records = 1000
ltc_flags = {a = 1, b = 1}
[axes]
stocs = [1, 10]
kind = [{name = "plain"}, {name = "other", disk_mb = 8, ltc_flags = {b = 2}}]
[[paper]]
cell = {stocs = 10}
over = {stocs = 1}
factor = 2
[[paper]]
cell = {kind = "plain"}
ops = 100
""")
assert [c.name for c in figure.cells] == ["stocs=1 kind=plain", "stocs=1 kind=other", "stocs=10 kind=plain",
                                          "stocs=10 kind=other"]
other = figure.cells[3].settings
assert (other["records"], other["disk_mb"], other["ltc_flags"]) == (1000, 8, {"a": 1, "b": 2})
assert "--b=2" in cluster.ltc_words(other)
assert [(a.name, b.name) for a, b in figure.pairs(figure.paper[0])] == [
    ("stocs=10 kind=plain", "stocs=1 kind=plain"), ("stocs=10 kind=other", "stocs=1 kind=other")]

# Cells with a flag that a program does not have are left out, and others are not.
with tempfile.TemporaryDirectory() as directory:
    for program, name in (("nova_ltc", "a"), ("nova_stoc", "c")):
        path = pathlib.Path(directory) / program
        path.write_text(f"#!/bin/sh\necho '<flag><name>{name}</name></flag>'\n")
        path.chmod(0o755)
    axis = '[axes]\nkind = [{name = "x", ltc_flags = {a = 1}}, {name = "y", ltc_flags = {b = 1}}, ' \
           '{name = "z", stoc_flags = {c = 1}}, {name = "w", stoc_flags = {a = 1}}]\n'
    small = flag_file.Figure("small", 'title = "t"\n' + axis)
    run.leave_out_unknown(small, directory)
    assert [c.points["kind"] for c in small.cells] == ["x", "z"]

# Medians, factors run by run, and rows that processors bound.
def values(ops, cpu=30.0, others=0.0):
    some = {"ops": ops, "cpu": cpu, "others": others, "seconds": [int(ops)] * 3}
    return dict.fromkeys(report.FIELDS, 0.0) | {"failure": ""} | some


def results(cells):
    return [report.Result(cell, number, v) for cell, runs in cells for number, v in enumerate(runs, 1)]


one, other, ten, last = figure.cells
runs = results([(one, [values(100), values(200), values(400)]),
                (ten, [values(300), values(400), values(800)]),
                (other, [values(100), values(100, cpu=71)]), (last, [values(100)] * 2)])
text = report.text(figure, "head", runs)
table = report.paper_rows(figure, [report.Row(c, runs) for c in figure.cells])
assert table[1] == ["10 plain over 1", "2", "2.00 (2.00 - 3.00)", ""], table
assert table[2][2] == "void", table
assert table[3][1:3] == ["100 1.00", "200 1.00 (1.00 - 1.00)"], table
assert table[4][2] == "400 2.00 (2.00 - 3.00)", table
assert "200 (100 - 400)" in text and text.count("VOID") == 1, text
short = results([(one, [values(100)]), (ten, [values(300), values(1)])])
short_table = report.paper_rows(figure, [report.Row(c, short) for c in figure.cells])
assert short_table[1][2] == "3.00", "of the run that both have"
failing = [report.Result(one, 1, values(1) | {"failed": 2, "failure": "no StoC"})]
assert report.Row(one, failing).note == "2 operations failed: no StoC"
assert "disturbed" in report.Row(one, results([(one, [values(1, others=11)])])).note

# A CSV gives back what was written, and a figure that lost a cell leaves its lines out.
with tempfile.TemporaryDirectory() as directory:
    path = directory + "/x.csv"
    report.write_csv(path, figure, "abc", runs + [report.Result(last, 3, None, "ended, early")])
    commit, again = report.read_csv(path, figure)
    assert commit == "abc" and len(again) == len(runs) + 1 and again[-1].error == "ended, early"
    assert [(r.cell, r.run, r.values) for r in again[:-1]] == [(r.cell, r.run, r.values) for r in runs]
    figure.keep({"stocs": ["10"]})
    assert {r.cell for r in report.read_csv(path, figure)[1]} == {ten, last}

# Settings of all cells.
figure.override({"log_mode": "memory", "ltc_flags": {"b": 3}})
for cell in (ten, last):
    assert (cell.settings["log_mode"], cell.settings["ltc_flags"]) == ("memory", {"a": 1, "b": 3})

# Where one disk is slower, it is the first StoC's.
assert cluster.disks_mb({"stocs": 3, "disk_mb": 4, "slow_disk_mb": 0}) == [4, 4, 4]
assert cluster.disks_mb({"stocs": 3, "disk_mb": 4, "slow_disk_mb": 1}) == [1, 4, 4]

# Half of the disks' speed is half of all; what cannot be divided is refused.
figure.slow_down(2)
assert [last.settings[key] for key in ("disk_mb", "records", "alpha", "delta")] == [4, 500, 1, 32]
try:
    figure.slow_down(3)
    assert False, "three parts of one active memtable"
except flag_file.FlagFileError:
    pass

# Seconds with less than a twentieth of a good one.
assert measure.stalled_share([100] * 10) == 0
assert measure.stalled_share([0] * 10) == 1
assert measure.stalled_share([0, 4, 6, 100, 100, 100, 100, 100, 1000, 100]) == 0.2

# Table 2, by its formulas.
heading, rows = availability.rows(flag_file.read("table2"))
by = {(row[0], row[1]): row for row in rows}
assert by["3", "1 copy"][2] == "1.43 months" and by["5", "1 copy"][3] == "12.9 days"
assert by["3", "parity (not built)"][2] == "91.2 years" and by["1", "2 copies"][2] == "547 years"
assert all(len(row) == len(heading) for row in rows)

# Words that make no sense: one line, exit code 2.
for words in (["fig99"], ["fig2", "--only=stocs=7"], ["table4", "--slower=7"], ["fig2", "--set=stoc=1"],
              ["fig2", "--set=stocs=1"], ["fig2", "--set=ltcs=x"]):
    ran = subprocess.run([sys.executable, str(FIGURES / "run.py"), *words], capture_output=True, text=True,
                         check=False)
    assert ran.returncode == 2 and ran.stderr.startswith("error: "), (words, ran)
    assert ran.stderr.count("\n") == 1, (words, ran)
