"""How unevenly a parallel loop's iterations are filled: those of triangles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from polydl.base.errors import QuotaExceeded
from polydl.dependences.nests import Nest
from polydl.model import isl
from polydl.model.counting import count
from polydl.model.isl import to_int
from polydl.schedule.loops import Loop, loop_aff, normalised, trips
from polydl.schedule.tree import ALONE, Band, Member, Node, Run, Share
from polydl.schedule.tree import Sequence as InOrder

OPERATIONS = 100_000
"""Of isl for each count: those of triangles take some hundreds."""
UNEVEN = 1.1
"""Share of the busiest thread over the mean from which on threads take pieces of a loop when they are ready: a tenth of
the time is more than that costs, and more than estimates tell apart."""
_PIECES = 256
"""Pieces of an uneven loop of a schedule that is the same for any number of threads: 32 for each of eight."""


def shares(nest: Nest, loop: Loop, threads: int) -> tuple[float, ...]:
    """Statement instances of each thread over the mean, where each of so many threads runs one contiguous piece of the
    loop's iterations, as OpenMP does of its own accord. The first piece is what `guided` gives away first.

    1 for loops of which nothing is known: within a tile, with sizes that are not known, with fewer iterations than
    threads (the rest idles, whatever the schedule), or where the counts take too long.

    >>> from polydl import pipeline
    >>> text = "void f(double a[99][99]) { for (int i = 0; i < 99; i++) for (int j = 0; j <= i; j++) a[i][j] = 0; }"
    >>> nest, = pipeline.rank(text, "small", "epyc-zen5").nests
    >>> from polydl.schedule.loops import start
    >>> [round(share, 2) for share in shares(nest, start(nest).loops[0], 3)]  # (1, 3 and 5 ninths) * 3, nearly
    [0.34, 1.0, 1.66]
    """
    even = (1.0,) * threads
    extent = trips(nest, loop)
    if nest.box or loop.within is not None or extent is None or not 1 < threads <= extent:
        return even
    if any(isl.involved_parameters(statement.domain) for statement in nest.statements):
        return even
    values = [
        (statement.domain, loop_aff(loop, normalised(nest, statement)[loop.iterator])) for statement in nest.statements
    ]
    return _of_pieces(values, 0, extent, threads) or even


def _of_pieces(
    values: Sequence[tuple[isl.Set, isl.Aff]], first: int, extent: int, pieces: int
) -> tuple[float, ...] | None:
    """Statement instances of each of so many contiguous pieces of a loop's iterations, over the mean; None where they
    are not known. `values`: the domain of each statement, and the loop as a function of it."""
    whole, more = divmod(extent, pieces)
    sizes, low = [], first
    for number in range(pieces):
        high = low + whole + (number < more)
        piece = 0
        for domain, value in values:
            inside = domain.intersect(value.ge_set(isl.constant(domain, low))).intersect(
                value.le_set(isl.constant(domain, high - 1))
            )
            try:
                size = count(inside, OPERATIONS, 0)
            except QuotaExceeded:
                return None
            if not size.exact:
                return None
            piece += size.value
        sizes.append(piece)
        low = high
    return tuple(size * pieces / sum(sizes) for size in sizes) if any(sizes) else None


def shared_evenly(tree: Node, domains: Mapping[str, isl.Set]) -> Node:
    """A tree whose outermost parallel loops are shared out in small pieces, which threads take when they are ready,
    where one half of the iterations has much more to do than the other. `domains`: by statement."""
    match tree:
        case InOrder(children):
            return InOrder(tuple(shared_evenly(child, domains) for child in children))
        case Band((first, *rest), child) if first.run is Run.PARALLEL and first.share == ALONE:
            many = _iterations_of_uneven(first, domains)
            if many:
                share = Share(schedule=f"dynamic,{max(1, many // _PIECES)}")
                return Band((replace(first, share=share), *rest), child)
    return tree


def _iterations_of_uneven(loop: Member, domains: Mapping[str, isl.Set]) -> int:
    """Iterations of an outermost loop whose halves are uneven; 0 of others, and where that is not known."""
    values = [(domains[name], aff) for name, aff in loop.affs.items() if not domains[name].is_empty()]
    if all(len(pieces := d.get_basic_sets()) == 1 and isl.is_box(pieces[0]) for d, _ in values):
        return 0
    if any(isl.involved_parameters(domain) for domain, _ in values):
        return 0
    ends = [(domain.min_val(aff), domain.max_val(aff)) for domain, aff in values]
    if not all(end.is_int() for pair in ends for end in pair):
        return 0
    low, high = min(to_int(one) for one, _ in ends), max(to_int(other) for _, other in ends)
    extent = high - low + 1
    found = _of_pieces(values, low, extent, 2) if extent > 1 else None
    return extent if found is not None and max(found) >= UNEVEN else 0
