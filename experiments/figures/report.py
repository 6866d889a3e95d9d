"""What a figure's runs gave: FIGURE.csv, a line a run; FIGURE.txt, medians, and the paper's figures beside
them; FIGURE.png, drawn by gnuplot.

Medians are over the runs of a cell, with the least and the most in brackets. A factor is the median over runs
of one cell's rate by the other's in the same run. A cell with a run that is void (measure.py) is void, and
takes part in no factor.
"""
import csv
import os
import statistics
import subprocess

from measure import DISTURBED_ABOVE, FIELDS, VOID_ABOVE


class Result:
    """One run of one cell."""

    def __init__(self, cell, run, values, error=""):
        self.cell, self.run, self.values, self.error = cell, run, values, error


def write_csv(path, figure, commit, results):
    with open(path, "w", newline="", encoding="utf-8") as f:
        out = csv.writer(f)
        out.writerow(["commit", "run", *figure.axes, *FIELDS, "error"])
        for r in results:
            values = [_text_of(r.values[field]) if r.values else "" for field in FIELDS]
            out.writerow([commit, r.run, *r.cell.points.values(), *values, r.error])


def read_csv(path, figure):
    """(commit, results) of what write_csv wrote; cells that the figure has no longer are left out."""
    results, commit = [], ""
    with open(path, newline="", encoding="utf-8") as f:
        for row in csv.DictReader(f):
            commit = row["commit"]
            cell = next((c for c in figure.cells if all(row.get(a) == p for a, p in c.points.items())), None)
            if cell is None:
                continue
            values = None if row["error"] else {field: _value_of(field, row[field]) for field in FIELDS}
            results.append(Result(cell, int(row["run"]), values, row["error"]))
    return commit, results


def _text_of(value):
    if isinstance(value, str):
        return value
    return " ".join(map(str, value)) if isinstance(value, list) else f"{value:.6g}"


def _value_of(field, text):
    if field == "failure":
        return text
    return [int(s) for s in text.split()] if field == "seconds" else float(text)


class Row:
    """All runs of one cell."""

    def __init__(self, cell, results):
        self.cell = cell
        self.runs = {r.run: r.values for r in results if r.cell is cell and r.values}
        self.errors = [r.error for r in results if r.cell is cell and r.error]

    def all(self, field):
        return [values[field] for values in self.runs.values()]

    def median(self, field):
        return statistics.median(self.all(field))

    def spread(self, field, form):
        values = self.all(field)
        text = form(statistics.median(values))
        return text if len(values) == 1 else f"{text} ({form(min(values))} - {form(max(values))})"

    @property
    def is_void(self):
        return not self.runs or max(self.all("cpu")) > VOID_ABOVE

    @property
    def note(self):
        notes = [f"VOID: processors above {VOID_ABOVE} %"] if self.runs and self.is_void else []
        if self.runs and max(self.all("others")) > DISTURBED_ABOVE:
            notes.append("disturbed: others had processors")
        if self.runs and sum(self.all("failed")) > 0:
            why = next(filter(None, self.all("failure")), "")
            notes.append(f"{sum(self.all('failed')):.0f} operations failed: {why}")
        return "; ".join(notes + sorted(set(self.errors)))


_COLUMNS = [  # heading, of a row
    ("operations/s", lambda r: r.spread("ops", _thousands)),
    ("stalled s %", lambda r: r.spread("stalled", "{:.0f}".format)),
    ("held %", lambda r: f"{r.median('held'):.0f}"),
    ("KB written, read an op.", lambda r: f"{r.median('written_kb'):.2f}, {r.median('read_kb'):.2f}"),
    ("put ms p99, longest", lambda r: f"{r.median('write_p99_ms'):.1f}, {max(r.all('write_max_ms')):.0f}"),
    ("disks %, busiest", lambda r: f"{r.median('disks'):.0f}, {r.median('busiest'):.0f}"),
    ("network KB an op.", lambda r: f"{r.median('network_kb'):.2f}"),
    ("CPU %", lambda r: f"{r.median('cpu'):.0f}"),
    ("us of LTCs, StoCs an op.", lambda r: f"{r.median('ltc_us'):.0f}, {r.median('stoc_us'):.0f}"),
    ("others %", lambda r: f"{r.median('others'):.0f}"),
]


