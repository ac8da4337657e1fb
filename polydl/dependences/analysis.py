"""Exact memory-based dependences between statement instances.

All pairs of instances that touch the same element are kept (not only the nearest): legality needs a set that is
preserved under every reordering, and reuse (RAR) needs all of them (Feautrier, "Dataflow analysis of array and
scalar references", 1991, without its last-write refinement).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum

from polydl.base import html
from polydl.base.records import dataclass
from polydl.dependences.scalars import private_storage
from polydl.model import isl
from polydl.model.accumulation import accumulation
from polydl.model.combiners import Combiner, Regrouping
from polydl.model.isl import quota
from polydl.model.scop import Access, Assignment, BlackBox, MicrokernelCall, Scop, Statement
from polydl.model.time import common_depth


class Kind(Enum):
    """What the two ends do: RAW is a read after a write (flow), WAR anti, WAW output, RAR input."""

    RAW = "RAW"
    WAR = "WAR"
    WAW = "WAW"
    RAR = "RAR"


@dataclass(frozen=True, slots=True)
class Dependence:
    """Pairs of instances, source before target in the original order, that touch the same element of one array."""

    kind: Kind
    array: str
    source: str
    target: str
    relation: isl.Map
    """{ Source[i…] -> Target[j…] }, exact, never empty."""
    depth: int | None
    """Depth of the carrying loop (0 outermost); None when loop independent."""
    carried_by: str | None
    """Name of the carrying loop."""
    regrouping: Regrouping | None
    """Of accumulations of one statement into the same element, which must not run at the same time: what becomes of the
    result in another order; of FIRST the order must stay, but groups of neighbours may be combined by themselves. None
    where an end is no accumulation."""

    @property
    def reduction(self) -> bool:
        """Whether both ends are accumulations of one statement into the same element."""
        return self.regrouping is not None

    def movable(self, *, reassociate: bool) -> bool:
        """Whether the two ends may change places. `reassociate`: results may round otherwise."""
        return self.regrouping is Regrouping.EXACT or (reassociate and self.regrouping is Regrouping.ROUNDS)

    def apart(self, *, reassociate: bool) -> bool:
        """Whether blocks of accumulations, in order, may have an accumulator each."""
        return self.reduction and (reassociate or self.regrouping is not Regrouping.ROUNDS)

    def _repr_html_(self) -> str:
        known = {"carried by": self.carried_by or "no loop", "reduction": self.reduction, "relation": self.relation}
        return html.block(f"{self.kind.value} {self.array}: {self.source} to {self.target}", html.facts(known))


@dataclass(frozen=True, slots=True)
class _Accumulators:
    """What a statement accumulates into."""

    combiner: Combiner
    regrouping: Regrouping
    accesses: frozenset[int]
    """Indices of the accesses through which it reads and writes that."""


def _accumulators(scop: Scop, statement: Statement) -> _Accumulators | None:
    """None where the instances of the statement do more than accumulate."""
    match statement.body:
        case Assignment():
            found = accumulation(scop, statement)
            return None if found is None else _Accumulators(found.combiner, found.regrouping, found.own)
        case MicrokernelCall(inner=inner):
            each = [(s, _accumulators(scop, s)) for s in inner]
            kinds = {(one.combiner, one.regrouping) if one is not None else None for _, one in each}
            if len(kinds) != 1 or (kind := next(iter(kinds))) is None:
                return None
            own = [(s, one.accesses) for s, one in each if one is not None]
            into = {s.accesses[i].array for s, mine in own for i in mine}
            operands = {a.array for s, mine in own for i, a in enumerate(s.accesses) if i not in mine}
            arrays = [a.array for a in statement.accesses]
            return _Accumulators(
                *kind, frozenset(i for i, name in enumerate(arrays) if name in into and name not in operands)
            )
        case BlackBox():
            return None


def _kind(source: Access, target: Access) -> Kind:
    if source.write:
        return Kind.WAW if target.write else Kind.RAW
    return Kind.WAR if target.write else Kind.RAR


def _restrict_order(relation: isl.Map, source: Statement, target: Statement, depth: int, carried: bool) -> isl.Map:
    """The pairs that agree on the `depth` outer loops and, if `carried`, have source before target at loop `depth`."""
    relation = isl.agree(relation, range(depth))
    if not carried:
        return relation
    if source.iterators[depth] in source.descending:
        return isl.descending(relation, depth)
    return isl.ascending(relation, depth)


def _between(
    source: Statement,
    target: Statement,
    own: _Accumulators | None,
    private: Mapping[str, int],
    known: isl.Set,
    *,
    reads: bool,
) -> Iterable[Dependence]:
    """`own`: what the source accumulates into."""
    shared = common_depth(source, target)
    textually_before = source.position[: shared + 1] < target.position[: shared + 1]
    mine = own if source.name == target.name else None
    for i, a in enumerate(source.accesses):
        for j, b in enumerate(target.accesses):
            if a.array != b.array or not (reads or a.write or b.write):
                continue
            same_element = a.relation.apply_range(b.relation.reverse())
            same_element = isl.agree(same_element, range(private.get(a.array, 0)))
            if same_element.intersect_params(known).is_empty():
                continue
            orders = [(d, True) for d in range(shared)] + ([(shared, False)] if textually_before else [])
            for depth, carried in orders:
                relation = _restrict_order(same_element, source, target, depth, carried)
                # What is known about the parameters decides whether there is a dependence, and stays out of its text.
                if relation.intersect_params(known).is_empty():
                    continue
                yield Dependence(
                    kind=_kind(a, b),
                    array=a.array,
                    source=source.name,
                    target=target.name,
                    relation=relation.coalesce(),
                    depth=depth if carried else None,
                    carried_by=source.iterators[depth] if carried else None,
                    regrouping=mine.regrouping if mine is not None and {i, j} <= mine.accesses else None,
                )


def _merged(dependences: Iterable[Dependence]) -> tuple[Dependence, ...]:
    """One dependence per (kind, array, ends, carrier, regrouping): pairs of accesses with the same meaning united."""
    merged: dict[tuple[object, ...], Dependence] = {}
    for d in dependences:
        key = (d.kind, d.array, d.source, d.target, d.depth, d.regrouping)
        if key in merged:
            merged[key] = replace(d, relation=merged[key].relation.union(d.relation).coalesce())
        else:
            merged[key] = d
    return tuple(merged.values())


def _sharing(statements: Sequence[Statement]) -> Iterator[tuple[Statement, Statement]]:
    """The pairs of statements that access an array both, in textual order."""
    arrays = [{access.array for access in statement.accesses} for statement in statements]
    for own, source in zip(arrays, statements, strict=True):
        for other, target in zip(arrays, statements, strict=True):
            if not own.isdisjoint(other):
                yield source, target


def dependences(scop: Scop, *, reads: bool = True, among: Collection[str] | None = None) -> tuple[Dependence, ...]:
    """All dependences of a scop, one entry per kind, array, pair of statements and carrying loop.

    Scalars that are private to an iteration (dependences.scalars) depend on nothing outside of it. Dependences that no
    values of the parameters in the scop's context allow are left out. `reads=False`
    leaves out RAR, which matters to locality but never to legality; `among`: only those between these statements.
    Raises QuotaExceeded when isl needs more operations than its quota.
    """
    with quota(f"the dependence analysis of {scop.function}"):
        private = private_storage(scop)
        known = scop.context.params()
        some = [s for s in scop.statements if among is None or s.name in among]
        into = {s.name: _accumulators(scop, s) for s in some}
        return _merged(d for s, t in _sharing(some) for d in _between(s, t, into[s.name], private, known, reads=reads))
