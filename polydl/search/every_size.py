"""Code for the sizes that were not tuned: the same program with its sizes as parameters, in blocks.

A variant is made for values of the function's integer parameters. For others the output runs code that is made here,
once for all values: tiles of a constant size whose last ones run short, packed copies of tiles, microkernels whose
extents and strides are arguments. Legality is decided for all values at once, from the dependences of the program with
its parameters; where no loop would run, and where the work is less than forks of threads take, other code stands.

source:    the blocks and copies of BLIS (Van Zee and van de Geijn, TOMS 2015), which are made for any size as well
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from polydl.base.errors import InputError
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import Nest, nests
from polydl.lower.dispatch import chosen_by_work, where_all_runs
from polydl.lower.emit import Generated, generate
from polydl.model.scop import Scop
from polydl.rank.blocks import register_blocks_for
from polydl.rank.estimator import Estimator
from polydl.rank.traffic import TrafficRanker
from polydl.rewrite.canonical import Canonical, canonical
from polydl.schedule.check import check
from polydl.schedule.recipe import Recipe, recipe_of
from polydl.schedule.structure import Structure, apply
from polydl.schedule.transform import Transform
from polydl.schedule.transforms import Microkernel, Pack, Parallelize, Permute, Tile, Vectorize
from polydl.target import Machine

Reload = Callable[[Mapping[str, int]], Scop]
"""The same scop for other sizes. Raises InputError where the program does not work with them."""

_BLOCKS = 4
"""Register blocks that are tried."""
_DEPTHS = (128, 256, 512)
"""Steps of the reductions in a tile."""
_COLUMNS = (256, 1024)
"""Columns in a tile, about."""
_ROWS = (48, 192)
"""Rows in a tile, about."""
_FACTORS = (4.0, 0.25)
"""By which sizes differ from the tuned ones at the points where schedules are compared."""
_FORKS = 4.0
"""Times that forking the threads must be repaid by the work before it is shared out."""


@dataclass(frozen=True, slots=True)
class EverySize:
    """What runs at sizes that were not tuned."""

    generated: Generated
    """Its C."""
    recipe: Recipe
    """How its nests are scheduled where there is work for all threads."""

    def beside(self, code: Generated) -> Generated:
        """Code for some sizes with this for the others."""
        prologue = tuple(dict.fromkeys((*code.prologue, *self.generated.prologue)))
        return replace(code, prologue=prologue, otherwise=self.generated.region)


def every_size(
    symbolic: Scop, tuned: Mapping[str, int], reload: Reload, machine: Machine, threads: int, *, reassociate: bool
) -> EverySize | str:
    """Code for all values of a scop's parameters, or why there is none.

    `tuned`: values of the parameters around which schedules are compared by their estimates. Raises QuotaExceeded.
    """
    some = where_all_runs(symbolic)
    program = canonical(some.scop, reassociate=reassociate)
    scop, found = program.scop, program.dependences
    parts = nests(scop, found)
    if not any(nest.contraction is not None for nest in parts):
        return "no nest in it is a contraction"
    points = _points(tuned, reload, reassociate)
    shared: list[Structure] = []
    alone: list[Structure] = []
    for nest in parts:
        loops = nest_legality(nest, found, reassociate=reassociate).parallel_loops(nest) if threads > 1 else ()
        ways = _blocked(nest, loops, machine) if nest.contraction is not None else [_rows(nest, loops)]
        if not ways:
            return f"no microkernel fits {nest.name}"
        best = min(ways, key=dict(zip(ways, _losses(nest, ways, points, machine, threads), strict=True)).__getitem__)
        shared.append(apply(nest, best))
        copied = _transposed(shared[-1])
        alone.append(apply(nest, [t for t in best if not isinstance(t, Parallelize if copied else Parallelize | Pack)]))
    for structures in (shared, alone):
        why = check(scop, structures, found, reassociate=reassociate)
        if why is not None:
            return why
    heavy = [nest for nest in parts if nest.contraction is not None]
    peak = max(machine.peak(nest.contraction.element) for nest in heavy if nest.contraction is not None)
    least = _FORKS * machine.parallel_region_us * 1e-6 * peak / 2
    text = chosen_by_work(
        scop, some, [n.statements[0] for n in heavy], least,
        generate(scop, alone, other_sizes=True), generate(scop, shared, other_sizes=True),
    )  # fmt: skip
    return EverySize(text, recipe_of(shared))


def _transposed(structure: Structure) -> bool:
    found, kernel = structure.nest.contraction, structure.kernel
    return found is not None and kernel is not None and found.transposed(kernel.columns.iterator)


def _rows(nest: Nest, loops: Sequence[str]) -> tuple[Transform, ...]:
    """Of a nest without a microkernel: its outermost loop on all threads, the innermost one in vectors."""
    return (*([Parallelize((nest.loops[0],))] if nest.loops[:1] and nest.loops[0] in loops else []), Vectorize())


def _blocked(nest: Nest, loops: Sequence[str], machine: Machine) -> list[tuple[Transform, ...]]:
    """Ways to run a contraction in blocks that do not depend on its sizes, each a list of transforms."""
    found = nest.contraction
    assert found is not None
    ways: list[tuple[Transform, ...]] = []
    for rows, columns, m, n in register_blocks_for(machine)(nest)[:_BLOCKS]:
        if rows is None or not nest.box:
            continue
        reductions = [i for i in found.reductions if nest.counts[i].extent != 1]
        deep = next((i for i in reductions if nest.counts[i].extent is None), None)
        # Reductions of other symbolic extents stay around: a copy needs a bound for each loop that it is of.
        inside = [i for i in reductions if i == deep or nest.counts[i].extent is not None]
        outside = [i for i in nest.loops if i not in (rows, columns, *inside)]
        steps = math.prod(nest.counts[i].extent or 1 for i in inside)
        for depth, wide, high in itertools.product(_DEPTHS, _COLUMNS, _ROWS):
            tiles: list[Transform] = [Tile(deep, (max(8, depth // steps),))] if deep is not None else []
            tiles += [Tile(columns, (n * max(2, round(wide / n)),)), Tile(rows, (m * max(2, round(high / m)),))]
            over = [] if deep is None else [f"{deep}.0"]
            points = tuple(f"{i}.1" if i == deep else i for i in inside)
            kernel = Microkernel(f"{rows}.1", f"{columns}.1", m, n, points)
            for first, second in ((columns, rows), (rows, columns)):
                order = (*outside, f"{first}.0", *over, f"{second}.0", f"{columns}.1", f"{rows}.1")
                base: list[Transform] = [*tiles, kernel, Permute(order)]
                parallel = outside[: _run(outside, loops)] or [f"{second}.0"]
                base += [Parallelize(tuple(parallel))] if second in loops or parallel[0] in loops else []
                for packs in _packs(rows, columns, first, over):
                    if found.transposed(columns) and not packs:
                        continue  # the microkernel reads neighbours along its columns
                    try:
                        apply(nest, [*base, *packs])
                    except InputError:  # no place for a copy
                        continue
                    ways.append((*base, *packs))
    return ways


def _run(outside: Sequence[str], loops: Sequence[str]) -> int:
    """How many of the outermost loops may be shared out together."""
    return next((n for n, loop in enumerate(outside) if loop not in loops), len(outside))


def _packs(rows: str, columns: str, first: str, over: Sequence[str]) -> Iterator[tuple[Pack, ...]]:
    """Copies of tiles of the operands: of that which the outer of the two loops over tiles moves, outside of the inner
    one; of the other inside of it."""
    outer = over[-1] if over else f"{first}.0"
    inner = f"{rows}.0" if first == columns else f"{columns}.0"
    place = {"B": outer, "A": inner} if first == columns else {"A": outer, "B": inner}
    for operands in ((), ("B",), ("B", "A")):
        yield tuple(Pack(operand, place[operand]) for operand in operands)


def _points(tuned: Mapping[str, int], reload: Reload, reassociate: bool) -> list[Canonical]:
    """The program at the tuned sizes and around them: all larger or smaller, and each by itself."""
    wanted = [dict(tuned)]
    for factor in _FACTORS:
        other = {name: max(1, round(value * factor)) for name, value in tuned.items()}
        wanted += [other, *({**tuned, name: other[name]} for name in tuned)]
    points = []
    for sizes in wanted:
        try:
            points.append(canonical(reload(sizes), reassociate=reassociate))
        except InputError:
            continue  # such as a leading dimension below the row's length
    return points


def _losses(
    nest: Nest, ways: Sequence[Sequence[Transform]], points: Sequence[Canonical], machine: Machine, threads: int
) -> list[float]:
    """Per way how much slower it is than the best of them, over all points: the sum of the logarithms of the ratios of
    the estimates."""
    total = [0.0] * len(ways)
    for point in points:
        parts = nests(point.scop, point.dependences)
        there = next((one for one in parts if (one.name, one.loops) == (nest.name, nest.loops)), None)
        if there is None or (there.contraction is None) != (nest.contraction is None):
            continue  # at these sizes it is rewritten otherwise
        estimator = Estimator(point.scop, parts, machine, threads, TrafficRanker())
        scores = [one.score for one in estimator.structures(there, [apply(there, list(way)) for way in ways])]
        total = [one + math.log(score / min(scores)) for one, score in zip(total, scores, strict=True)]
    return total
