"""What the experiments write: a table, JSON, CSV and a bar chart."""

from __future__ import annotations

import csv
import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import POLYDL, Row, geomean, run_peak
from rich.console import Console
from rich.table import Table

PLACEMENT_MATTERS = 1.1
"""From this ratio between allocations on, a row says that placement mattered."""


def table(rows: Sequence[Row], title: str) -> Table:
    """GFLOP/s per contender, hot; in brackets, cold."""
    names = list(dict.fromkeys(name for row in rows for name in row.timings))
    out = Table(title=title)
    out.add_column("problem")
    for name in names:
        out.add_column(name, justify="right")
    for heading in ("vs best", "cold", "of peak", "spread"):
        out.add_column(heading, justify="right")
    out.add_column("placement")
    for row in rows:
        shown = []
        for name in names:
            hot, cold = row.gflops(name), row.gflops(name, cold=True)
            shown.append("" if hot is None else f"{hot:.1f}" if cold is None else f"{hot:.1f} ({cold:.1f})")
        moved = [f"{n} {t.placement:.2f}x" for n, t in row.timings.items() if t.placement >= PLACEMENT_MATTERS]
        out.add_row(
            row.problem.name,
            *shown,
            _times(row.ratio_to_best_peer()),
            _times(row.ratio_to_best_peer(cold=True)),
            _percent(row.fraction_of_peak()),
            _percent(row.timings[POLYDL].spread if POLYDL in row.timings else None),
            ", ".join(moved),
        )
    means = summary(rows)
    out.add_section()
    out.add_row(
        "geometric mean",
        *[f"{g:.1f}" if (g := geomean([v for r in rows if (v := r.gflops(n))])) else "" for n in names],
        _times(means["ratio_to_best_peer"]),
        _times(means["cold_ratio_to_best_peer"]),
        _percent(means["fraction_of_peak"]),
        "",
        "",
    )
    return out


LOST = 0.97
"""Below this a row is one that a peer wins by more than its noise."""


def in_short(rows: Sequence[Row]) -> str:
    """One line: the geometric mean and the worst of polydl over the best peer, what it loses, its share of the peak."""
    ratios = {row.problem.name: r for row in rows if (r := row.ratio_to_best_peer()) is not None}
    if not ratios:
        return "nothing was compared with polydl"
    worst = min(ratios, key=lambda name: ratios[name])
    lost = [name for name, ratio in ratios.items() if ratio < LOST]
    shares = [f for row in rows if (f := row.fraction_of_peak()) is not None]
    peaks = ", ".join(dict.fromkeys(row.problem.product.name for row in rows))
    return (
        f"{len(ratios)} problems: geometric mean {geomean(list(ratios.values())):.3f}x of the best peer, worst "
        f"{ratios[worst]:.3f}x ({worst}), below {LOST}x: {', '.join(lost) or 'none'}; "
        f"{_percent(geomean(shares))} of the peak of {peaks}, at least {_percent(min(shares))}"
    )


def summary(rows: Sequence[Row]) -> dict[str, float | None]:
    """Geometric means over the rows that have the figure."""
    return {
        "ratio_to_best_peer": geomean([r for row in rows if (r := row.ratio_to_best_peer()) is not None]),
        "cold_ratio_to_best_peer": geomean([r for row in rows if (r := row.ratio_to_best_peer(cold=True)) is not None]),
        "fraction_of_peak": geomean([f for row in rows if (f := row.fraction_of_peak()) is not None]),
    }


def document(rows: Sequence[Row], threads: int, bandwidth: float) -> dict[str, Any]:
    """The JSON document: GFLOP/s unless a name says otherwise."""
    return {
        "machine": machine(),
        "commit": commit(),
        "command": shlex.join(sys.argv),
        "threads": threads,
        "peak_gflops": run_peak(rows),
        "read_bandwidth_gb_per_s": bandwidth,
        "rows": [_row(row, bandwidth) for row in rows],
        "geomean": summary(rows),
    }


def _row(row: Row, bandwidth: float) -> dict[str, Any]:
    return {
        "name": row.problem.name,
        "polydl": row.gflops(POLYDL),
        "peers": {name: row.gflops(name) for name in row.peers},
        "ratio_to_best_peer": row.ratio_to_best_peer(),
        "ratios": {name: row.ratio(name) for name in row.peers},
        "fraction_of_peak": row.fraction_of_peak(),
        "fraction_of_read_bandwidth": {name: row.bandwidth(name) / bandwidth for name in row.timings},
        "cold": {
            "polydl": row.gflops(POLYDL, cold=True),
            "peers": {name: row.gflops(name, cold=True) for name in row.peers},
            "ratio_to_best_peer": row.ratio_to_best_peer(cold=True),
        },
        "peak_gflops": row.peak,
        "peak_of": row.problem.product.name,
        "spread": {name: t.spread for name, t in row.timings.items()},
        "placement": {name: t.placement for name, t in row.timings.items()},
        "corrections": {name: t.note for name, t in row.timings.items() if t.note},
        "seconds": {name: {"hot": t.hot, "cold": t.cold} for name, t in row.timings.items()},
        "operations": row.problem.operations,
        **row.problem.notes,
    }


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """One line per problem and contender."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["problem", "contender", "gflops", "cold_gflops", "polydl_over_it", "peak_gflops", "placement"])
        for row in rows:
            for name, timings in row.timings.items():
                figures = [row.gflops(name), row.gflops(name, cold=True), row.ratio(name), row.peak, timings.placement]
                writer.writerow([row.problem.name, name, *("" if f is None else f"{f:.4f}" for f in figures)])


def plot(path: Path, rows: Sequence[Row], title: str) -> None:
    """Bars of GFLOP/s per problem and contender, the FMA peak as a line (figures 9, 11, 13 and 18 of PolyDL)."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(name for row in rows for name in row.timings))
    figure, axes = plt.subplots(figsize=(max(6.0, 0.25 * len(rows) * (len(names) + 1)), 4.5))
    width = 0.8 / len(names)
    for position, name in enumerate(names):
        places = [i - 0.4 + (position + 0.5) * width for i in range(len(rows))]
        axes.bar(places, [row.gflops(name) or 0.0 for row in rows], width, label=name)
    axes.axhline(run_peak(rows), color="black", linestyle="--", linewidth=1, label="FMA peak")
    axes.set_xticks(range(len(rows)), [row.problem.name for row in rows], rotation=60, ha="right")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(title)
    axes.legend(fontsize="small", ncols=min(4, len(names) + 1), loc="upper center", bbox_to_anchor=(0.5, -0.35))
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


def machine() -> dict[str, str]:
    """Processor, compiler and kernel."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    compiler = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), platform.machine())
    return {"cpu": model, "compiler": compiler, "system": platform.platform(), "python": platform.python_version()}


def commit() -> str:
    """The checked-out commit, with `-dirty` where files differ from it; `unknown` outside a checkout."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def write_all(
    rows: Sequence[Row],
    title: str,
    threads: int,
    bandwidth: float,
    outputs: Mapping[str, Path | None],
    quiet: bool = False,
) -> None:
    """Print the table (unless `quiet`) and write the files that were asked for: `json`, `csv`, `plot`."""
    if not quiet:
        Console(width=None if sys.stdout.isatty() else 200).print(table(rows, title))
        print(in_short(rows))
    if (path := outputs.get("json")) is not None:
        path.write_text(json.dumps(document(rows, threads, bandwidth), indent=1) + "\n", encoding="utf-8")
    if (path := outputs.get("csv")) is not None:
        write_csv(path, rows)
    if (path := outputs.get("plot")) is not None:
        plot(path, rows, title)


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"
