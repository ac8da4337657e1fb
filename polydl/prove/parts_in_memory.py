"""Whether memory that holds a part of an array at a time gives every read the value that the whole array would.

    parallel for h: { polydl_part_P = …;  for i: for j: polydl_part_P[64 * i + j] = …;  … polydl_part_P[64 * i + j] … }

A mark says which element the memory begins with, so that what is printed can be read as if it touched the array,
`P[4096 * h + 64 * i + j]`: all other checks are about this reading. What is left to show, for every read, is that the
last write to its bytes, whatever array it belongs to, is the last write to its element: lifetimes of arrays that share
bytes don't overlap, no part is longer than its memory, and none outlives the iteration that it is of. A thread's own
memory must have been written in the same iteration of every parallel loop; iterations of loops that run at the same
time may not share bytes otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import gcd

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.prove.addresses import address
from polydl.prove.dependence_order import Order, Touch, check_shared, touched_by
from polydl.prove.integers import Unreadable, Wrong
from polydl.prove.printed_program import Buffer, Printed, value_map


@dataclass(frozen=True, slots=True)
class _Memory:
    """The parts of the shared memory, or of each thread's own."""

    order: Order
    parts: dict[str, Buffer]
    touched: Sequence[Touch]
    """What touches them, in textual order."""

    @property
    def unit(self) -> int:
        """Bytes in which places and sizes of all elements are whole numbers."""
        return gcd(*(one.element for one in self.parts.values()), *(one.start for one in self.parts.values()))

    def place(self, one: Touch) -> isl.Map:
        """{ T[i…] -> [unit of the memory] }."""
        buffer = self.parts[one.at.base]
        within = value_map(one.printed, (one.at.offset.plus(one.printed.parts[one.at.base], -1),))
        start, size = buffer.start // self.unit, buffer.element // self.unit
        first = f"{start} + {size} * e"
        return within.apply_range(isl.Map(f"{{ [e] -> [u] : {first} <= u < {first} + {size} }}"))

    def element(self, one: Touch) -> isl.Map:
        """{ T[i…] -> [array's number, coordinates] }."""
        return address(self.order.scop, one.printed, one.at)

    def last(self, read: Touch, place: Callable[[Touch], isl.Map], among: Iterable[Touch]) -> isl.Map:
        """{ T[i…] -> [time] } of the last of some writes before a read that are at its place."""
        when = self.order.time(read.printed)
        found = isl.Map.empty(when.get_space())
        for write in among:
            own = self.order.time(write.printed)
            same = place(read).apply_range(place(write).reverse())
            found = found.union(same.intersect(own.lex_lt_map(when).reverse()).apply_range(own))
        return found.lexmax()


def check_parts(order: Order, statements: Sequence[Printed]) -> None:
    """Raises Wrong, Unreadable."""
    parts = order.program.parts
    every = [touch for printed in statements for touch in touched_by(printed) if touch.at.base in parts]
    for own in (False, True):
        here = {name: one for name, one in parts.items() if one.own == own}
        if here:
            memory = _Memory(order, here, [touch for touch in every if touch.at.base in here])
            _check_reads(memory, own=own)
            _check_calls(memory)
            _check_concurrent(memory, own=own)


def _check_reads(memory: _Memory, *, own: bool) -> None:
    order = memory.order
    writes = [one for one in memory.touched if one.write]
    for read in memory.touched:
        name, line = read.at.base, read.printed.line
        if read.write or read.printed.domain.is_empty():
            continue
        wanted = memory.last(read, memory.element, [w for w in writes if w.at.base == name])
        if not read.printed.domain.is_subset(wanted.domain()):
            raise Wrong(f"line {line}: an element of {name} is read that was not written")
        found = memory.last(read, memory.place, writes)
        if not found.is_equal(wanted):
            raise Wrong(f"line {line}: where an element of {name} was, something else has been written")
        pairs = order.time(read.printed).reverse().apply_range(found)
        for write in writes if own else ():
            made = pairs.intersect_range(order.time(write.printed).range())
            if made.is_empty():
                continue
            around = (*read.printed.loops, *write.printed.loops)
            for loop in {entry.number: entry for entry in around if entry.kind == "parallel"}.values():
                both = loop in read.printed.loops and loop in write.printed.loops
                if not both or not all(isl.agrees(made, d) for d in range(max(loop.times) + 1)):
                    raise Wrong(f"line {line}: an element of {name} that another thread may have written")


def _check_calls(memory: _Memory) -> None:
    """One call reads and writes no bytes of two arrays: when it does what inside of it is its own matter. Raises
    Unreadable."""
    order = memory.order
    steps: dict[int, list[Touch]] = {}
    for touch in memory.touched:
        if touch.printed.step is not None:
            steps.setdefault(touch.printed.step, []).append(touch)
    for inside in steps.values():
        for store in (one for one in inside if one.write):
            end = store.printed.call
            mine = order.time(store.printed, end).reverse().apply_range(memory.place(store))
            for other in (one for one in inside if one.at.base != store.at.base):
                theirs = order.time(other.printed, end).reverse().apply_range(memory.place(other))
                if not mine.intersect(theirs).is_empty():
                    names = f"{other.at.base} and {store.at.base}"
                    raise Unreadable(f"line {store.printed.line}: one call touches {names} in the same bytes")


def _check_concurrent(memory: _Memory, *, own: bool) -> None:
    """Iterations that run at the same time share no bytes that one of them writes. Raises Wrong."""
    loops = {loop.number or -loop.line: loop for touch in memory.touched for loop in touch.printed.loops}
    what = "the memory of " + ", ".join(sorted(memory.parts))
    for loop in loops.values():
        if own and loop.kind == "parallel":
            continue
        inside = [touch for touch in memory.touched if loop in touch.printed.loops]
        if any(touch.write for touch in inside):
            check_shared(memory.order, loop, what, inside, memory.place)
