"""Every way in which C lets the memory of pointer arguments overlap, the most telling ones first.

Two pointers may lead to the same memory unless one of them is `restrict` and either is written through (C11 6.7.3.1),
or unless the types of what they point to say that it is never the same (C11 6.5p7): equal types but for signs, and any
type with a character's. Where something is only read through both, `restrict` allows it, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from polydl.base.records import dataclass
from polydl.model.types import ElementType


@dataclass(frozen=True, slots=True)
class Pointer:
    """A parameter that points to elements."""

    name: str
    element: ElementType
    count: int
    """Elements behind it."""
    restrict: bool = False
    written: bool = True
    """Whether the function may write through it."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Pointers by the memory that they lead to."""

    places: tuple[tuple[str, int, int], ...]
    """(parameter, number of its block of memory, bytes from the block's start), in order of the parameters."""

    @property
    def name(self) -> str:
        """`b = a + 4`: who shares a block with whom, distances in bytes; `apart` where nobody does."""
        first: dict[int, tuple[str, int]] = {}
        said = []
        for name, block, offset in self.places:
            if block in first:
                start, before = first[block]
                apart = offset - before
                said.append(f"{name} = {start}" + (f" {'-' if apart < 0 else '+'} {abs(apart)}" if apart else ""))
            first.setdefault(block, (name, offset))
        return ", ".join(said) or "apart"


def may_overlap(one: Pointer, two: Pointer) -> bool:
    """Whether C lets the same bytes be reached through both, of which at least one is written or none."""
    if (one.restrict or two.restrict) and (one.written or two.written):
        return False
    a, b = one.element, two.element
    if 1 in (a.bytes, b.bytes) and (a.c.endswith("char") or b.c.endswith("char")):
        return True
    return a.is_int == b.is_int and a.bytes == b.bytes and (a.is_int or a.c == b.c)


def partitions(pointers: Sequence[Pointer]) -> Iterator[tuple[tuple[Pointer, ...], ...]]:
    """The set partitions whose blocks hold pointers that may all overlap, in order of the first of each block."""
    if not pointers:
        yield ()
        return
    first, rest = pointers[0], pointers[1:]
    friends = [other for other in rest if may_overlap(first, other)]
    for size in range(len(friends), -1, -1):
        for chosen in combinations(friends, size):
            if all(may_overlap(a, b) for a, b in combinations(chosen, 2)):
                left = [other for other in rest if other not in chosen]
                for others in partitions(left):
                    yield ((first, *chosen), *others)


_DISTANCES = ("same", "one", "half")


def overlaps(pointers: Sequence[Pointer], most: int = 24) -> list[Overlap]:
    """Ways to lay out the pointers' memory, at most so many: apart, then each pair at no distance, one element further
    and half of the elements further, both ways round, then more at once."""
    found: dict[tuple[tuple[str, int, int], ...], None] = {}
    ordered = sorted(partitions(pointers), key=lambda blocks: (len(pointers) - len(blocks), _unwritten(blocks)))
    for blocks in ordered:
        shared = any(len(block) > 1 for block in blocks)
        for distance in _DISTANCES if shared else _DISTANCES[:1]:
            for turned in (False, True) if shared and distance != "same" else (False,):
                found[_placed(pointers, blocks, distance, turned=turned)] = None
                if len(found) == most:
                    return [Overlap(places) for places in found]
    return [Overlap(places) for places in found]


def _unwritten(blocks: Sequence[Sequence[Pointer]]) -> int:
    """Blocks of several pointers through none of which anything is written: these tell least."""
    return sum(len(block) > 1 and not any(one.written for one in block) for block in blocks)


def _placed(
    pointers: Sequence[Pointer], blocks: Sequence[Sequence[Pointer]], distance: str, *, turned: bool
) -> tuple[tuple[str, int, int], ...]:
    places: dict[str, tuple[int, int]] = {}
    for number, block in enumerate(blocks):
        for at, one in enumerate(reversed(block) if turned else block):
            widest = max(other.element.bytes for other in block)
            steps = {"same": 0, "one": at, "half": at * max(1, min(other.count for other in block) // 2)}[distance]
            places[one.name] = number, steps * widest
    return tuple((one.name, *places[one.name]) for one in pointers)
