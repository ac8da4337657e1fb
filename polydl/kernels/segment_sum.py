"""What segments add up in vectors: functions of products of neighbours and of what tables lead to.

Lanes hold partial sums of entries; lanes of the last vector that have no entry do not count, so that rows of a few
entries take one step. Vectors have four lanes, each loaded by itself: on Zen 4 gathers of eight, and a masked one for
what is left, take twice the time in rows of 4, a tenth more in rows of 20, and as long in rows of 200.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from polydl.kernels.microkernel import environment
from polydl.model.types import ElementType

PIECES = 256
"""Pieces in which a long segment is added up, for any number of threads, so that the sum is the same with all."""
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
    step: int = 1
    """Elements from one entry, or element of the table, to the next."""
    along: bool = False
    """A pointer to elements of which each of an entry's products has the next one."""

    @property
    def pointer(self) -> bool:
        """False: a value."""
        return self.moves or self.along

    @property
    def plain(self) -> str:
        """C of the factor of entry p, and of its product c."""
        place = f"{self.name}_table[p]" if self.table is not None else "p"
        place = f"{place} * {self.step}" if self.step != 1 else place
        terms = [place] * self.moves + ["c"] * self.along
        return f"{self.name}[{' + '.join(terms)}]" if terms else self.name


@dataclass(frozen=True, slots=True)
class SegmentFunction:
    """`T name(ptrdiff_t n, factors…)`."""

    name: str
    prologue: tuple[str, ...]
    """File-scope pieces, the function included."""
    on_threads: str
    """File-scope C of `T name_on_threads(ptrdiff_t n, factors…)`, which adds up pieces of it on all threads."""


def segment_function(
    element: ElementType, given: Sequence[tuple[bool, ElementType | None] | SumFactor], depth: int = 1
) -> SegmentFunction:
    """The function that adds up products, `depth` of each entry. `given`: the factors, or whether each moves, and the
    type of its table."""
    factors = [
        replace(one, name=f"x{number}") if isinstance(one, SumFactor) else SumFactor(f"x{number}", *one)
        for number, one in enumerate(given)
    ]
    summary = " * ".join(one.plain for one in factors)
    digest = hashlib.sha256(repr((element, factors, depth)).encode()).hexdigest()[:8]
    lanes = next((n for n in (64 // element.bytes, 32 // element.bytes, 4) if depth % n == 0), 1)
    values: Mapping[str, object] = {
        "t": element,
        "factors": factors,
        "summary": summary,
        "name": f"polydl_entries_{element.name}_{digest}",
        "pieces": PIECES,
        "depth": depth,
        "lanes": lanes,
    }
    template = environment().get_template("segment_sum.c.j2")
    vectors, own, on_threads = (template.render(what=what, **values) for what in ("vectors", "sum", "on_threads"))
    return SegmentFunction(str(values["name"]), (vectors, own), on_threads)


def shares_function(table: ElementType) -> tuple[str, str]:
    """(name, file-scope C) of the function that divides rows among threads so that each has as many entries."""
    name = f"polydl_shares_{table.name}"
    text = environment().get_template("shares.c.j2").render(name=name, c=table.c, most=MOST_PARTS)
    return name, text
