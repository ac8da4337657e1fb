"""How good the estimates are on the corpus of affine programs (tests/programs): what `optimize` times, against it.

python experiments/estimates.py --json estimates.json [--only NAME]… [--top-k K] [--resume]
python experiments/estimates.py --json estimates.json --against other.json    # another commit's file, nothing is run

For each program the variants that `optimize` would time are timed, with their predicted seconds. Figures: `first`, the
best of them over the first by score; `top 3`, over the best of the first three; the place of the best; the pairs that
differ by more than 20 % and are in order; predicted over measured seconds of the best. With --against: the best of this
file's over the best of the other's, each in terms of the original's time of its own run.

Sizes are those called `bench` in tests/programs/catalogue.toml; those of programs with reuse are made smaller by
--shrink, since their originals take minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import geomean
from output import commit, machine

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from polydl import pipeline  # noqa: E402
from polydl.base.errors import PolyDLError  # noqa: E402
from polydl.measure import MeasureOptions, measure  # noqa: E402
from polydl.measure.slices import original_slices  # noqa: E402
from polydl.options import Options  # noqa: E402
from polydl.search.timing_order import TimingOrder  # noqa: E402
from tests.programs.corpus import Entry, catalogue  # noqa: E402

APART = 1.2
"""Ratio of times from which the order of two variants is asked for."""
LARGE = 128
"""Sizes from which --shrink applies."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A variant: what was predicted, and what it took."""

    id: str
    recipe: str
    predicted: float
    """Seconds."""
    parts: Mapping[str, float]
    """Predicted seconds by resource."""
    seconds: float | None
    """The quickest sample; None: it failed, or was cut off for being slow."""


@dataclass(frozen=True, slots=True)
class Row:
    """A region of a program, its variants in the order of their scores."""

    name: str
    sizes: Mapping[str, int]
    original: float
    """Seconds."""
    variants: Sequence[Timed]

    @property
    def best(self) -> float:
        """Seconds of the quickest variant; infinite where none ran."""
        return min(map(seconds_of, self.variants), default=math.inf)

    def among(self, count: int) -> float:
        """The quickest time over that among the first `count`."""
        least = min(map(seconds_of, self.variants[:count]), default=math.inf)
        return self.best / least if math.isfinite(least) else 0.01

    def place(self) -> int:
        """Of the quickest, from 1."""
        return 1 + min(range(len(self.variants)), key=lambda i: seconds_of(self.variants[i]))

    def ordered(self) -> float | None:
        """The share of clearly different pairs that are in order; None where there are none."""
        pairs = [(a, b) for i, a in enumerate(self.variants) for b in self.variants[i + 1 :]]
        clear = [
            (seconds_of(a), seconds_of(b))
            for a, b in pairs
            if max(seconds_of(a), seconds_of(b)) > APART * min(seconds_of(a), seconds_of(b))
        ]
        return sum(a < b for a, b in clear) / len(clear) if clear else None


def seconds_of(one: Timed) -> float:
    """Infinite where there is no time."""
    return math.inf if one.seconds is None else one.seconds


