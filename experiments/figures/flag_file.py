"""A figure's flag file: FIGURE.toml beside this program, read into cells.

    title = "..."                  of the figure
    what = "..."                   it shows
    scaled = "..."                 what is smaller here than in the paper, beyond docs/experiments.md
    [cell]                         settings (SETTINGS) of all cells
    [axes]                         in order; the grid is their product
    stocs = [1, 10]                values of the setting of that name
    memory = [{name = "32 MB", alpha = 1, delta = 2}, ...]        or points with a name and any settings
    [chart]                        panels = AXIS, bars = AXIS; or lines = true: operations over time
    [[paper]]                      what the paper states in its text and tables; nothing is read from a plot
    cell = {stocs = 10}            of which cells: points by axis; an axis that is not named: all its points
    over = {stocs = 1}             the same cells but for these points: then `factor` is of the two
    factor = 27                    a number, [low, high], or at_least = 9
    ops = 8924                     of the cell, operations a second; or stalled = 46, % of the time

A file with `model = "availability"` has no cells: availability.py.

Errors: FlagFileError, one line with the file's name.
"""
import itertools
import os
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))

# Every setting of a cell, and its value where a file does not say. Symbols are those of the paper's Table 1.
SETTINGS = {
    "ltcs": 1,               # eta
    "stocs": 10,             # beta
    "ranges_per_ltc": 1,     # omega
    "disk_mb": 2,            # MB/s of each StoC's disk, which reads and writes share
    "slow_disk_mb": 0,       # MB/s of the first StoC's, where its disk is slower than the others'; 0: it is not
    "tau_mb": 1,             # MB of a memtable, and of a table
    "alpha": 2,              # active memtables of a range
    "delta": 64,             # memtables of a range
    "rho": 1,                # StoCs that a table is scattered over
    "d": 2,                  # StoCs looked at for each one picked; 1: random
    "by_load": False,        # no more fragments than have a table stored first
    "copies": 1,             # of a table
    "page_cache": True,      # StoCs' reads cost their disks nothing: their hosts' memory holds all
    "cache_mb": 64,          # blocks and indexes in an LTC's memory
    "level0_mb": 32,         # in Level0, beyond which writers are slower than flushes
    "level1_mb": 64,
    "log_mode": "none",
    "workload": "W100",
    "distribution": "uniform",
    "zipf_constant": 0.99,
    "records": 160_000,
    "value_bytes": 1024,
    "threads": 64,           # of the client, each with one operation under way
    "seconds": 60.0,         # measured, after
    "skip_seconds": 10.0,    # in which memory fills
    "ltc_flags": {},         # any others of nova_ltc, without the dashes
    "stoc_flags": {},
}
_FLAGS = ("ltc_flags", "stoc_flags")
_PAPER = {"cell", "over", "factor", "at_least", "ops", "stalled", "says"}
_TOP = {"title", "what", "scaled", "cell", "axes", "chart", "paper", "leave_out", "model", "availability"}


class FlagFileError(Exception):
    pass


class Cell:
    """One bar of a figure: a point on each axis, and the settings that follow."""

    def __init__(self, points, settings):
        self.points = points  # {axis: name of the point}, in order
        self.settings = settings

    @property
    def name(self):
        return " ".join(f"{axis}={point}" for axis, point in self.points.items())

    def is_one_of(self, points):
        return all(self.points.get(axis) == str(point) for axis, point in points.items())