def text(figure, head, results):
    rows = [Row(cell, results) for cell in figure.cells]
    table = [[*figure.axes, *(heading for heading, _ in _COLUMNS), ""]]
    for row in rows:
        values = [value(row) for _, value in _COLUMNS] if row.runs else ["-"] * len(_COLUMNS)
        table.append([*row.cell.points.values(), *values, row.note])
    parts = [figure.title, figure.what, head, aligned(table)]
    beside = paper_rows(figure, rows)
    if len(beside) > 1:
        parts.append("Beside the paper, as its text and tables state it:\n" + aligned(beside))
    return "\n\n".join(part for part in parts if part) + "\n"


def paper_rows(figure, rows):
    """A table of what the paper states, and the same of ours."""
    row_of = {row.cell.name: row for row in rows}
    table = [["", "the paper", "ours", ""]]
    first = None  # of the cells with a stated rate: rates are compared as parts of its
    for stated in figure.paper:
        for cell, other in figure.pairs(stated):
            row, says = row_of[cell.name], stated.get("says", "")
            if other is not None:
                against = " ".join(p for axis, p in other.points.items() if cell.points[axis] != p)
                table.append([f"{_label(cell)} over {against}", _stated_factor(stated),
                              _factor(row, row_of[other.name]), says])
            if "ops" in stated:
                first = first or (stated["ops"], row)
                table.append([f"{_label(cell)}: operations/s, by the first's",
                              f"{stated['ops']:,} {stated['ops'] / first[0]:.2f}",
                              "void" if row.is_void else
                              f"{_thousands(row.median('ops'))} {_factor(row, first[1])}", says])
            if "stalled" in stated:
                ours = "void"
                if not row.is_void:
                    ours = f"{row.spread('stalled', '{:.0f}'.format)}, held {row.median('held'):.0f}"
                table.append([f"{_label(cell)}: % of the time stalled", f"{stated['stalled']}", ours, says])
    return table


def _label(cell):
    return " ".join(cell.points.values())


def _stated_factor(stated):
    if "at_least" in stated:
        return f"{stated['at_least']} or more"
    factor = stated["factor"]
    return f"{factor[0]} to {factor[1]}" if isinstance(factor, list) else f"{factor}"


def _factor(row, other):
    factors = [values["ops"] / max(other.runs[run]["ops"], 1e-9)
               for run, values in row.runs.items() if run in other.runs]
    if not factors or row.is_void or other.is_void:
        return "void"
    middle = f"{statistics.median(factors):.2f}"
    return middle if len(factors) == 1 else f"{middle} ({min(factors):.2f} - {max(factors):.2f})"


def _thousands(value):
    return f"{value:,.0f}"


def aligned(table):
    widths = [max(len(str(row[i])) for row in table) for i in range(len(table[0]))]
    return "\n".join("  ".join(str(v).ljust(w) for v, w in zip(row, widths)).rstrip() for row in table)


# --- the picture

def draw(path, figure, results):
    """Returns why there is no picture; "": there is one. Else its script stays, to be run by hand."""
    rows = [row for row in (Row(cell, results) for cell in figure.cells) if row.runs]
    if not rows:
        return "no run gave a result"
    lines = figure.chart.get("lines")
    panels = _line_panels(rows) if lines else _bar_panels(figure, rows) + _paper_panel(figure)
    return plot(path, figure.title, panels)