def rows_of(entry: Entry, given: argparse.Namespace) -> list[Row]:
    """Rank, choose and time the variants of one program. Raises PolyDLError."""
    values = dict(entry.bench)
    if entry.kind == "reuse":
        values = {k: int(v * given.shrink) // 16 * 16 if v >= LARGE else v for k, v in values.items()}
    o = Options(
        defines=dict(entry.defines(values)),
        sizes=entry.parameters(values),
        threads=given.threads,
        top_k=given.top_k,
        timeout=given.timeout,
    )
    rows = []
    for number, scop in enumerate(pipeline.load(entry.path, o).scops):
        ranking = pipeline.with_fused(pipeline.rank(scop, options=o), o)
        chosen = TimingOrder(ranking.variants, given.top_k).next({}, given.top_k)
        how = MeasureOptions(threads=given.threads, timeout=given.timeout)
        codes = {variant.id: variant.generated for variant in chosen}
        report = measure(scop, codes, o.toolchain(), how, None, original_slices(scop))
        timed = [
            Timed(v.id, str(v.recipe), v.score, dict(v.estimate.seconds), min(m.samples, default=None))
            for v, m in zip(chosen, report.measurements, strict=True)
        ]
        name = entry.name if number == 0 else f"{entry.name} {number + 1}"
        rows.append(Row(name, values, min(report.original.samples), sorted(timed, key=lambda one: one.predicted)))
    return rows


def shown(row: Row) -> str:
    """One line for people."""
    best = row.variants[row.place() - 1]
    ordered = row.ordered()
    return (
        f"{row.name:20s} {len(row.variants):3} timed  first {row.among(1):.2f}  top 3 {row.among(3):.2f}  "
        f"best at {row.place()}  in order {'-' if ordered is None else f'{ordered:.2f}'}  "
        f"predicted/measured {best.predicted / row.best:.2f}  original/best {row.original / row.best:.2f}"
    )


def summary(rows: Sequence[Row]) -> dict[str, float | None]:
    """Over all rows: geometric means, and the mean share of pairs in order."""
    rows = [row for row in rows if math.isfinite(row.best)]
    ordered = [share for row in rows if (share := row.ordered()) is not None]
    return {
        "rows": len(rows),
        "first": geomean([row.among(1) for row in rows]),
        "top 3": geomean([row.among(3) for row in rows]),
        "in order": sum(ordered) / len(ordered) if ordered else None,
        "predicted over measured": geomean([row.variants[row.place() - 1].predicted / row.best for row in rows]),
    }


def against(rows: Sequence[Row], others: Sequence[Row]) -> None:
    """Print what each file's variants reach, in terms of the original."""
    theirs = {row.name: row for row in others}
    ratios = []
    for row in rows:
        other = theirs.get(row.name)
        if other is None or not (math.isfinite(row.best) and math.isfinite(other.best)):
            continue
        ratios.append((row.original / row.best) / (other.original / other.best))
        first = (row.original / row.best * row.among(1)) / (other.original / other.best * other.among(1))
        print(f"{row.name:20s} best of those timed {ratios[-1]:.2f}x the other's, first choice {first:.2f}x")
    print(f"{len(ratios)} rows, geometric mean {geomean(ratios) or math.nan:.3f}x")


def read(path: Path) -> list[Row]:
    """The rows of a file that this script wrote."""
    rows = json.loads(path.read_text())["rows"]
    return [Row(**{**row, "variants": [Timed(**one) for one in row["variants"]]}) for row in rows]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, metavar="FILE", required=True)
    options.add_argument("--against", type=Path, metavar="FILE", help="compare with this file, run nothing")
    options.add_argument("--only", metavar="NAME", action="append")
    options.add_argument("--resume", action="store_true", help="keep the programs that FILE has")
    options.add_argument("--top-k", type=int, default=5)
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--timeout", type=float, default=60.0, help="seconds of one run")
    options.add_argument("--shrink", type=float, default=0.6, help="factor of the sizes of programs with reuse")
    given = options.parse_args()
    if given.against:
        against(read(given.json), read(given.against))
        return 0
    rows = read(given.json) if given.resume and given.json.exists() else []
    entries = [e for e in catalogue().values() if given.only is None or e.name in given.only]
    failed = 0
    for number, entry in enumerate(entries, start=1):
        if any(row.name == entry.name for row in rows):
            continue
        try:
            found = rows_of(entry, given)
        except PolyDLError as error:
            failed += 1
            print(f"[{number}/{len(entries)}] {entry.name}: {error.reason}", flush=True)
            continue
        rows += found
        for row in found:
            print(f"[{number}/{len(entries)}] {shown(row)}", flush=True)
        document = {
            "machine": machine(),
            "commit": commit(),
            "command": shlex.join(sys.argv),
            "rows": [asdict(row) for row in rows],
            "summary": summary(rows),
        }
        given.json.write_text(json.dumps(document, indent=1) + "\n")
    print({name: value if value is None else round(value, 3) for name, value in summary(rows).items()})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
