"""Cuts slices out of a slow original: the statement instances that some elements of the output need, in their order.

A slice is closed under flow dependences: what one of its instances reads was written by an instance of the slice, the
same one as in the whole program, or is an input. So the selected elements get exactly the values that the whole
original computes, in a fraction of its time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from polydl.base.errors import QuotaExceeded
from polydl.base.records import dataclass
from polydl.dependences.analysis import Dependence, Kind, dependences
from polydl.dependences.scalars import private_scalars
from polydl.lower.ast import Writer
from polydl.lower.cexpr import Helpers
from polydl.lower.emit import Generated, finished, helper_texts, names_for
from polydl.lower.region_storage import declarations, storage
from polydl.model import isl
from polydl.model.counting import count
from polydl.model.isl import quota
from polydl.model.isl.trees import union_map, union_set
from polydl.model.scop import Scop
from polydl.model.time import original_schedule

WHOLE = 1_000_000_000
"""Statement instances up to which a scop is run whole: plain code runs them in about a second."""
PART = 500_000_000
"""Approximate number of instances in a slice."""
_MOST_SHARE = 0.2
"""Share of all instances above which a slice saves too little."""
_LEAST_VALUES = 4
"""Least number of selected values along the sampled dimension."""
_ROUNDS = 8
"""Steps of the closure under dependences. Recurrences in time would need more, and have no small slices."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Every `step`-th element along one dimension of an array, including the last one."""

    dimension: int
    first: int
    """Subscript of the first one, 0 <= first < step where subscripts begin with 0."""
    step: int


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of the original."""

    code: Generated
    selections: Mapping[str, Selection]
    """By array, the elements that get the values of the original. Each live array that is written has a selection."""
    share: float
    """Instances of the slice over those of the original, 0 < share < 1."""

    def __str__(self) -> str:
        said = [f"every {_ordinal(s.step)} of {name}{'[]' * s.dimension}[here]" for name, s in self.selections.items()]
        return " and ".join(said)


def _ordinal(n: int) -> str:
    ending = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def original_slices(scop: Scop, whole: int = WHOLE, part: int = PART) -> tuple[Slice, ...]:
    """At most two slices of the original, which sample its output along different dimensions, of about `part`
    instances.

    None for a scop of at most `whole` instances, and where no slice is much smaller than the whole: outputs without a
    long dimension, elements that depend on most of the others. None either where the dependences or counts exceed
    their quota. The scop is run whole then.
    """
    if scop.parameters:
        return ()
    try:
        total = sum(count(s.domain).upper for s in scop.statements)
        if total <= whole:
            return ()
        flow = [d for d in dependences(scop, reads=False) if d.kind is Kind.RAW]
        with quota("slices of the original"):
            found = [
                _slice(scop, flow, total, max(-(-total // part), round(1 / _MOST_SHARE)), rank) for rank in range(2)
            ]
    except QuotaExceeded:
        return ()
    return tuple({str(one): one for one in found if one is not None}.values())


def _outputs(scop: Scop) -> list[str]:
    """The live arrays that are written."""
    written = {a.array for s in scop.statements for a in s.accesses if a.write}
    return [n for n in scop.arrays if n in written and n in scop.live_out]


def _selection(scop: Scop, array: str, period: int, rank: int) -> Selection | None:
    """Select about one of `period` elements of an array along the longest (rank 0) or second longest dimension that is
    written. None where there is no such dimension."""
    regions = [a.relation.range() for s in scop.statements for a in s.accesses if a.write and a.array == array]
    region = reduce(isl.Set.union, regions)
    bounds = [isl.bounds(region, d) for d in range(isl.arity(region))]
    ordered = sorted(range(len(bounds)), key=lambda d: (bounds[d][0] - bounds[d][1], d))
    if len(ordered) <= rank:
        return None
    low, high = bounds[ordered[rank]]
    step = min(period, (high - low + 1) // _LEAST_VALUES) | 1  # odd: no power of two, as tile sizes often are
    if low < 0 or step < 3:
        return None
    return Selection(ordered[rank], high % step, step)


def _elements(scop: Scop, array: str, selection: Selection) -> isl.Set:
    """The selected elements of an array, { A[a…] }."""
    space = next(a.relation for s in scop.statements for a in s.accesses if a.array == array).get_space().range()
    shifted = isl.linear(space, {selection.dimension: 1}, -selection.first)
    return isl.PwAff.from_aff(shifted.mod_val(isl.value(selection.step))).zero_set()


def _slice(scop: Scop, flow: Sequence[Dependence], total: int, period: int, rank: int) -> Slice | None:
    outputs = _outputs(scop)
    selections = {name: _selection(scop, name, period, rank) for name in outputs}
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
    """The instances `needed`, and those from which flow dependences lead to them; None when that takes too many
    steps."""
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
    """C text that runs some instances in the original order, on one thread."""
    times = original_schedule(scop)
    run = {name: points for name, points in domains.items() if not points.is_empty()}
    schedule = union_map(times[name].intersect_domain(points) for name, points in run.items())
    tree = isl.Schedule.from_domain(union_set(run.values()))
    tree = tree.insert_partial_schedule(isl.MultiUnionPwAff.from_union_map(schedule))
    names = names_for(scop)
    helpers = Helpers(names.prefix, set())
    code = Writer(scop, names, helpers, {}, private=tuple(private_scalars(scop))).write(tree)
    return finished(scop, names, helper_texts(helpers, names), [*declarations(scop), *storage(scop, (), helpers), code])
