"""How unevenly a parallel loop's iterations are filled: those of triangles."""

from __future__ import annotations

from polydl.base.errors import QuotaExceeded
from polydl.dependences.nests import Nest
from polydl.model import isl
from polydl.model.counting import count
from polydl.schedule.loops import Loop, loop_aff, normalised, trips

OPERATIONS = 100_000
"""Of isl for each count: those of triangles take some hundreds."""


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
    whole, more = divmod(extent, threads)
    sizes, low = [], 0
    for thread in range(threads):
        high = low + whole + (thread < more)
        piece = 0
        for domain, value in values:
            inside = domain.intersect(value.ge_set(isl.constant(domain, low))).intersect(
                value.le_set(isl.constant(domain, high - 1))
            )
            try:
                size = count(inside, OPERATIONS, 0)
            except QuotaExceeded:
                return even
            if not size.exact:
                return even
            piece += size.value
        sizes.append(piece)
        low = high
    return tuple(size * threads / sum(sizes) for size in sizes) if any(sizes) else even
