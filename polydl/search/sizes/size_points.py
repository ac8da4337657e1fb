"""Sizes at which ways to run a program of any size are compared: a program at some values of its parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from polydl.dependences.analysis import Dependence
from polydl.dependences.nests import Nest, nests
from polydl.model import isl
from polydl.model.at_sizes import at_sizes
from polydl.model.contraction import contraction_at
from polydl.model.scop import Scop
from polydl.rank.estimator import Estimator
from polydl.rank.traffic import TrafficRanker
from polydl.target import Machine

Ranges = Mapping[str, tuple[int, int]]
"""The least and the greatest value of each parameter."""


@dataclass(frozen=True, slots=True)
class SizePoint:
    """The program at some sizes."""

    scop: Scop
    nests: tuple[Nest, ...]
    """With the strides of these sizes."""


Lengths = Mapping[str, tuple[int, int]]
"""Parameters that are the length of an operand's rows, each with a period and a width: rows of a multiple of the period
or, by less than the width, more elements start in one set of a cache."""


def size_points(
    scop: Scop,
    found: Sequence[Dependence],
    parts: Sequence[Nest],
    ranges: Ranges,
    count: int,
    lengths: Lengths,
    *,
    crowded: bool,
) -> Iterator[SizePoint]:
    """The program at up to `count` sizes of these ranges; the same ones each time. Those at which something does not
    run are left out. `found`, `parts`: its dependences and nests with sizes as parameters; `crowded`: whether one or
    more of the lengths are such multiples, or none is."""
    some = [tuple(lengths)[i:j] for i in range(len(lengths)) for j in range(i + 1, len(lengths) + 1)]
    for place, drawn in enumerate(_drawn(ranges, count)):
        sizes = {n: _apart(size, *lengths[n]) if n in lengths else size for n, size in drawn.items()}
        if crowded:
            sizes |= {n: _multiple(drawn[n], ranges[n][1], lengths[n][0]) for n in some[place % len(some)]}
        nearest = nearest_possible(scop.context, ranges, sizes)
        point = None if nearest is None else point_at(scop, found, parts, nearest)
        if point is not None:
            yield point


def too_few(ranges: Ranges) -> str:
    """Why nothing is compared in these ranges, for people."""
    return f"few sizes with {', '.join(f'{n} = {low}..{high}' for n, (low, high) in ranges.items())} are possible"


def point_at(
    scop: Scop, found: Sequence[Dependence], parts: Sequence[Nest], sizes: Mapping[str, int]
) -> SizePoint | None:
    """The program at these sizes; None where something does not run, or where its loops are others."""
    there = at_sizes(scop, sizes)
    if any(statement.domain.is_empty() for statement in there.statements):
        return None
    made = nests(there, found, contractions=False)
    if [(n.name, n.loops) for n in made] != [(n.name, n.loops) for n in parts]:
        return None
    # A loop of one iteration moves nothing, which is no reason to take another for it at these sizes.
    own = [None if n.contraction is None else contraction_at(n.contraction, there) for n in parts]
    sized = (replace(n, contraction=c, symbolic=p) for n, c, p in zip(made, own, parts, strict=True))
    return SizePoint(there, tuple(sized))


def _multiple(size: int, most: int, period: int) -> int:
    return min(max(1, round(size / period)), most // period) * period


def _apart(size: int, period: int, width: int) -> int:
    return size + width if size >= period and size % period < width else size


def _drawn(ranges: Ranges, count: int) -> Iterator[dict[str, int]]:
    random = Random(0)
    # All of them small, large and in between: what is left to chance may have none of these.
    ends = [{n: round(low ** (1 - f) * high**f) for n, (low, high) in ranges.items()} for f in (0.0, 0.2, 0.6, 1.0)]
    yield from ends
    for _ in range(count - len(ends)):
        yield {n: _size(*r, random) for n, r in ranges.items()}


def _size(low: int, high: int, random: Random) -> int:
    """A size of a range, as likely in each order of magnitude; a third each are any number, a multiple of 16, and a
    power of two, which has conflicts in caches of its own."""
    value = math.exp(random.uniform(math.log(low), math.log(high)))
    kind = random.randrange(3)
    if kind == 0 or value < 16:
        found = round(value)
    else:
        found = 16 * round(value / 16) if kind == 1 else 2 ** round(math.log2(value))
    return min(max(found, low), high)


def nearest_possible(context: isl.Set, ranges: Ranges, wanted: Mapping[str, int]) -> dict[str, int] | None:
    """Sizes that a program works with, near the wanted ones: a leading dimension is not shorter than its row. One size
    is found after the other; None where those before leave no value for one."""
    names = list(ranges)
    left = isl.as_dimensions(isl.parametric(context, names), names)
    for name, (low, high) in ranges.items():
        left = isl.between(left, name, low, high)
    found: dict[str, int] = {}
    for name, size in wanted.items():
        if left.is_empty():
            return None
        least, greatest = isl.bounds(left, name)
        found[name] = min(max(size, least), greatest)
        left = isl.fix(left, name, found[name])
    return None if left.is_empty() else found


def estimator_at(point: SizePoint, machine: Machine, threads: int, equal: Mapping[str, str] | None = None) -> Estimator:
    """Estimates of the program at some sizes: one for all of its nests, since each needs what the others touch.
    `equal`: by the name of each nest that of the first one that is equal to it at all sizes."""
    return Estimator(point.scop, point.nests, machine, threads, TrafficRanker(), equal)
