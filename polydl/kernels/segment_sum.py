"""What segments add up in vectors: functions of products of neighbours and of what tables lead to.

Lanes hold partial sums of entries; lanes of the last vector that have no entry do not count, so that rows of a few
entries take one step. Vectors have four lanes, each loaded by itself: on Zen 4 gathers of eight, and a masked one for
what is left, take twice the time in rows of 4, a tenth more in rows of 20, and as long in rows of 200.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polydl.kernels.microkernel import environment
from polydl.model.types import ElementType

PIECES = 256
"""Pieces in which a long segment is added up, for any number of threads, so that the sum is the same with all."""
LONG = 48
"""Entries from which on a segment has two sums at once, so that an addition need not wait for the one before."""
MOST_PARTS = 256
"""Parts in which rows are shared out, at most."""


@dataclass(frozen=True, slots=True)
class SumFactor:
    """An argument of the function."""

    name: str
    moves: bool
    """A pointer; False: the value that all entries have."""
    table: ElementType | None
    """Type of the elements of the table that it is subscripted by, which follows as another pointer; None: by the
    number of the entry."""

    @property
    def plain(self) -> str:
        """C of the factor of entry p."""
        if not self.moves:
            return self.name
        return f"{self.name}[{self.name}_table[p]]" if self.table is not None else f"{self.name}[p]"


@dataclass(frozen=True, slots=True)
class SegmentFunction:
    """`T name(ptrdiff_t n, factors…)`."""

    name: str
    prologue: tuple[str, ...]
    """File-scope pieces, the function included."""
    on_threads: str
    """File-scope C of `T name_on_threads(ptrdiff_t n, factors…)`, which adds up pieces of it on all threads."""


def segment_function(element: ElementType, given: Sequence[tuple[bool, ElementType | None]]) -> SegmentFunction:
    """The function that adds up products. `given`: of each factor whether it moves, and the type of its table."""
    factors = [SumFactor(f"x{number}", moves, table) for number, (moves, table) in enumerate(given)]
    summary = " * ".join(one.plain for one in factors)
    digest = hashlib.sha256(repr((element, factors)).encode()).hexdigest()[:8]
    values: Mapping[str, object] = {
        "t": element,
        "factors": factors,
        "summary": summary,
        "name": f"polydl_entries_{element.name}_{digest}",
        "pieces": PIECES,
        "long": LONG,
    }
    template = environment().get_template("segment_sum.c.j2")
    vectors, own, on_threads = (template.render(what=what, **values) for what in ("vectors", "sum", "on_threads"))
    return SegmentFunction(str(values["name"]), (vectors, own), on_threads)


def shares_function(table: ElementType) -> tuple[str, str]:
    """(name, file-scope C) of the function that divides rows among threads so that each has as many entries."""
    name = f"polydl_shares_{table.name}"
    text = environment().get_template("shares.c.j2").render(name=name, c=table.c, most=MOST_PARTS)
    return name, text
