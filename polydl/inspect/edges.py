"""What a variant does with the values that pass between nests: whether these share loops, or why not, where the values
lie, and which cache has them when they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from polydl import pipeline
from polydl.base.errors import QuotaExceeded
from polydl.base.records import dataclass
from polydl.base.units import bytes_text, seconds_text
from polydl.dependences.flow import Edge, flow
from polydl.dependences.nests import nests
from polydl.locality.assign import level_of
from polydl.model.counting import Count
from polydl.model.layout import Layout
from polydl.model.scop import Array
from polydl.options import Options
from polydl.rank import rankers
from polydl.rank.estimator import Estimator
from polydl.rank.of_tree import Program
from polydl.rank.tree_estimate import footprints_of
from polydl.rank.whole import distances
from polydl.results import Ranking
from polydl.schedule.ordered import Ordered
from polydl.schedule.part_storage import Buffer, storage
from polydl.schedule.program_tree import starting_from_zero
from polydl.schedule.tree import Node, own_statements, paths
from polydl.search.merged_variants import Merging, merged_variants, sharing
from polydl.search.variant import Variant
from polydl.target import Machine


@dataclass(frozen=True, slots=True)
class EdgeInVariant:
    """An edge between nests in one variant."""

    edge: Edge
    shared: tuple[str, ...]
    """The loops that producer and consumer share, outermost first."""
    inside: bool
    """Whether one of the two runs inside of the other's microkernel: values are in registers."""
    apart: str
    """Why they share no loops; empty: they do, or the caller is one of the two."""
    layout: str
    """How the values lie where they are written: `row-major`, or digits of the subscripts, outermost first."""
    copies: tuple[str, ...]
    """What the consumer reads in their place: `packed as A inside of i.0`."""
    buffer_bytes: int | None
    """Of the memory in which a part of the array is at a time, for one thread if each has its own; None: the array is
    where it was declared."""
    distance_bytes: float
    """What is touched between writing and reading a value: all that one iteration of the shared loops touches, or the
    whole program from the producer to the end of the consumer."""
    level: str
    """The fastest cache that holds as much, `L1`, …, or `memory`; `registers`."""

    def to_data(self) -> dict[str, Any]:
        """The edge in the documents of `polydl explain --json` and `polydl rank --json`."""
        data = self.edge.to_data()
        del data["relation"]
        return data | {
            "merged": bool(self.shared) or self.inside,
            "shared_loops": list(self.shared),
            "inside_microkernel": self.inside,
            "why_not": self.apart or None,
            "layout": self.layout,
            "copies": list(self.copies),
            "buffer_bytes": self.buffer_bytes,
            "distance_bytes": round(self.distance_bytes),
            "level": self.level,
        }

    @property
    def said(self) -> str:
        """Whether it is merged, in words."""
        if self.inside:
            return "in a microkernel's registers"
        if self.shared:
            return f"share {', '.join(self.shared)}"
        return f"apart: {self.apart}" if self.apart else "of the caller"

    @property
    def lies(self) -> str:
        """Layouts and memory, in words."""
        where = f" in {bytes_text(self.buffer_bytes)}" if self.buffer_bytes is not None else ""
        return "; ".join([self.layout + where, *self.copies])


def edges(variant: Variant, ranking: Ranking) -> tuple[EdgeInVariant, ...]:
    """Of a variant of a ranking in which sharing loops was looked at (`pipeline.with_fused`), in the order of
    `dependences.flow.flow`. Raises QuotaExceeded, IllegalVariant."""
    view = _View.of(variant, ranking)
    found = flow(variant.program, nests(variant.program, variant.origin.dependences), variant.origin.dependences)
    return tuple(view.edge(one) for one in found.edges)


def edges_of_best(ranking: Ranking, options: Options) -> tuple[EdgeInVariant, ...] | None:
    """Of the variant that `optimize` would try first; none where there is one nest, None where it is too much for
    isl."""
    if len(ranking.nests) < 2 or not ranking.variants:
        return ()
    try:
        known = pipeline.with_fused(ranking, options)
        return edges(next((v for v in known.variants if v.illegal is None), known.variants[0]), known)
    except QuotaExceeded:
        return None


