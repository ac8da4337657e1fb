"""Compares what two runs read and wrote: the source's and the Scop's.

First which write each read sees, whatever the data are (PolyCheck: Bao, Krishnamoorthy, Pouchet, Rastello,
Sadayappan, POPL 2016). Every byte of memory that outlives the region has a version, the number of writes to it so far.
A read of the Scop has to see a version that the source, too, reads there, and its writes have to leave the same values
in the same order.

PolyCheck compares programs of the same statements. The front end may change more, and what it may is this:

- Reads may be left out, or be made once for several. `a = b = e` may become `b = e; a = b`: a copy of what the
  statement before has just stored is no read (`scop_memory.Copies` leaves it out).
- A value that the source keeps in a variable may be kept in an element, and the other way round, so that an element is
  written more often, or less, than in the source: a sum that goes into its element at once; `if (c) x = …` made of
  `x = c ? … : x`; a store that another one replaces before anybody reads it. Where the numbers of writes to a byte
  differ, the versions cannot be counted: then the Scop's reads have to see a value that the source reads there, but for
  the reads that an instance does of what it is about to write, and what is there at the end decides.
- A byte that the source does not touch may be touched by nobody. One that it only reads may be written by the Scop with
  the value that is there.
- Memory that only the region knows is not compared.

Values are compared by bits: whoever makes a trace writes every NaN in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from polydl.base.records import dataclass

Where = TypeVar("Where", bound=Hashable)
"""What tells where an access stands: a place in the source, or a statement instance."""


@dataclass(frozen=True, slots=True)
class Access(Generic[Where]):
    """A read or a write of some bytes of an object."""

    object: int
    offset: int
    data: bytes
    """What was read, or written."""
    write: bool
    where: Where
    own: bool = False
    """Whether it reads what the same instance is about to write."""

    def bytes(self) -> Iterable[tuple[tuple[int, int], int]]:
        """The bytes that it touches, as (object, offset), with their values."""
        return (((self.object, self.offset + i), byte) for i, byte in enumerate(self.data))


@dataclass(frozen=True, slots=True)
class Found:
    """The first difference between two runs."""

    kind: str
    """`which write` (a read sees another write), `value`, `not written`, `not touched`."""
    object: int
    offset: int
    size: int
    source: Any
    """Where the source last wrote there, or reads."""
    scop: Any
    """The instance of the Scop."""
    expected: bytes | None
    found: bytes | None


class _Source:
    """What the source did, by byte."""

    def __init__(self, accesses: Sequence[Access[Any]]) -> None:
        self.writes: dict[tuple[int, int], list[tuple[int, Any]]] = {}
        self.versions: dict[tuple[int, int], set[int]] = {}
        self.values: dict[tuple[int, int], set[int]] = {}
        self.wholes: dict[tuple[int, int, int], set[bytes]] = {}
        """By object, offset and size what was read there at once."""
        self.reader: dict[tuple[int, int], Any] = {}
        for access in accesses:
            if not access.write:
                self.wholes.setdefault((access.object, access.offset, len(access.data)), set()).add(access.data)
            for at, byte in access.bytes():
                if access.write:
                    self.writes.setdefault(at, []).append((byte, access.where))
                else:
                    self.versions.setdefault(at, set()).add(len(self.writes.get(at, ())))
                    self.values.setdefault(at, set()).add(byte)
                    self.reader[at] = access.where

    def reads(self, access: Access[Any]) -> bool:
        """Whether the source, too, reads this value there."""
        whole = self.wholes.get((access.object, access.offset, len(access.data)))
        if whole is not None:
            return access.data in whole
        return all(byte in self.values.get(at, ()) for at, byte in access.bytes())

    def touches(self, at: tuple[int, int]) -> bool:
        return at in self.writes or at in self.versions

    def place(self, at: tuple[int, int]) -> Any:
        """Where the source last wrote, or else reads."""
        written = self.writes.get(at)
        return written[-1][1] if written else self.reader.get(at)


def first_difference(
    source: Sequence[Access[Any]], scop: Sequence[Access[Any]], *, checked: Callable[[int], bool]
) -> Found | None:
    """The first thing that the Scop does, in its order, that the source does not; then what it leaves undone.

    `checked`: whether an object is compared in the end, and may not be touched where the source does not: not so of
    variables of the function, of which the caller sees who reads them later, nor of what nobody reads.
    """
    known = _Source(source)
    counts: dict[tuple[int, int], int] = {}
    for access in scop:
        if access.write:
            for at, _ in access.bytes():
                counts[at] = counts.get(at, 0) + 1
    done: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, int], tuple[bytes, int, Any]] = {}
    for access in scop:
        wrong = _wrong(access, known, counts, done, checked)
        if wrong is not None:
            return wrong
        if access.write:
            for i, (at, _) in enumerate(access.bytes()):
                done[at] = done.get(at, 0) + 1
                last[at] = access.data, i, access.where
    return _at_the_end(source, known, last, checked)


def _wrong(
    access: Access[Any],
    known: _Source,
    counts: dict[tuple[int, int], int],
    done: dict[tuple[int, int], int],
    checked: Callable[[int], bool],
) -> Found | None:
    first = (access.object, access.offset)
    ats = [at for at, _ in access.bytes()]

    def found(kind: str, expected: bytes | None) -> Found:
        return Found(kind, *first, len(access.data), known.place(first), access.where, expected, access.data)

    if not all(known.touches(at) for at in ats):
        return found("not touched", None) if checked(access.object) else None
    alike = all(len(known.writes.get(at, ())) == counts.get(at, 0) for at in ats)
    if access.write:
        if alike:
            expected = bytes(known.writes[at][done.get(at, 0)][0] for at in ats)
            if expected != access.data:
                where = known.writes[first][done.get(first, 0)][1]
                return Found("value", *first, len(access.data), where, access.where, expected, access.data)
        return None
    if alike:
        seen = all(done.get(at, 0) in known.versions.get(at, ()) for at in ats)
    else:
        seen = access.own or known.reads(access)
    return None if seen else found("which write", None)


def _at_the_end(
    source: Sequence[Access[Any]],
    known: _Source,
    last: dict[tuple[int, int], tuple[bytes, int, Any]],
    checked: Callable[[int], bool],
) -> Found | None:
    for at, (data, i, where) in last.items():
        # Nobody but the Scop writes there: it leaves what is there.
        if checked(at[0]) and at not in known.writes and known.values[at] != {data[i]}:
            expected = bytes(known.values[at])
            return Found("value", *at, 1, known.place(at), where, expected, data[i : i + 1])
    finals: dict[tuple[int, int], Access[Any]] = {}
    for access in source:
        if access.write and checked(access.object):
            finals[access.object, access.offset] = access
    for access in sorted(finals.values(), key=lambda one: (one.object, one.offset)):
        ats = [at for at, _ in access.bytes()]
        expected = bytes(known.writes[at][-1][0] for at in ats)
        missing = [at for at in ats if at not in last]
        first = (access.object, access.offset)
        if missing:
            return Found("not written", *first, len(ats), access.where, None, expected, None)
        left = bytes(last[at][0][last[at][1]] for at in ats)
        if expected != left:
            return Found("value", *first, len(ats), access.where, last[first][2], expected, left)
    return None
