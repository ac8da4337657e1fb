"""Checks that the printed program keeps the order of dependent accesses and that parallel iterations share nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.accumulation import Accumulation, accumulation
from polydl.model.combiners import Regrouping
from polydl.model.scop import Scop, Statement
from polydl.model.time import original_schedule
from polydl.prove.addresses import address, linear
from polydl.prove.counter_examples import pair
from polydl.prove.integers import ZERO, Affine, Unreadable, Wrong
from polydl.prove.matching import Match
from polydl.prove.printed_program import WRITES, ConcurrentLoop, Pointer, Printed, Program, value_map
from polydl.prove.symbolic_values import Load, chosen_arrays, loads


@dataclass(slots=True)
class Event:
    """An access of a statement of the original, with when the printed program makes it."""

    statement: Statement
    access: int
    array: str
    write: bool
    elements: isl.Map
    """{ S[i…] -> [element] }."""
    time: isl.Map
    """{ S[i…] -> [t…] }."""

    accumulates: Accumulation | None
    """How the statement combines, where this is the element that it accumulates into."""

    def commutes(self, other: Event) -> bool:
        """Whether both combine in one way, the order of which does not matter in exact arithmetic."""
        one, two = self.accumulates, other.accumulates
        if one is None or two is None or one.combiner is not two.combiner:
            return False
        return Regrouping.FIRST not in (one.regrouping, two.regrouping)


@dataclass(slots=True)
class Order:
    """The order of the printed program: time vectors of one length."""

    scop: Scop
    program: Program
    matches: Sequence[Match]
    copied: Mapping[tuple[str, Pointer], isl.Map]
    """Per printed statement and address in a buffer, { T[i…] -> [t…] } when the element was copied there."""
    reassociate: bool
    length: int
    notes: dict[str, None] = field(default_factory=dict)
    pairs: int = 0

    def time(self, printed: Printed, end: int | None = None) -> isl.Map:
        """{ T[i…] -> [t…] }, all of it or its first `end` places."""
        return value_map(printed, padded(printed, self.length)[:end])

    def events(self) -> list[Event]:
        """Every access of the original with its time in the printed program."""
        found: list[Event] = []
        for statement in self.scop.statements:
            mine = [m for m in self.matches if m.statement is statement]
            if statement.domain.is_empty():
                continue
            how = accumulation(self.scop, statement)
            for number, access in enumerate(statement.accesses):
                times = []
                for match in mine:
                    source = _source_of(match, number)
                    at = self.copied.get((match.printed.name, source)) if source is not None else None
                    when = at if at is not None else self.time(match.printed)
                    times.append(match.instances.reverse().apply_range(when))
                time = isl.united(times)
                assert time is not None
                elements = linear(self.scop, statement, number)
                mine_too = how if how is not None and number in how.own else None
                found.append(Event(statement, number, access.array, access.write, elements, time.coalesce(), mine_too))
        return found

    def check(self) -> None:
        """Raises Wrong with the first pair in the wrong order."""
        original = original_schedule(self.scop)
        events = self.events()
        broken: dict[str, Wrong] = {}
        for first in events:
            for second in events:
                if first.array != second.array or not (first.write or second.write) or first.array in broken:
                    continue
                before = original[first.statement.name].lex_lt_map(original[second.statement.name])
                pairs = first.elements.apply_range(second.elements.reverse()).intersect(before)
                if pairs.is_empty():
                    continue
                self.pairs += 1
                wrong = self._reordered(pairs, first, second)
                if wrong is None:
                    continue
                if first.commutes(second):
                    if any(event.accumulates and event.accumulates.rounds for event in (first, second)):
                        if not self.reassociate:
                            raise wrong
                        self.notes["sums are added up in another order than written"] = None
                elif first.array in self.scop.live_out:
                    raise wrong
                else:
                    broken[first.array] = wrong
        for array, wrong in broken.items():
            self._values(array, events, original, wrong)

    def _reordered(self, pairs: isl.Map, first: Event, second: Event) -> Wrong | None:
        kind = {(True, False): "RAW", (False, True): "WAR", (True, True): "WAW"}[first.write, second.write]
        rest = pairs.apply_domain(first.time).apply_range(second.time)
        for d in range(self.length):
            late = isl.descending(rest, d)
            if not late.is_empty():
                return Wrong(self._shown(kind, pairs, first, second, late))
            rest = isl.agree(rest, [d])
            if rest.is_empty():
                return None
        return Wrong(self._shown(kind, pairs, first, second, rest))

    def _shown(self, kind: str, pairs: isl.Map, first: Event, second: Event, late: isl.Map) -> str:
        """The pair with numbers."""
        wrong = pairs.intersect(first.time.apply_range(late).apply_range(second.time.reverse()))
        a, b, where = pair(wrong)
        return (
            f"{kind} pair of {first.array} in the wrong order: {first.statement.name}{list(a)} comes before "
            f"{second.statement.name}{list(b)} in the original, not in the output{where}"
        )

    def _values(self, array: str, events: Sequence[Event], original: Mapping[str, isl.Map], wrong: Wrong) -> None:
        """An array that nobody reads afterwards may be reused in another order, as long as each read gets the value
        that it got: its last writer comes before it, and no other write between. Raises `wrong`."""
        self.notes[f"{array} is used again in another order: each read gets the value of the same write"] = None
        if not all(e.statement.accesses[e.access].exact for e in events if e.array == array):
            raise wrong
        reads = [e for e in events if e.array == array and not e.write]
        writes = [e for e in events if e.array == array and e.write]
        for read in reads:
            last = None
            for write in writes:
                before = original[write.statement.name].lex_lt_map(original[read.statement.name]).reverse()
                same = read.elements.apply_range(write.elements.reverse()).intersect(before)
                one = same.apply_range(original[write.statement.name])
                last = one if last is None else last.union(one)
            assert last is not None
            last = last.lexmax()
            if not read.statement.domain.is_subset(last.domain()):
                raise wrong  # a value from before the region
            for write in writes:
                flow = last.apply_range(original[write.statement.name].reverse()).reverse()
                if flow.is_empty():
                    continue
                if self._reordered(flow, write, read) is not None:
                    raise wrong
                for other in writes:
                    self._clobbered(flow, write, read, other, wrong)

    def _clobbered(self, flow: isl.Map, write: Event, read: Event, other: Event, wrong: Wrong) -> None:
        """No write of the element between a write and the read of its value. Raises `wrong`."""
        between = flow.apply_domain(write.time).apply_range(read.time)  # { time of the write -> time of the read }
        after = isl.Map.lex_lt(between.get_space().domain())
        same = write.elements.apply_range(other.elements.reverse())
        later = same.apply_domain(write.time).apply_range(other.time).intersect(after)
        if not later.apply_range(after).intersect(between).is_empty():
            raise wrong


def padded(printed: Printed, length: int) -> tuple[Affine, ...]:
    return (*printed.time, *(ZERO for _ in range(length - len(printed.time))))


def _source_of(match: Match, access: int) -> Pointer | None:
    for number, symbol in match.pairs:
        if isinstance(number, int) and number == access and isinstance(symbol, Load):
            return symbol.at
    return None


@dataclass(frozen=True, slots=True)
class Touch:
    """An access of a printed statement."""

    printed: Printed
    at: Pointer
    write: bool
    summed: bool
    elements: isl.Map | None = None
    """{ T[i…] -> [element] }; None: what is at the address."""


def touched_by(printed: Printed) -> Iterator[Touch]:
    """The elements of memory that a printed statement touches."""
    for array, write, elements in printed.touches:
        yield Touch(printed, Pointer(array, ZERO), write, False, elements)
    for at in loads(printed.value):
        yield Touch(printed, at, False, printed.kind == "summed" and at == printed.target)
    if printed.target is not None:
        yield Touch(printed, printed.target, True, printed.kind == "summed")
        if printed.op != "=":
            yield Touch(printed, printed.target, False, printed.kind == "summed")


def check_concurrent(order: Order, statements: Sequence[Printed]) -> int:
    """Iterations of parallel and vector loops share no element that one of them writes. Returns how many loops.

    Raises Wrong with the loop and the element.
    """
    loops: dict[int, tuple[ConcurrentLoop, list[Printed]]] = {}
    for printed in statements:
        for one in printed.loops:
            loops.setdefault((one.number or -one.line), (one, []))[1].append(printed)
    for one, inside in loops.values():
        _check_chosen(one, inside)
        touches = [t for p in inside for t in touched_by(p)]
        for base in dict.fromkeys(t.at.base for t in touches if t.write):
            if is_own(order, one, base) or base in order.program.parts:
                continue  # of parts see polydl.prove.parts_in_memory
            check_shared(order, one, base, [t for t in touches if t.at.base == base])
    return len(loops)


def is_own(order: Order, one: ConcurrentLoop, base: str) -> bool:
    """Whether each thread, or iteration of a loop, has an array of its own."""
    buffer = order.program.buffers.get(base)
    return base in one.private or (buffer is not None and buffer.own)


def _check_chosen(one: ConcurrentLoop, inside: Sequence[Printed]) -> None:
    """No array of which values choose what is read is written in a loop whose iterations run at the same time. Raises
    Unreadable."""
    written = {p.target.base for p in inside if p.target is not None}
    for printed in inside:
        for name in sorted(written & chosen_arrays(printed.value)):
            raise Unreadable(f"line {printed.line}: which element of {name} is read, beside others that write some")


def check_shared(
    order: Order,
    one: ConcurrentLoop,
    base: str,
    touches: Sequence[Touch],
    place: Callable[[Touch], isl.Map] | None = None,
) -> None:
    """Iterations of a loop that runs at the same time touch no place twice that one of them writes. `place`: { T[i…] ->
    [place] } of an access, else that in its array. Raises Wrong."""
    end = max(one.times) + 1
    summed = [t for t in touches if t.summed and one.reduction and any(entry is one for entry in t.printed.loops)]
    others = [t for t in touches if t not in summed]
    written = elements_at(order, [t for t in others if t.write], end, place)
    everything = elements_at(order, others, end, place)
    for mine in (True, False) if one.reads_first else (None,):
        against = [t for t in others if mine is None or t.write == mine]
        touched = everything if mine is None else elements_at(order, against, end, place)
        if written is None or touched is None:
            continue
        conflict = written.apply_range(touched.reverse())
        for d in range(end):
            if d in one.times:
                differ = isl.differ(conflict, [d])
                if mine is False:
                    differ = differ.subtract(isl.descending(differ, d))  # read before it is written
                if not differ.is_empty():
                    a, b, where = pair(differ)
                    raise Wrong(
                        f"line {one.line}: iterations {[a[k] for k in one.times]} and {[b[k] for k in one.times]} of "
                        f"the {one.kind} loop touch the same element of {base}, and one of them writes it{where}"
                    )
            conflict = isl.agree(conflict, [d])
    if summed and everything is not None:
        sums = elements_at(order, summed, min(one.times), place)
        rest = elements_at(order, others, min(one.times), place)
        assert sums is not None and rest is not None
        if not isl.agree(sums.apply_range(rest.reverse()), range(min(one.times))).is_empty():
            raise Wrong(f"line {one.line}: the sum in {base} is used inside of the loop that adds it up")


def elements_at(
    order: Order, touches: Sequence[Touch], end: int, place: Callable[[Touch], isl.Map] | None = None
) -> isl.Map | None:
    """{ [first places of the time] -> [element] }; None of no touches. `place`: see `check_shared`."""
    found = None
    for touch in touches:
        where = touch.elements if place is None else place(touch)
        where = address(order.scop, touch.printed, touch.at) if where is None else where
        one = order.time(touch.printed, end).reverse().apply_range(where)
        found = one if found is None else found.union(one)
    return found.coalesce() if found is not None else None


def check_private(order: Order, statements: Sequence[Printed]) -> None:
    """Each thread (lane) has a scalar of its own: what an iteration reads it has written, and nobody reads it
    afterwards. Raises Wrong."""
    loops = {(e.number, e.line): e for p in statements for e in p.loops if e.private}
    for entry in loops.values():
        for name in sorted(entry.private):
            for one in (p for p in statements if name in chosen_arrays(p.value)):
                raise Unreadable(f"line {one.line}: which element of {name} is read, of which each thread has its own")
            touches = [t for p in statements for t in touched_by(p) if t.at.base == name]
            inside = [t for t in touches if entry in t.printed.loops]
            if name in order.scop.live_out and any(t.write for t in inside):
                raise Wrong(f"line {entry.line}: {name} is read after the loop to whose iterations it is private")
            writes = _times(order, [t for t in inside if t.write])
            for touch in touches:
                if touch.write:
                    continue
                own = order.time(touch.printed).range()
                if entry not in touch.printed.loops:
                    if any(name in other.private for other in touch.printed.loops):
                        continue  # of another loop, whose iterations have one each as well
                    raise Wrong(
                        f"line {entry.line}: {name} is read outside of the loop to whose iterations it is private"
                    )
                before = isl.Map.lex_gt(own.get_space()).intersect_domain(own)
                before = before.intersect_range(writes) if writes is not None else before.subtract(before)
                if name in order.scop.arrays and not order.scop.arrays[name].is_scalar:
                    before = before.intersect(_same_element(order, touch, [t for t in inside if t.write]))
                if not own.is_subset(isl.agree(before, range(max(entry.times) + 1)).domain()):
                    raise Wrong(f"line {entry.line}: {name} is private to the iterations of a loop that hands it on")


def _same_element(order: Order, read: Touch, writes: Sequence[Touch]) -> isl.Map:
    """{ time of a read -> time of a write of that element }."""
    end = isl.arity(order.time(read.printed).range())
    mine, theirs = elements_at(order, [read], end), elements_at(order, writes, end)
    assert mine is not None and theirs is not None
    return mine.apply_range(theirs.reverse())


def _times(order: Order, touches: Sequence[Touch]) -> isl.Set | None:
    """When any of the touches happens."""
    return isl.united(order.time(touch.printed).range() for touch in touches)


def check_steps(order: Order, statements: Sequence[Printed]) -> None:
    """A step of a row stores behind all of its loads, and a kernel reads its operands before it stores or after, as it
    likes: nothing may load from memory what the same step or call has made. Raises Wrong."""
    for load_of in statements:
        if load_of.step is None or load_of.kind in (*WRITES, "start"):
            continue
        for at in loads(load_of.value):
            for store_of in statements:
                store = store_of.target
                if store_of.step != load_of.step or store is None or store.base != at.base:
                    continue
                row = load_of.lanes
                if (row and store_of.number < load_of.number) or (not row and store != at):
                    _disjoint(order, load_of, at, store_of, store)


def _disjoint(order: Order, load_of: Printed, at: Pointer, store_of: Printed, store: Pointer) -> None:
    end = load_of.call + (1 if load_of.lanes else 0)
    load = order.time(load_of, end).reverse().apply_range(address(order.scop, load_of, at))
    stored = order.time(store_of, end).reverse().apply_range(address(order.scop, store_of, store))
    if not load.intersect(stored).is_empty():
        raise Wrong(f"line {load_of.line}: {at.base} is read where the same call has written it")
