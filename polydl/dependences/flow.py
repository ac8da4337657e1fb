"""What flows between the nests of a program: the edges of its graph, derived from dependences.

    for i: for j: T[i][j] = …        Edge(T, producer S0, consumer S1, { S0[i, j] -> S1[a, b] : a = i and b = j },
    for a: for b: y[a][b] = T[a][b]       bound (i, a, 0), (j, b, 0), private)

There is no graph of operators beside the program: its nests are the operators, and an edge is what one of them reads of
what another has written. Which axes of two operators belong together ("axis binding" in Li et al., "oneDNN Graph
Compiler", CGO 2024) is decided by dependences instead of by kinds of operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from polydl.base.records import dataclass
from polydl.dependences.analysis import Dependence, Kind
from polydl.dependences.nests import Nest
from polydl.model import isl
from polydl.model.counting import Count, count, count_symbolic, format_symbolic
from polydl.model.dataflow import last_writes
from polydl.model.isl import quota
from polydl.model.isl.trees import maps_of, union_map
from polydl.model.scop import Scop, Storage


@dataclass(frozen=True, slots=True)
class Bound:
    """Two loops that go together: producer = consumer + offset on every pair of an edge's relation."""

    producer: str
    """A loop of the producing nest, one around all of its statements."""
    consumer: str
    """Such a loop of the consuming nest."""
    offset: int
    """In the values of the C loop variables."""


@dataclass(frozen=True, slots=True)
class Edge:
    """What one nest reads of what another one, or the caller, has written."""

    array: str
    producer: str | None
    """Name of the nest that writes; None: the caller."""
    consumer: str
    """Name of the nest that reads."""
    relation: tuple[isl.Map, ...]
    """{ P[i…] -> C[j…] } by pairs of statements: all writes before a read of the same element (RAW), those that others
    replace too. Empty where the caller writes."""
    bytes: Count | str
    """Of the distinct elements that are read; text in the parameters, where their number depends on them, for those
    values for which any are read; `?` where it is not known."""
    private: bool
    """Nobody outside of the region sees the array, and no run reads an element before it has written it: it may lie
    anywhere, and have any layout."""
    constant: bool
    """No statement writes the array, and the caller says that it stays the same from run to run."""
    bound: tuple[Bound, ...]
    """All pairs of loops that go together."""

    def to_data(self) -> dict[str, Any]:
        """The edge in the document of `polydl analyze --json`."""
        size = self.bytes if isinstance(self.bytes, str) else self.bytes.lower if self.bytes.exact else str(self.bytes)
        return {
            "array": self.array,
            "producer": self.producer,
            "consumer": self.consumer,
            "relation": [str(one) for one in self.relation],
            "bytes": size,
            "private": self.private,
            "constant": self.constant,
            "bound": [{"producer": b.producer, "consumer": b.consumer, "offset": b.offset} for b in self.bound],
        }


@dataclass(frozen=True, slots=True)
class Flow:
    """The nests of a program, and what flows between them."""

    nests: tuple[Nest, ...]
    """In the order in which they run."""
    edges: tuple[Edge, ...]
    """By consumer and producer in this order, then by array; what the caller writes comes first."""

    def between(self, producer: str, consumer: str) -> tuple[Edge, ...]:
        """The edges from one nest to another."""
        return tuple(edge for edge in self.edges if (edge.producer, edge.consumer) == (producer, consumer))


