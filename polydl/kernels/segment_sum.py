"""What segments add up in vectors: functions of products of neighbours and of what tables lead to.

What is read in order is fetched ahead in long segments, over their ends: while the processor waits for what tables lead
to, it does not see that the next entries are not there.

Lanes hold partial sums of entries; lanes of the last vector that have no entry do not count, so that rows of a few
entries take one step. Vectors have four lanes, each loaded by itself: on Zen 4 gathers of eight, and a masked one for
what is left, take twice the time in rows of 4, a tenth more in rows of 20, and as long in rows of 200.

The rows of a block are added up together, each in vectors of its own: one at a time, each would go over all blocks of
its row of blocks, which lie apart in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.kernels.microkernel import environment
from polydl.model.types import ElementType

PIECES = 256
"""Pieces in which a long segment is added up, for any number of threads, so that the sum is the same with all."""
MOST_PARTS = 256
"""Parts in which rows are shared out, at most."""
MOST_ROWS = 64
"""Rows of a block that are added up together, at most."""
_BYTES = 32
"""Of a vector along the rows of a block: two are loaded per cycle, more than any cache but the first has to give."""
_VECTORS = 16
"""Of sums that are added to in turns, at most: as many as registers, on AVX2, so that none waits for an addition, and
several rows and entries are on their way from memory."""
_AHEAD = 1024
"""Entries from what is added up to what is fetched from memory, in segments that read tables. On Zen 5, one thread,
matrices of 20 to 120 MB with 50 or 200 entries in a row in columns anywhere: 1.8 to 2.2 times as fast with distances of
512, 1024 and 2048; near the diagonal, where few reads miss besides, 1024 is the fastest, and 256 slower than none."""
_LONG = 64
"""Entries of a segment from which on they are fetched ahead: shorter ones take a tenth to a fifth longer by it where a
core's own caches hold the matrix (and less time where none does, which the function cannot know)."""
_TIMES = 4
"""Entries that are added up at a time, at most."""


@dataclass(frozen=True, slots=True)
class SumFactor:
    """An argument of the function."""

    name: str
    moves: bool
    """A pointer; False: the value that all entries have."""
    table: ElementType | None
    """Type of the elements of the table that it is subscripted by, which follows as another pointer; None: by the
    number of the entry."""
    step: int = 1
    """Elements from one entry, or element of the table, to the next."""
    along: bool = False
    """A pointer to elements of which each of an entry's products has the next one."""
    row: int = 0
    """Elements from one row to the next, of those that are added up together."""
    narrow: ElementType | None = None
    """Type of its elements, where it is bf16 and sums are float, or shorter integers and sums are int."""

    @property
    def pointer(self) -> bool:
        """False: a value."""
        return self.moves or self.along

    @property
    def plain(self) -> str:
        """C of the factor of entry p, row r and product c."""
        place = f"{self.name}_table[p]" if self.table is not None else "p"
        place = f"{place} * {self.step}" if self.step != 1 else place
        terms = [place] * self.moves + [f"r * {self.row}"] * (self.row != 0) + ["c"] * self.along
        return f"{self.name}[{' + '.join(terms)}]" if terms else self.name


@dataclass(frozen=True, slots=True)
class SegmentFunction:
    """`T name(ptrdiff_t n, factors…)`, or, of several rows, `void name(ptrdiff_t n, T *sums, factors…)`."""

    name: str
    prologue: tuple[str, ...]
    """File-scope pieces, the function included."""
    on_threads: str
    """File-scope C of `name_on_threads`, which adds up pieces of it on all threads."""
    element: ElementType
    factors: tuple[SumFactor, ...]
    depth: int
    """Products of an entry, in a row."""
    rows: int
    """That are added up together."""

    def of_rows(self, rows: int, steps: Sequence[int]) -> SegmentFunction:
        """The same for several rows; `steps`: per factor, elements from one row to the next."""
        factors = [replace(one, row=step) for one, step in zip(self.factors, steps, strict=True)]
        return segment_function(self.element, factors, self.depth, rows)


def segment_function(
    element: ElementType, given: Sequence[tuple[bool, ElementType | None] | SumFactor], depth: int = 1, rows: int = 1
) -> SegmentFunction:
    """The function that adds up products, `depth` of each entry in each of the rows. `given`: the factors, or whether
    each moves, and the type of its table."""
    factors = tuple(
        replace(one, name=f"x{number}") if isinstance(one, SumFactor) else SumFactor(f"x{number}", *one)
        for number, one in enumerate(given)
    )
    digest = hashlib.sha256(repr((element, factors, depth, rows)).encode()).hexdigest()[:8]
    name = f"polydl_entries_{element.name}_{digest}"
    in_lane = _in_lane(element, depth)
    most = _BYTES // element.bytes
    lanes = most if depth % (most * in_lane) == 0 else 4
    values: Mapping[str, object] = {
        "t": element,
        "factors": factors,
        "summary": " * ".join(one.plain for one in factors),
        "name": name,
        "pieces": PIECES,
        "depth": depth,
        "lanes": lanes,
        "in_lane": in_lane,
        "own": f"unsigned {element.c}" if element.is_int else element.c,
        "rows": rows,
        "most_vectors": _VECTORS,
        "most_times": _TIMES,
        "ahead": _AHEAD,
        "long": _LONG,
        "narrow": any(one.narrow for one in factors),
        "integers": element.is_int,
    }
    template = environment().get_template("segment_sum.c.j2")
    vectors, own, on_threads = (template.render(what=what, **values) for what in ("vectors", "sum", "on_threads"))
    return SegmentFunction(name, (vectors, own), on_threads, element, factors, depth, rows)


def _in_lane(element: ElementType, depth: int) -> int:
    """Products that a lane of a step takes: pairs of 16 bits are multiplied and added by one instruction (VPMADDWD)."""
    return 2 if element.is_int and depth % 8 == 0 else 1


def shares_function(table: ElementType) -> tuple[str, str]:
    """(name, file-scope C) of the function that divides rows among threads so that each has as many entries."""
    name = f"polydl_shares_{table.name}"
    text = environment().get_template("shares.c.j2").render(name=name, c=table.c, most=MOST_PARTS)
    return name, text
