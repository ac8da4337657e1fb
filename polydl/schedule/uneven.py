"""How unevenly a parallel loop's iterations are filled: those of triangles."""

from __future__ import annotations

from polydl.base.errors import QuotaExceeded
from polydl.dependences.nests import Nest
from polydl.model import isl
from polydl.model.counting import count
from polydl.schedule.loops import Loop, loop_aff, normalised, trips

OPERATIONS = 100_000
"""Of isl for each count: those of triangles take some hundreds."""


def busiest_share(nest: Nest, loop: Loop, threads: int) -> float:
    """Statement instances of the busiest thread over the mean, where each of so many threads runs one contiguous piece
    of the loop's iterations, as OpenMP does of its own accord.

    1 for loops of which nothing is known: within a tile, with sizes that are not known, with fewer iterations than
    threads (the rest idles, whatever the schedule), or where the counts take too long.

    >>> from polydl import pipeline
    >>> text = "void f(double a[99][99]) { for (int i = 0; i < 99; i++) for (int j = 0; j <= i; j++) a[i][j] = 0; }"
    >>> nest, = pipeline.rank(text, "small", "epyc-zen5").nests
    >>> from polydl.schedule.loops import start
    >>> round(busiest_share(nest, start(nest).loops[0], 3), 2)  # 2 * (1 - (2 / 3) ** 2) * 3 / 2, nearly
    1.66
    """
    extent = trips(nest, loop)
    if nest.box or loop.within is not None or extent is None or not 1 < threads <= extent:
        return 1.0
    if any(isl.involved_parameters(statement.domain) for statement in nest.statements):
        return 1.0
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
                return 1.0
            if not size.exact:
                return 1.0
            piece += size.value
        sizes.append(piece)
        low = high
    return max(sizes) * threads / sum(sizes) if any(sizes) else 1.0
