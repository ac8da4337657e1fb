"""Searches replayed against full measurements: what a search finds that learns from its own timings, and from others'.

python experiments/learning.py --rows learning.jsonl                       # all machines of trained_models/data
python experiments/learning.py --data trained_models/data/zen3.parquet --rows learning.jsonl
python experiments/learning.py --rows across.jsonl --across                # after 0, 5, 20, 80 other problems
python experiments/learning.py --rows learning.jsonl --shown               # what the file has, nothing is replayed

Of each measured problem the variants are 'timed' one after the other, by their stored times, in an order: `static`,
that of the estimates; `learned`, as the search times them (`polydl.search.timing_order`), the estimates corrected by
what was timed before. A row is a problem, machine and order: the speed of the best that was found after 1, 3, 5, 8
and 12 timings over the best measured. Rows are written as they come; those that a file has are not made again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from common import RowFile
from judging import tell

from polydl.base import resources
from polydl.base.errors import PolyDLError
from polydl.learn.train.metrics import geometric
from polydl.learn.train.train_command import key_of
from polydl.learn.train.training_data import Group, load_data
from polydl.rank.corrected import PRIOR, Estimated, Prior, timed_next
from polydl.rank.shape_correction import Timings, fitted
from polydl.search.timing_order import ROUNDS

DATA = resources.trained_models() / "data"
STATIC = "static"
AFTER = (1, 3, 5, 8, 12)
"""Timings after which a search is judged."""
EARLIER, REPEATS, TIMED, FEWEST = (0, 5, 20, 80), 3, 5, 7
"""For --across: numbers of earlier problems, draws of which ones, variants timed of each, and problems judged by."""
DRAWS = 2000
"""Of the bootstrap."""


@dataclass(frozen=True, slots=True)
class Row:
    """A search that was replayed."""

    machine: str
    problem: str
    order: str
    reached: tuple[float, ...]
    """After so many timings (`AFTER`): speed of the best found over the best measured."""


def estimated_of(group: Group, prior: Prior = PRIOR) -> Estimated:
    """What a search knows of a problem's variants before it times any."""
    return Estimated.of(group.traffic_seconds, group.terms, group.recipes, prior)


def static_order(group: Group) -> list[int]:
    """The variants in the order of their estimates."""
    return [int(v) for v in np.argsort(group.traffic_seconds, kind="stable")]


def learned_order(group: Group, known: Estimated, most: int = AFTER[-1], least_gain: float = 0.0) -> list[int]:
    """The first variants that a search times which learns from its timings, in the rounds of `TimingOrder`."""
    timed: dict[int, float] = {}
    while len(timed) < min(most, len(group)):
        believed = dict(timed)
        for _ in range(min(ROUNDS[-1] if timed else ROUNDS[0], most - len(timed))):
            one = timed_next(known, believed)
            if one is None or (timed and one.gain < least_gain):
                break
            believed[one.variant] = one.expected
        if len(believed) == len(timed):
            break
        timed = {variant: float(group.log_seconds[variant]) for variant in believed}
    return list(timed)


def reached(group: Group, order: Sequence[int]) -> tuple[float, ...]:
    """See `Row`."""
    return tuple(float(np.exp(-group.gaps[list(order[:count])].min())) for count in AFTER)


def replayed(groups: Sequence[Group], machine: str) -> Iterator[Row]:
    """The rows of each problem by itself."""
    for group in groups:
        yield Row(machine, key_of(group), STATIC, reached(group, static_order(group)))
        yield Row(machine, key_of(group), "learned", reached(group, learned_order(group, estimated_of(group))))


def timings_of(group: Group, timed: Sequence[int]) -> Timings:
    """What a search leaves that timed these variants."""
    at = list(timed)
    terms = {name: part[at] for name, part in group.terms.items()}
    recipes = [group.recipes[v] for v in at]
    return Timings(recipes, np.log(group.traffic_seconds[at]), terms, group.log_seconds[at])


