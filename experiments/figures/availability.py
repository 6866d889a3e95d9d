"""Table 2: the mean time to the loss of a table, and of any table of the storage layer, as computed.

Every disk fails after m hours on the average, independent of others, and r hours later all that it held is
elsewhere again (Patterson et al., SIGMOD 1988). Copies are in sets of c disks, all of which have to be gone
at once: one set is lost after m^c / (c! r^(c-1)) hours on the average. A table of rho fragments has rho sets.
With parity a set is of rho + 1 disks and is lost with any two of them: m^2 / ((rho + 1) rho r).

Of the storage layer the paper divides by the number of disjoint sets that the disks make. Where the tables of
many sets are scattered over all n disks, as there and here, each choice of c disks is a set of some table's;
so a third column has that: m^c / (n (n-1) ... (n-c+1) r^(c-1)).
"""
import math

_HOURS = {"years": 365 * 24, "months": 30 * 24, "days": 24}

HEADING = ["rho", "", "MTTF of a table", "of the layer, disjoint sets", "of the layer, scattered",
           "more space", "the paper: table", "layer", "space"]


def rows(figure):
    """(heading, rows) of texts, by the file's [model] numbers."""
    text = figure.text["availability"]
    table = []
    for rho in text["rho"]:
        for copies in text["copies"]:
            table.append(_row(text, rho, f"{copies} cop{'y' if copies == 1 else 'ies'}",
                              sets_mttf(text["mttf_hours"], text["repair_hours"], copies) / rho,
                              copies, copies * rho, (copies - 1) * 100))
        parity = text["mttf_hours"] ** 2 / ((rho + 1) * rho * text["repair_hours"])
        table.append(_row(text, rho, "parity (not built)", parity, 2, rho + 1, 100 / rho))
    return HEADING, table


def sets_mttf(mttf, repair, copies):
    return mttf ** copies / (math.factorial(copies) * repair ** (copies - 1))


def layer_mttf(mttf, repair, disks, lost):
    """Until any `lost` of the disks are gone at once."""
    return mttf ** lost / (math.perm(disks, lost) * repair ** (lost - 1))


def _row(text, rho, kind, table_hours, lost, disks, percent):
    n = text["stocs"]
    stated = next((p for p in text["stated"] if p["rho"] == rho and kind.startswith(p["kind"])), {})
    disjoint = table_hours / max(1, n / disks)
    return [str(rho), kind, time_text(table_hours), time_text(disjoint),
            time_text(layer_mttf(text["mttf_hours"], text["repair_hours"], n, lost)), f"{percent:.0f} %",
            stated.get("table", "-"), stated.get("layer", "-"), stated.get("space", "-")]


def time_text(hours):
    for unit, length in _HOURS.items():
        if hours >= length or unit == "days":
            value = hours / length
            return f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
    return ""


def panels(figure):
    """For gnuplot: years until the layer loses a table, logarithmic."""
    text = figure.text["availability"]
    data = []
    for copies in text["copies"]:
        hours = layer_mttf(text["mttf_hours"], text["repair_hours"], text["stocs"], copies)
        data.append(f'"{copies} copies" {hours / _HOURS["years"]}')
    return [["set title 'storage layer, tables scattered over all StoCs'", "set ylabel 'years'",
             "set logscale y", "set yrange [0.001:*]", "set style data histograms", "set format y '%.0e'",
             "$data << END", *data, "END", "plot $data using 2:xtic(1) title 'mean time to the first loss'"]]
