"""Parts of a slow original: the instances that some elements of the output need, run in the original order.

A part is closed under flow dependences: whatever one of its instances reads was written by an instance of the part,
the same one as in the whole, or by nobody. So the elements that it is made for get exactly the value that the whole
original gives them, and running it costs a fraction of the original. What is compared with it is a sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from polydl.base.errors import QuotaExceeded
from polydl.dependences.analysis import Dependence, Kind, dependences
from polydl.dependences.scalars import private_scalars
from polydl.lower.ast import Writer
from polydl.lower.cexpr import Helpers
from polydl.lower.emit import Generated, declarations, finished, helper_texts, names_for
from polydl.model import isl
from polydl.model.counting import count
from polydl.model.isl import quota
from polydl.model.isl.trees import union_map, union_set
from polydl.model.schedule import original_schedule
from polydl.model.scop import Scop, Storage

WHOLE = 1_000_000_000
"""Statement instances up to which a scop is not cut into parts: plain code runs them in about a second."""
PART = 500_000_000
"""Instances of a part, about."""
_MOST_SHARE = 0.2
"""Share of the instances from which on a part saves too little."""
_LEAST_VALUES = 4
"""Values of the sampled dimension in a part, at least."""
_ROUNDS = 8
"""Steps of the closure under dependences: more are needed by recurrences in time, of which no part is small."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Every `step`-th element along one dimension of an array, the last one among them."""

    dimension: int
    first: int
    """Subscript of the first one, 0 <= first < step where subscripts begin with 0."""
    step: int


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the original."""

    code: Generated
    selections: Mapping[str, Selection]
    """By array: which elements hold what the original leaves there. Every live array that is written has one."""
    share: float
    """Instances of the part over those of the original, 0 < share < 1."""

    def __str__(self) -> str:
        said = [f"every {_ordinal(s.step)} of {name}{'[]' * s.dimension}[here]" for name, s in self.selections.items()]
        return " and ".join(said)


def _ordinal(n: int) -> str:
    ending = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def original_slices(scop: Scop, whole: int = WHOLE, part: int = PART) -> tuple[Slice, ...]:
    """Parts of the original that together sample its output along several dimensions, at most two, of about `part`
    instances each, for a scop of more than `whole`.

    Empty for a scop that is small enough to be run whole, and where no part is much smaller than the whole: outputs
    without a long dimension, elements that depend on most of the others. A scop whose dependences or counts exceed
    their quota has none either (it is then run whole).
    """
    if scop.parameters:
        return ()
    try:
        total = sum(count(s.domain).upper for s in scop.statements)
        if total <= whole:
            return ()
        flow = [d for d in dependences(scop, reads=False) if d.kind is Kind.RAW]
        with quota("parts of the original"):
            found = [
                _slice(scop, flow, total, max(-(-total // part), round(1 / _MOST_SHARE)), rank) for rank in range(2)
            ]
    except QuotaExceeded:
        return ()
    return tuple({str(one): one for one in found if one is not None}.values())


def _outputs(scop: Scop) -> list[str]:
    """Live arrays that are written."""
    written = {a.array for s in scop.statements for a in s.accesses if a.write}
    return [n for n in scop.arrays if n in written and n in scop.live_out]


def _selection(scop: Scop, array: str, wanted: int, rank: int) -> Selection | None:
    """The sampling of an array along the longest (rank 0) or second longest dimension that is written; about one of
    `wanted` elements. None where there is no such dimension."""
    regions = [a.relation.range() for s in scop.statements for a in s.accesses if a.write and a.array == array]
    region = reduce(isl.Set.union, regions)
    bounds = [isl.bounds(region, d) for d in range(isl.arity(region))]
    ordered = sorted(range(len(bounds)), key=lambda d: (bounds[d][0] - bounds[d][1], d))
    if len(ordered) <= rank:
        return None
    low, high = bounds[ordered[rank]]
    step = min(wanted, (high - low + 1) // _LEAST_VALUES) | 1  # odd: no power of two, as tile sizes often are
    if low < 0 or step < 3:
        return None
    return Selection(ordered[rank], high % step, step)


def _elements(scop: Scop, array: str, selection: Selection) -> isl.Set:
    """{ A[a…] } the selected elements."""
    space = next(a.relation for s in scop.statements for a in s.accesses if a.array == array).get_space().range()
    shifted = isl.linear(space, {selection.dimension: 1}, -selection.first)
    return isl.PwAff.from_aff(shifted.mod_val(isl.value(selection.step))).zero_set()


def _slice(scop: Scop, flow: Sequence[Dependence], total: int, wanted: int, rank: int) -> Slice | None:
    outputs = _outputs(scop)
    selections = {name: _selection(scop, name, wanted, rank) for name in outputs}
    if not outputs or any(s is None for s in selections.values()):
        return None
    chosen = {name: s for name, s in selections.items() if s is not None}
    needed = {s.name: isl.Set.empty(s.domain.get_space()) for s in scop.statements}
    for statement in scop.statements:
        for access in statement.accesses:
            if access.write and access.array in chosen:
                writers = access.relation.intersect_range(_elements(scop, access.array, chosen[access.array])).domain()
                needed[statement.name] = needed[statement.name].union(writers.intersect(statement.domain))
    closed = _closure(needed, flow)
    if closed is None:
        return None
    share = sum(count(points).upper for points in closed.values()) / total
    if not 0 < share <= _MOST_SHARE:
        return None
    return Slice(_generate(scop, closed), chosen, share)


def _closure(needed: Mapping[str, isl.Set], flow: Sequence[Dependence]) -> dict[str, isl.Set] | None:
    """The instances from which flow dependences lead to `needed`, these included; None when that takes long."""
    closed = dict(needed)
    for _ in range(_ROUNDS):
        grown = False
        for dependence in flow:
            sources = dependence.relation.intersect_range(closed[dependence.target]).domain()
            if not sources.is_subset(closed[dependence.source]):
                closed[dependence.source] = closed[dependence.source].union(sources).coalesce()
                grown = True
        if not grown:
            return closed
    return None


def _generate(scop: Scop, domains: Mapping[str, isl.Set]) -> Generated:
    """C text that runs the given instances in the original order, one thread."""
    times = original_schedule(scop)
    run = {name: points for name, points in domains.items() if not points.is_empty()}
    schedule = union_map(times[name].intersect_domain(points) for name, points in run.items())
    tree = isl.Schedule.from_domain(union_set(run.values()))
    tree = tree.insert_partial_schedule(isl.MultiUnionPwAff.from_union_map(schedule))
    names = names_for(scop)
    helpers = Helpers(names.prefix, set())
    lines = [f"  {a.declaration};" for a in scop.arrays.values() if a.storage is Storage.REGION]
    lines += Writer(scop, names, helpers, {}, (), tuple(private_scalars(scop))).write(tree, 1)
    return finished(scop, names, helper_texts(helpers, names), [*declarations(scop), *lines])