def flow(scop: Scop, nests: Sequence[Nest], dependences: Sequence[Dependence]) -> Flow:
    """What flows between the nests of a program. `dependences`: all of the program, RAR may be left out.

    Raises QuotaExceeded when isl needs more operations than its quota.
    """
    of = {s.name: nest for nest in nests for s in nest.statements}
    place = {nest.name: at for at, nest in enumerate(nests)}
    pairs: dict[tuple[int, int, str], list[isl.Map]] = {}
    for d in dependences:
        ends = place[of[d.source].name], place[of[d.target].name]
        if d.kind is Kind.RAW and ends[0] != ends[1]:
            pairs.setdefault((ends[1], ends[0], d.array), []).append(d.relation)
    scratch = private_arrays(scop)
    edges: list[Edge] = []
    with quota(f"the flow between the nests of {scop.function}"):
        for at, nest in enumerate(nests):
            edges += _given(scop, nest)
            for _, source, array in sorted(key for key in pairs if key[0] == at):
                relation = tuple(maps_of(union_map(pairs[at, source, array])))
                producer = nests[source]
                edges.append(
                    Edge(
                        array, producer.name, nest.name, relation, _bytes(scop, array, _flowing(scop, array, relation)),
                        array in scratch, False, bound(producer, nest, relation),
                    )
                )  # fmt: skip
    return Flow(tuple(nests), tuple(edges))


def private_arrays(scop: Scop) -> frozenset[str]:
    """The arrays and scalars that nobody outside of the region sees, and of which no run reads an element before it has
    written it, for any value of the parameters. Raises QuotaExceeded."""
    used = {a.array for s in scop.statements for a in s.accesses if a.write}
    found = set()
    for name in sorted(used):
        array = scop.arrays[name]
        own = array.storage in (Storage.REGION, Storage.SCRATCH, Storage.LOCAL) and array.rows is None
        if own and (array.storage is Storage.REGION or name not in scop.live_out):
            with quota(f"what is read of {name}"):
                if last_writes(scop.statements, name, scop.context).before.is_empty():
                    found.add(name)
    return frozenset(found)


def bound(producer: Nest, consumer: Nest, relation: Sequence[isl.Map]) -> tuple[Bound, ...]:
    """The pairs of loops, each around all statements of its nest, that go together on all of a relation. Whoever asks
    has set a quota for isl."""
    each = [
        {
            (i, j): offset
            for i, first in enumerate(producer.loops)
            for j, second in enumerate(consumer.loops)
            if (offset := isl.distance(one, i, j)) is not None
        }
        for one in relation
    ]
    return tuple(
        Bound(producer.loops[i], consumer.loops[j], -offset)
        for (i, j), offset in (each[0].items() if each else ())
        if all(one.get((i, j)) == offset for one in each)
    )


def _flowing(scop: Scop, array: str, relation: Sequence[isl.Map]) -> list[isl.Set]:
    """The elements that a relation is about, by pairs of accesses; they may overlap."""
    found = []
    for one in relation:
        source, target = scop.statement(isl.domain_name(one)), scop.statement(isl.range_name(one))
        writes = [a.relation for a in source.accesses if a.write and a.array == array]
        reads = [a.relation for a in target.accesses if not a.write and a.array == array]
        sources, targets = one.domain(), one.range()
        found += [
            write.intersect_domain(sources).range().intersect(read.intersect_domain(targets).range())
            for write in writes
            for read in reads
        ]
    return found


def _given(scop: Scop, nest: Nest) -> list[Edge]:
    """What a nest reads of arrays that no statement writes."""
    written = {a.array for s in scop.statements for a in s.accesses if a.write}
    read: dict[str, list[isl.Set]] = {}
    for s in nest.statements:
        for a in s.accesses:
            if a.array not in written and not scop.arrays[a.array].is_scalar:
                read.setdefault(a.array, []).append(a.relation.intersect_domain(s.domain).range())
    return [
        Edge(array, None, nest.name, (), _bytes(scop, array, elements), False, array in scop.constants, ())
        for array, elements in sorted(read.items())
    ]


def _bytes(scop: Scop, array: str, elements: Sequence[isl.Set]) -> Count | str:
    """How many there are in the union of sets of elements, in bytes."""
    known = scop.context.params()
    whole = reduce(isl.Set.union, elements).intersect_params(known).coalesce()
    size = scop.arrays[array].element.bytes
    if not isl.involved_parameters(whole):
        return count(whole) * size if whole.is_bounded() else "?"
    number = count_symbolic(whole)
    return "?" if number is None else format_symbolic(number.scale_val(isl.value(size)), whole.params())
