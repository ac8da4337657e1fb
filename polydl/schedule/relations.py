"""The direct dependences that schedules are made from, and which loops they allow to be parallel, tiled or distributed.

Schedules are made from the direct dependences (Feautrier's dataflow, the last write before each access): an order
that respects those respects all, and they are few and mostly uniform. Whether a schedule is legal is decided
elsewhere, from all dependences (`schedule.tree_check`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property

from polydl.base.records import dataclass
from polydl.dependences.analysis import Dependence
from polydl.dependences.legality import conflicts
from polydl.dependences.scalars import private_storage
from polydl.model import isl
from polydl.model.isl.trees import maps_of, union_map
from polydl.model.scop import Scop, Statement
from polydl.model.time import original_schedule
from polydl.schedule.tree import Member


@dataclass(frozen=True, eq=False)
class Link:
    """Pairs of instances whose order matters, of one source and one target statement."""

    source: str
    target: str
    relation: isl.Map
    """{ Source[i…] -> Target[j…] }, never empty."""
    apart: isl.Map | None = None
    """Where the two share a private scalar, the pairs of instances that belong to different iterations of the loops it
    is private to and that no loop has separated yet: while there are any, no loop is distributed between the two."""

    _spans: dict[LoopKey, tuple[int | None, int | None]] = field(default_factory=dict, init=False, repr=False)
    """What `span` found, by the expressions of the loop: schedules of one region ask the same again and again."""
    _left: dict[LoopKey, Link | None] = field(default_factory=dict, init=False, repr=False)
    """What `left` found; None: nothing is left."""

    @cached_property
    def ends(self) -> frozenset[str]:
        return frozenset({self.source, self.target})


Links = tuple[Link, ...]

LoopKey = tuple[str, str]
"""A loop as one link sees it: the expressions of its source and of its target, as isl text."""


def direct(
    scop: Scop, statements: Sequence[Statement], found: Sequence[Dependence], *, privatised: bool = True
) -> Links:
    """The direct dependences among some statements: each read on the write that it sees, each write on the accesses
    since the last write. For private scalars the dependences inside an iteration only, unless privatised=False."""
    private = private_storage(scop) if privatised else {}
    names = {s.name for s in statements}
    schedule = original_schedule(scop)
    order = union_map(schedule[s.name] for s in statements)
    accesses = [a for s in statements for a in s.accesses if a.array not in private]
    writes = union_map(a.relation for a in accesses if a.write)
    reads = union_map(a.relation for a in accesses if not a.write)
    # What may come before a write are the reads since the last write, and that write.
    before = _flow(writes, writes, reads, order).get_may_dependence()
    together = _flow(reads, writes, None, order).get_must_dependence().union(before)
    links = [Link(isl.domain_name(m), isl.range_name(m), m) for m in maps_of(together.coalesce()) if not m.is_empty()]
    of = by_name(statements)
    for one in conflicts(found):
        if one.array in private and one.source in names and one.target in names:
            apart = elsewhere(of[one.source], of[one.target], private[one.array])
            links.append(Link(one.source, one.target, one.relation, None if apart.is_empty() else apart))
    return tuple(links)


def elsewhere(a: Statement, b: Statement, depth: int) -> isl.Map:
    """{ A[i…] -> B[j…] } that differ in one of the `depth` outer loops."""
    pairs = isl.Map.from_domain_and_range(a.domain, b.domain)
    return isl.differ(pairs, range(depth))


def _flow(sink: isl.UnionMap, must: isl.UnionMap, may: isl.UnionMap | None, order: isl.UnionMap) -> isl.UnionFlow:
    info = isl.UnionAccessInfo.from_sink(sink).set_must_source(must)
    if may is not None:
        info = info.set_may_source(may)
    return info.set_schedule_map(order).compute_flow()


def among(links: Links, names: frozenset[str]) -> Links:
    """The links both of whose ends are in a set of statements."""
    return tuple(link for link in links if link.source in names and link.target in names)


def moved(link: Link, member: Member) -> isl.Set:
    """{ [d] }: the distances of a link along a loop, target less source."""
    source, target = (isl.Map.from_aff(member.affs[name]) for name in (link.source, link.target))
    return link.relation.apply_domain(source).apply_range(target).deltas()


def span(link: Link, member: Member) -> tuple[int | None, int | None]:
    """Least and greatest distance of a link along a loop; None where there is none."""
    loop = _loop(link, member)
    if loop not in link._spans:
        distances = moved(link, member)
        link._spans[loop] = isl.least(distances, 0), isl.greatest(distances, 0)
    return link._spans[loop]


def left(links: Links, member: Member) -> Links:
    """The links that a loop leaves open: those between instances in one of its iterations."""
    return tuple(rest for link in links if (rest := _rest(link, member)) is not None)


def _rest(link: Link, member: Member) -> Link | None:
    loop = _loop(link, member)
    if loop not in link._left:
        source, target = member.affs[link.source], member.affs[link.target]
        rest = isl.meet(link.relation, source, target)
        apart = None if link.apart is None else isl.meet(link.apart, source, target)
        apart = None if apart is None or apart.is_empty() else apart
        link._left[loop] = None if rest.is_empty() else Link(link.source, link.target, rest, apart)
    return link._left[loop]


def _loop(link: Link, member: Member) -> LoopKey:
    return member.text(link.source), member.text(link.target)


def after(links: Links, members: Iterable[Member]) -> Links:
    """The links that several loops leave open together."""
    for member in members:
        links = left(links, member)
    return links


def coincident(links: Links, member: Member) -> bool:
    """Whether the iterations of a loop are independent of each other."""
    return all(span(link, member) == (0, 0) for link in links)


def forward(links: Links, member: Member) -> bool:
    """Whether no link runs backwards along a loop: the loop may be moved outwards and tiled."""
    return all((low := span(link, member)[0]) is not None and low >= 0 for link in links)


def by_name(statements: Iterable[Statement]) -> Mapping[str, Statement]:
    """Statements by their names."""
    return {s.name: s for s in statements}