def across(groups: Sequence[Group], machine: str) -> Iterator[Row]:
    """The rows of problems after so many others (`EARLIER`) were searched on a machine that was new before: orders
    `after N`, drawn anew `REPEATS` times. Each of the others leaves what a search of the default length times."""
    known = [estimated_of(group) for group in groups]
    left = [timings_of(g, learned_order(g, k, TIMED)) for g, k in zip(groups, known, strict=True)]
    for repeat in range(REPEATS):
        order = np.random.default_rng(repeat).permutation(len(groups))
        judged = order[max(EARLIER) if len(groups) > max(EARLIER) + FEWEST else EARLIER[-2] :]
        for i in judged:
            yield Row(machine, f"{key_of(groups[i])} {repeat}", STATIC, reached(groups[i], static_order(groups[i])))
        for earlier in EARLIER:
            correction = fitted([left[i] for i in order[:earlier]])
            # The same problems are judged after few others and after many.
            for i in judged if earlier <= len(groups) - len(judged) else ():
                group, one = groups[i], known[i]
                if correction is not None:
                    one = one.moved(correction.added(group.recipes, group.terms, one.best))
                yield Row(
                    machine, f"{key_of(group)} {repeat}", f"after {earlier}", reached(group, learned_order(group, one))
                )


def rows_of(file: RowFile) -> list[Row]:
    """Those that a file has. Raises SystemExit for one that is no such file."""
    return [Row(**{**values, "reached": tuple(values["reached"])}) for values in file.rows()]


def show(rows: Sequence[Row]) -> None:
    """Per machine and order the geometric means with their 95 % intervals (problems drawn anew), and the worst."""
    print(f"{'machine':16} {'order':9} problems" + "".join(f"{f'after {n}':>22}" for n in AFTER) + "   worst after 5")
    for machine in dict.fromkeys(row.machine for row in rows):
        tables: dict[str, dict[str, Row]] = {}
        for row in rows:
            if row.machine == machine:
                tables.setdefault(row.order, {})[row.problem] = row
        for order, some in tables.items():
            table = np.log(np.array([row.reached for row in some.values()]))
            drawn = np.random.default_rng(0).integers(0, len(table), (DRAWS, len(table)))
            low, high = np.exp(np.percentile(table[drawn].mean(axis=1), [2.5, 97.5], axis=0))
            means = [geometric([row.reached[i] for row in some.values()]) for i in range(len(AFTER))]
            cells = "".join(f"   {m:.3f} ({a:.3f}-{b:.3f})" for m, a, b in zip(means, low, high, strict=True))
            worst = min(some.values(), key=lambda row: row.reached[2])
            print(
                f"{machine:16} {order:9} {len(some):8}{cells}   {worst.reached[2]:.3f} {worst.problem.split('/', 1)[1]}"
            )
        base = tables.get(STATIC, {})
        for order, some in tables.items():
            common = sorted(base.keys() & some.keys())
            if order != STATIC and common:
                gain = np.log([np.divide(some[p].reached, base[p].reached) for p in common])
                drawn = np.random.default_rng(0).integers(0, len(gain), (DRAWS, len(gain)))
                low, high = np.exp(np.percentile(gain[drawn].mean(axis=1), [2.5, 97.5], axis=0))
                cells = "".join(
                    f"   {m:.3f} ({a:.3f}-{b:.3f})"
                    for m, a, b in zip(np.exp(gain.mean(axis=0)), low, high, strict=True)
                )
                print(f"{machine:16} {order} over static{'':2}{cells}")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=DATA, help="store, export, or folder of exports")
    options.add_argument("--rows", type=Path, required=True, metavar="JSONL", help="where rows are added")
    options.add_argument("--across", action="store_true", help="after other problems were searched")
    options.add_argument("--shown", action="store_true", help="show the rows; nothing is replayed")
    given = options.parse_args()
    files = sorted(given.data.rglob("*.parquet")) if given.data.is_dir() else [given.data]
    rows = RowFile(given.rows, tuple(field.name for field in fields(Row)))
    known = {(row.machine, row.problem, row.order) for row in rows_of(rows)}
    try:
        for file in () if given.shown else files:
            data = load_data(file)
            for row in across(data.groups, file.stem) if given.across else replayed(data.groups, file.stem):
                if (row.machine, row.problem, row.order) not in known:
                    rows.add(asdict(row))
            tell(f"{file.stem}: {len(data.groups)} problems replayed")
    except PolyDLError as error:
        sys.stderr.write(error.render() + "\n")
        return error.exit_code
    show(rows_of(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
