"""Exact memory-based dependences between statement instances.

All pairs of instances that touch the same element are kept (not only the nearest): legality needs a set that is
preserved under every reordering, and reuse (RAR) needs all of them (Feautrier, "Dataflow analysis of array and
scalar references", 1991, without its last-write refinement).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from polydl.base import html
from polydl.dependences.scalars import private_scalars
from polydl.model import isl
from polydl.model.combiners import Combiner, of_assignment
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
    reduction: bool
    """Both ends are accumulations `x op= e` of one statement into the same element: their order may change
    (reassociation), but they must not run at the same time."""

    def _repr_html_(self) -> str:
        known = {"carried by": self.carried_by or "no loop", "reduction": self.reduction, "relation": self.relation}
        return html.block(f"{self.kind.value} {self.array}: {self.source} to {self.target}", html.facts(known))


def is_reduction(statement: Statement) -> bool:
    """Whether the instances of the statement only accumulate into their target."""
    match statement.body:
        case Assignment(op=op):
            return of_assignment(op) is not None
        case MicrokernelCall(inner=inner):
            return all(is_reduction(s) for s in inner) and len({_combiner(s) for s in inner}) == 1
        case BlackBox():
            return False


def _combiner(statement: Statement) -> Combiner | None:
    assert isinstance(statement.body, Assignment)
    return of_assignment(statement.body.op)


def _accumulator_accesses(statement: Statement) -> frozenset[int]:
    """Indices of the accesses through which a reduction reads and writes its accumulator."""
    if not is_reduction(statement):
        return frozenset()
    match statement.body:
        case Assignment(target=target, target_read=target_read):
            return frozenset({target} if target_read is None else {target, target_read})
        case MicrokernelCall(inner=inner):
            accumulators = {s.accesses[i].array for s in inner for i in _accumulator_accesses(s)}
            operands = {a.array for s in inner for i, a in enumerate(s.accesses) if i not in _accumulator_accesses(s)}
            return frozenset(
                i for i, a in enumerate(statement.accesses) if a.array in accumulators and a.array not in operands
            )
        case BlackBox():
            return frozenset()


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
    source: Statement, target: Statement, private: Mapping[str, int], known: isl.Set, *, reads: bool
) -> Iterable[Dependence]:
    shared = common_depth(source, target)
    textually_before = source.position[: shared + 1] < target.position[: shared + 1]
    accumulators = _accumulator_accesses(source) if source.name == target.name else frozenset()
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
                    reduction=i in accumulators and j in accumulators,
                )


def _merged(dependences: Iterable[Dependence]) -> tuple[Dependence, ...]:
    """One dependence per (kind, array, ends, carrier, reduction): pairs of accesses with the same meaning united."""
    merged: dict[tuple[object, ...], Dependence] = {}
    for d in dependences:
        key = (d.kind, d.array, d.source, d.target, d.depth, d.reduction)
        if key in merged:
            union = merged[key].relation.union(d.relation).coalesce()
            merged[key] = Dependence(d.kind, d.array, d.source, d.target, union, d.depth, d.carried_by, d.reduction)
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


def dependences(scop: Scop, *, reads: bool = True) -> tuple[Dependence, ...]:
    """All dependences of a scop, one entry per kind, array, pair of statements and carrying loop.

    Scalars that are private to an iteration (dependences.scalars) depend on nothing outside of it. Dependences that no
    values of the parameters in the scop's context allow are left out. `reads=False`
    leaves out RAR, which matters to locality but never to legality.
    Raises QuotaExceeded when isl needs more operations than its quota.
    """
    with quota(f"the dependence analysis of {scop.function}"):
        private = private_scalars(scop)
        known = scop.context.params()
        return _merged(d for s, t in _sharing(scop.statements) for d in _between(s, t, private, known, reads=reads))