def plot(path, title, panels):
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    script = [f"set terminal pngcairo size {columns * 620},{lines * 420 + 40}", f"set output {_quoted(path)}",
              f"set multiplot layout {lines},{columns} title {_quoted(title)} noenhanced",
              "set style fill solid 0.7 border -1", "set grid ytics", "set yrange [0:*]",
              "set key top left noenhanced", "set xtics noenhanced rotate by -20"]
    for panel in panels:
        script += panel
    script += ["unset multiplot", ""]
    script_path = path + ".gp"
    with open(script_path, "w", encoding="utf-8") as f:
        f.write("\n".join(script))
    try:
        drawn = subprocess.run(["gnuplot", script_path], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return f"no gnuplot (deploy/packages.sh --experiments); the script is {script_path}"
    if drawn.returncode != 0:
        return f"gnuplot: {drawn.stderr.strip()}"
    os.remove(script_path)
    return ""


def _quoted(words):
    return "'" + str(words).replace("'", "''") + "'"


def _bar_panels(figure, rows):
    """A panel for each point of one axis; bars, side by side, for those of another; groups for the rest."""
    panel_axis, bar_axis = figure.chart.get("panels"), figure.chart.get("bars")
    others = [axis for axis in figure.axes if axis not in (panel_axis, bar_axis)]
    panels = []
    for panel in _points(rows, panel_axis):
        here = [row for row in rows if row.cell.points.get(panel_axis) == panel]
        bars = _points(here, bar_axis)
        groups = list(dict.fromkeys(_group(row, others) for row in here))
        data = []
        for group in groups:
            words = [_quoted(group).replace("'", '"')]
            for bar in bars:
                row = next((r for r in here if _group(r, others) == group
                            and r.cell.points.get(bar_axis) == bar), None)
                words += [f"{f(row.all('ops')):.1f}" if row else "NaN" for f in (statistics.median, min, max)]
            data.append(" ".join(words))
        columns = [2 + 3 * i for i in range(len(bars))]
        plots = [f"$data using {c}:{c + 1}:{c + 2}:xtic(1) title {_quoted(bar or 'operations/s')}"
                 for c, bar in zip(columns, bars)]
        panels.append([f"set title {_quoted(panel or '')} noenhanced", "set ylabel 'operations/s'",
                       f"set xlabel {_quoted(' '.join(others))} noenhanced",
                       "set style data histograms", "set style histogram errorbars gap 1 lw 1",
                       "$data << END", *data, "END", "plot " + ", ".join(plots)])
    return panels


def _paper_panel(figure):
    """The rates that the paper states, where it states several."""
    data = [f'"{_label(cell)}" {stated["ops"]}' for stated in figure.paper if "ops" in stated
            for cell, _ in figure.pairs(stated)]
    if len(data) < 2:
        return []
    return [["set title 'the paper' noenhanced", "unset xlabel", "set style data histograms",
             "set style histogram clustered gap 1", "$data << END", *data, "END",
             "plot $data using 2:xtic(1) title 'stated' linecolor 'grey'"]]


def _points(rows, axis):
    return list(dict.fromkeys(row.cell.points.get(axis) for row in rows))


def _group(row, axes):
    return " ".join(row.cell.points[axis] for axis in axes)


def _line_panels(rows):
    """Operations in each second of the first run, a panel a cell, on a logarithmic scale as in the paper."""
    panels = []
    most = max(max(values["seconds"]) for row in rows for values in row.runs.values())
    for row in rows:
        seconds = row.runs[min(row.runs)]["seconds"]
        panels.append([f"set title {_quoted(row.cell.name)} noenhanced", "set ylabel 'operations/s'",
                       "set xlabel 'seconds'", "set logscale y", "unset key",
                       f"set xrange [0:{len(seconds) + 1}]", f"set yrange [1:{2 * most + 1}]",
                       "$data << END", *(f"{i} {max(ops, 1)}" for i, ops in enumerate(seconds, 1)), "END",
                       "plot $data using 1:2 with impulses"])
    return panels