@dataclass(frozen=True, slots=True)
class _View:
    variant: Variant
    ranking: Ranking
    places: Mapping[str, int]
    """By statement the child of the tree that runs it."""
    buffers: Mapping[str, Buffer]
    far: Sequence[Mapping[str, float]]
    """Per child of the tree by array the bytes that are touched from its last use on."""
    looked: list[Merging] = field(default_factory=list)
    """What came of sharing loops in this variant, where that was asked."""

    @staticmethod
    def of(variant: Variant, ranking: Ranking) -> _View:
        tree, scop = variant.tree, variant.program
        own = [own_statements(part) for part in tree.children]
        parts = [[s for s in scop.statements if s.name in names] for names in own]
        places = {name: place for place, names in enumerate(own) for name in names}
        return _View(variant, ranking, places, storage(scop, tree), distances(scop, parts, ranking.machine))

    def edge(self, edge: Edge) -> EdgeInVariant:
        consumer = self._part(edge.consumer)
        producer = None if edge.producer is None else self._part(edge.producer)
        array = self.variant.program.arrays[edge.array]
        inside = producer is not None and self._inside(producer, consumer)
        shared = () if producer is None or inside else self._shared(producer, consumer)
        buffer = self.buffers.get(edge.array)
        place = self.places.get(_runs_in(consumer), 0)
        distance = self.far[place].get(edge.array, 0.0)
        if shared:
            distance = _inside_loops(self.variant, self.variant.tree.children[place], len(shared), self.ranking.machine)
        apart = "" if producer is None or shared or inside else self._why(edge, producer, consumer)
        return EdgeInVariant(
            edge, shared, inside, apart, layout_text(array), tuple(_copies(consumer, edge.array)),
            None if buffer is None else buffer.elements * array.element.bytes, distance,
            "registers" if inside else _level(distance, self.ranking.machine),
        )  # fmt: skip

    def _merging(self) -> Merging:
        """What comes of sharing loops in this variant, which is none of the best."""
        if not self.looked:
            scop, ranking = self.variant.program, self.ranking
            every = nests(scop, self.variant.origin.dependences)
            estimator = Estimator(scop, every, ranking.machine, ranking.threads, rankers.usable("traffic"))
            self.looked.append(merged_variants([self.variant], estimator, Options()))
        return self.looked[0]

    def _part(self, nest: str) -> Ordered:
        return next(part for part in self.variant.parts if any(s.name == nest for s in part.statements))

    def _inside(self, producer: Ordered, consumer: Ordered) -> bool:
        names = {part.name: part.into.into for part in (producer, consumer) if part.into is not None}
        zeros = starting_from_zero(self.variant.parts).get(consumer.name) == producer.name
        return zeros or any(names.get(a.name) == b.name for a, b in ((producer, consumer), (consumer, producer)))

    def _shared(self, producer: Ordered, consumer: Ordered) -> tuple[str, ...]:
        """The names of the loops that are around both, the consumer's."""
        ends = [_runs_in(part) for part in (producer, consumer)]
        if any(name not in self.places for name in ends) or self.places[ends[0]] != self.places[ends[1]]:
            return ()
        ways = paths(self.variant.tree.children[self.places[ends[0]]])
        found = []
        for a, b in zip(ways[ends[0]], ways[ends[1]], strict=False):
            if a is not b or isinstance(a, int):
                break
            found.append(a.called(ends[1]))
        return tuple(found)

    def _why(self, edge: Edge, producer: Ordered, consumer: Ordered) -> str:
        """Why two nests share no loops."""
        pair = _runs_in(producer), _runs_in(consumer)
        rival = next((v for v in self.ranking.variants if _share(v, edge)), None)
        if rival is not None:
            estimates = f"{seconds_text(rival.score)} by estimate, {seconds_text(self.variant.score)} here"
            return f"{rival.id} shares loops: {estimates}"
        if pair in self.ranking.apart:
            return self.ranking.apart[pair]
        gone = set(starting_from_zero(self.variant.parts).values())
        names = [part.name for part in self.variant.parts if part.into is None and part.name not in gone]
        between = names[names.index(pair[0]) + 1 : names.index(pair[1])] if set(pair) <= set(names) else []
        if between:
            return f"{', '.join(between)} between them"
        merging = self._merging()
        return merging.apart.get(pair, "variants in which they share loops are not among the best")


def _runs_in(part: Ordered) -> str:
    """The name of the part whose loops run a part: another one where it is inside of a microkernel."""
    return part.name if part.into is None else part.into.into


def _share(variant: Variant, edge: Edge) -> bool:
    """Whether the nests of an edge share loops in a variant."""
    if all(part.merge is None for part in variant.parts):
        return False
    home = {s.name: _runs_in(part) for part in variant.parts for s in part.statements}
    return (home.get(edge.producer or ""), home.get(edge.consumer)) in set(sharing(variant))


def size_text(edge: Edge) -> str:
    """How much flows, for people."""
    if isinstance(edge.bytes, Count):
        return bytes_text(edge.bytes.upper) if edge.bytes.exact else str(edge.bytes)
    return edge.bytes


def _inside_loops(variant: Variant, part: Node, loops: int, machine: Machine) -> float:
    """Bytes that one iteration of the outermost loops of a part touches."""
    some = [s for s in variant.program.statements if s.name in set(own_statements(part))]
    return Program(footprints_of(variant.program, some), machine).inside(part, loops)


def _level(size: float, machine: Machine) -> str:
    index = level_of(Count(round(size), round(size)), machine)
    return "memory" if index is None else f"L{machine.caches[index].level}"


def _copies(consumer: Ordered, array: str) -> list[str]:
    """What a nest's microkernel reads in place of an array."""
    made = consumer.loops
    if made is None or made.kernel is None:
        return []
    found = []
    for pack in made.packs:
        if made.operand(pack.operand).array == array:
            where = (
                f"inside of {pack.after}" if pack.after else "ahead of time" if pack.function else "before all loops"
            )
            found.append(f"packed as {pack.operand} {where}")
    return found


def layout_text(array: Array) -> str:
    """How an array's elements lie, in words."""
    layout: Layout = array.layout
    if array.is_scalar:
        return "scalar"
    if layout.is_row_major:
        return "row-major"
    digits = []
    for axis in layout.axes:
        over = f" / {axis.step}" if axis.step > 1 else ""
        finest = axis.extent is not None and any(
            a.dimension == axis.dimension and a.step > axis.step for a in layout.axes
        )
        digits.append(f"i{axis.dimension}{over}" + (f" % {axis.extent}" if finest else ""))
    return ", ".join(digits)