class Figure:
    def __init__(self, name, text):
        self.name = name
        try:
            self.text = tomllib.loads(text)
        except tomllib.TOMLDecodeError as e:
            raise FlagFileError(f"{name}.toml: {e}") from None
        self._check_keys(self.text, _TOP, "key")
        self.title = self.text.get("title") or self._refuse("has no title")
        self.what = self.text.get("what", "").strip()
        self.scaled = self.text.get("scaled", "").strip()
        self.chart = self.text.get("chart", {})
        self.model = self.text.get("model")
        self.paper = self.text.get("paper", [])
        self.axes = {axis: [self._point(axis, p) for p in points]
                     for axis, points in self.text.get("axes", {}).items()}
        self.cells = [] if self.model else self._cells()
        if not self.model:
            self._check_paper()
            for use in ("panels", "bars"):
                axis = self.chart.get(use)
                if axis is not None and axis not in self.axes:
                    self._refuse(f"chart.{use} = {axis!r} is no axis")

    def _refuse(self, why):
        raise FlagFileError(f"{self.name}.toml: {why}")

    def _check_keys(self, table, known, kind):
        for key in table:
            if key not in known:
                self._refuse(f"unknown {kind} {key!r}")

    def _point(self, axis, value):
        """(name, settings) of one point of an axis."""
        if not isinstance(value, dict):
            if axis not in SETTINGS:
                self._refuse(f"axis {axis!r} is no setting, so its points need names")
            return str(value), {axis: value}
        settings = dict(value)
        name = settings.pop("name", None) or self._refuse(f"a point of axis {axis!r} has no name")
        self._check_keys(settings, SETTINGS, f"setting of {axis} = {name!r}:")
        return name, settings

    def _cells(self):
        base = self.text.get("cell", {})
        self._check_keys(base, SETTINGS, "setting")
        cells = []
        for combination in itertools.product(*self.axes.values()):
            settings = merged(SETTINGS, base)
            for _, of_point in combination:
                settings = merged(settings, of_point)
            self._check(settings)
            cell = Cell(dict(zip(self.axes, (name for name, _ in combination))), settings)
            if not any(cell.is_one_of(points) for points in self.text.get("leave_out", [])):
                cells.append(cell)
        return cells

    def _check(self, settings):
        for key, value in settings.items():
            kind = type(SETTINGS[key])
            if type(value) is not kind and not (kind is float and type(value) is int):
                self._refuse(f"{key} = {value!r} is no {kind.__name__}")
        alpha, delta = settings["alpha"], settings["delta"]
        if delta % alpha != 0 or delta < 2 * alpha:
            self._refuse(f"delta = {delta} is no multiple of alpha = {alpha}, or the same")

    def _check_paper(self):
        for stated in self.paper:
            self._check_keys(stated, _PAPER, "key of [[paper]]")
            factor = "factor" in stated or "at_least" in stated
            if factor != ("over" in stated) or not (factor or "ops" in stated or "stalled" in stated):
                self._refuse(f"[[paper]] {stated}: a factor goes with `over`, ops and stalled do not")
            if not self.pairs(stated):
                self._refuse(f"[[paper]] {stated}: there are no such cells")

    def pairs(self, stated):
        """The cells that an entry of [[paper]] is about, each with the one it is compared with, or None."""
        pairs = []
        for cell in self.cells:
            if not cell.is_one_of(stated.get("cell", {})):
                continue
            if "over" not in stated:
                pairs.append((cell, None))
                continue
            other = cell.points | {axis: str(point) for axis, point in stated["over"].items()}
            pairs += [(cell, o) for o in self.cells if o.points == other and o is not cell]
        return pairs

    def keep(self, wanted):
        """Leaves out all cells but those at the points {axis: names}."""
        for axis, names in wanted.items():
            points = [name for name, _ in self.axes.get(axis, [])]
            for name in names:
                if name not in points:
                    there_are = ", ".join(points) or "-"
                    raise FlagFileError(f"{self.name}: --only={axis}={name}: it has {axis} = {there_are}")
        self.cells = [c for c in self.cells if all(c.points[axis] in names for axis, names in wanted.items())]

    def override(self, settings):
        """Gives all cells these settings; none that points of an axis have, whose names would lie."""
        self._check_keys(settings, SETTINGS, "setting")
        for axis, points in self.axes.items():
            for key in settings:
                if key not in _FLAGS and any(key in of_point for _, of_point in points):
                    self._refuse(f"{key} is what axis {axis!r} is of")
        for cell in self.cells:
            cell.settings = merged(cell.settings, settings)
            self._check(cell.settings)

    def slow_down(self, times):
        """Disks, memory and records become so many times smaller: what processors have to do does, too."""
        for cell in self.cells:
            s = cell.settings = dict(cell.settings)
            for key in ("disk_mb", "slow_disk_mb"):
                s[key] = self._part(s, key, times)
            s["records"] //= times
            for key in ("cache_mb", "level0_mb", "level1_mb"):
                s[key] = max(1, s[key] // times)
            if s["tau_mb"] % times == 0:
                s["tau_mb"] //= times
            else:
                s["alpha"] = self._part(s, "alpha", times)
                s["delta"] = self._part(s, "delta", times)

    def _part(self, settings, key, times):
        if settings[key] % times != 0:
            raise FlagFileError(f"{self.name}: --slower={times}: {key} = {settings[key]} has no such part")
        return settings[key] // times


def merged(settings, others):
    """`settings`, with `others` in their place; of flags, each by its name."""
    result = settings | others
    for flags in _FLAGS:
        result[flags] = settings[flags] | others.get(flags, {})
    return result


def names():
    """Of all figures, in the paper's order: figures, what it has none of, tables."""
    found = [f[:-5] for f in os.listdir(HERE) if f.endswith(".toml")]
    return sorted(found, key=lambda n: (n.rstrip("0123456789"), int("".join(filter(str.isdigit, n)) or 0)))


def read(name):
    path = os.path.join(HERE, name + ".toml")
    if not os.path.exists(path):
        raise FlagFileError(f"there is no figure {name}: {', '.join(names())}")
    with open(path, encoding="utf-8") as f:
        return Figure(name, f.read())
