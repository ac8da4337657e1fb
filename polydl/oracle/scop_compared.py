"""Compares a Scop with the C that it was read from.

The source runs in the interpreter of C (`interpreter`), from the beginning of its function. Where its region begins,
the Scop runs on a copy of the memory that is there; then the source goes on. What both read and wrote is compared when
the region ends (`traces`): which write each read sees, then values by bits. Of variables of the function it is what
reads them behind the region that decides: nobody may read there what the Scop leaves otherwise.

Memory that `#pragma polydl dead` names is not compared at the end. Sizes that the Scop's context excludes, and rows
that are not in order where the output asks for it, are `OUTSIDE`: the output runs the loops as they are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum

from pycparser import c_ast

from polydl.base.errors import Span
from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.scop import Scop, Storage
from polydl.oracle import c_verdicts
from polydl.oracle.c_memory import Memory, Obj, Pointer
from polydl.oracle.c_program import CProgram, parse
from polydl.oracle.fillings import ladder
from polydl.oracle.given_arguments import Setting, arguments, has_integers
from polydl.oracle.interpreter import call, objects
from polydl.oracle.region_marks import EVENT, MEMORY, NUMBERS, KeptText, Marked, kept_functions, marked
from polydl.oracle.scop_memory import Copies, KeptRun, Objects, places
from polydl.oracle.scop_numbers import Undefined, Unsupported, decoded
from polydl.oracle.scop_run import Instance, Run, Watched, Where, sized
from polydl.oracle.traces import Access, Found, first_difference


class Verdict(Enum):
    """What a comparison came to."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNDEFINED = "undefined"
    """C gives the source no meaning with these data: nothing is compared."""
    OUTSIDE = "outside"
    """The Scop does not hold for these sizes or data, and says so."""
    NOT_REACHED = "not reached"
    """The function did not come to the region."""
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between a source and its Scop."""

    kind: str
    """`traces.Found.kind`, `undefined` (the Scop does what has no meaning), or `behind the region`."""
    location: str
    """`y[3]`; of an object that the Scop does not know, its name and bytes."""
    source: Span | None
    """Where the source stands."""
    instance: Instance | None
    """What the Scop does then."""
    message: str
    setting: Setting
    """Sizes and data that show it."""

    def __str__(self) -> str:
        place = "" if self.source is None else f"{self.source}: "
        return f"{place}{self.kind}: {self.message} ({self.setting})"


@dataclass(frozen=True, slots=True)
class Compared:
    """How a run of both went."""

    verdict: Verdict
    reason: str = ""
    """Of UNDEFINED, OUTSIDE and UNSUPPORTED."""
    difference: Difference | None = None
    times: int = 0
    """How often the region was reached and compared."""
    accesses: int = 0
    """Reads and writes of the Scop that were compared."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A Scop beside its source, ready to run both."""

    scop: Scop
    marks: Marked
    program: CProgram
    kept: Mapping[str, KeptText]


def prepare(scop: Scop, text: str, *, lanes: bool = False) -> Prepared:
    """A Scop and the text of its file, marked (`region_marks.marked`) and preprocessed.

    `lanes`: statements that are kept add up in vector lanes where they may: then only data whose sums are exact (those
    of `fillings.EXACT`) leave the same bits. Raises c_verdicts.Unsupported for what is no C here.
    """
    kept = kept_functions(scop, lanes=lanes)
    behind = "".join(one.text for one in kept.values())
    return Prepared(scop, marked(scop), parse(f'{text}\n# 1 "<kept>"\n{behind}'), kept)


def compare(prepared: Prepared, setting: Setting, *, steps: int = 400_000) -> Compared:
    """Run source and Scop once, on data and sizes."""
    scop, program = prepared.scop, prepared.program
    memory = Memory()
    session = _Session(prepared, setting, memory)
    try:
        given = arguments(program, scop.function, setting, memory)
        call(program, scop.function, given, memory, steps=steps, tracer=session)
        session.left()
    except _Stop as stop:
        return stop.compared
    except c_verdicts.Undefined as error:
        return Compared(Verdict.UNDEFINED, str(error))
    except c_verdicts.StepLimit:
        return Compared(Verdict.UNSUPPORTED, "too many steps of the source")
    except c_verdicts.Unsupported as error:
        return Compared(Verdict.UNSUPPORTED, f"source: {error.reason}")
    except Unsupported as error:
        return Compared(Verdict.UNSUPPORTED, str(error))
    except KeyError:
        return Compared(Verdict.UNSUPPORTED, f"source: the function '{scop.function}'")
    if session.times == 0:
        return Compared(Verdict.NOT_REACHED)
    return Compared(Verdict.EQUAL, times=session.times, accesses=session.accesses)


def compare_all(prepared: Prepared, first: Setting, *, enough: int = 3) -> list[Compared]:
    """Comparisons with the integers of each step of `fillings.ladder`, until `enough` of them came to something: the
    first steps show most, but with them many programs have no meaning, or rows that are all empty. A difference ends
    them."""
    found: list[Compared] = []
    steps = list(ladder(first.filling))
    if prepared.scop.function in prepared.program.functions and not has_integers(
        prepared.program, prepared.scop.function
    ):
        steps = steps[:1]
    for filling in steps:
        found.append(compare(prepared, replace(first, filling=filling)))
        if found[-1].verdict in (Verdict.DIFFERENT, Verdict.UNSUPPORTED):
            break
        if sum(one.verdict is Verdict.EQUAL for one in found) == enough:
            break
    return found


class _Stop(Exception):
    """Ends a run of the source whose outcome is known."""

    def __init__(self, compared: Compared) -> None:
        super().__init__(compared.reason)
        self.compared = compared


_MOST_TIMES = 8
"""Runs of a region that are compared in one call."""


@dataclass(slots=True)
class _Region:
    """The region while the source runs it, behind the Scop's run."""

    copies: Copies
    where: Mapping[str, Where]
    given: Mapping[str, Pointer]
    undefined: str
    """Why the Scop's run has no meaning; empty: it has one."""
    trace: list[Access[c_ast.Node]] = field(default_factory=list)


@dataclass(slots=True)
class _Session:
    """Hears of the source's run."""

    prepared: Prepared
    setting: Setting
    memory: Memory
    times: int = 0
    accesses: int = 0
    objects: Objects = field(default_factory=Objects)
    region: _Region | None = None
    stale: dict[tuple[int, int], tuple[Obj, str]] = field(default_factory=dict)
    """Bytes, by the identity of their object, that the Scop leaves otherwise than the source, and what was there."""

    def statement(self, node: c_ast.Node) -> None:
        return

    def load(self, obj: Obj, offset: int, size: int, node: c_ast.Node) -> None:
        if self.region is not None:
            self._traced(obj, offset, size, node, write=False)
        elif self.stale:
            self._read_behind(obj, offset, size, node)

    def store(self, obj: Obj, offset: int, size: int, node: c_ast.Node) -> None:
        if obj.name == EVENT and obj.origin == "static":
            if obj.content(0, 1) == b"\1":
                self._entered()
            else:
                self.left()
        elif self.region is not None:
            self._traced(obj, offset, size, node, write=True)
        else:
            for at in range(offset, offset + size):
                self.stale.pop((id(obj), at), None)

    def _traced(self, obj: Obj, offset: int, size: int, node: c_ast.Node, *, write: bool) -> None:
        assert self.region is not None, "the source is inside of it"
        passed = obj.origin in ("argument", "static", "heap") or id(obj) in self.objects.numbers
        if passed or write:
            number = self.objects.number(obj)
            data = self.objects.plain(number, obj.content(offset, offset + size))
            self.region.trace.append(Access(number, offset, data, write, node))

    # Where the region begins

    def _entered(self) -> None:
        if self.times == _MOST_TIMES:
            raise _Stop(Compared(Verdict.EQUAL, times=self.times, accesses=self.accesses))
        there = objects(self.prepared.program, self.memory)
        marks = self.prepared.marks
        numbers = {
            name: int.from_bytes(there[NUMBERS].content(8 * i, 8 * i + 8), "little", signed=True)
            for i, name in enumerate(marks.parameters)
        }
        given = {
            name: self.memory.at(int.from_bytes(there[MEMORY].content(8 * i, 8 * i + 8), "little"))
            for i, name in enumerate(marks.memory)
        }
        scop = sized(self.prepared.scop, numbers)
        if scop is None:
            raise _Stop(Compared(Verdict.OUTSIDE, f"the context excludes {numbers}"))
        copies = Copies(self.objects, Watched())
        where = places(scop, given, self.memory, copies)
        _check_order(scop, where, copies)
        kept = KeptRun(
            self.prepared.program, self.prepared.kept, scop, self.memory, copies, where, {**scop.sizes, **numbers}
        )
        run = Run(scop, copies, where, kept, copies.watched)
        undefined = ""
        try:
            run.run()
        except Undefined as error:
            undefined = str(error)
        self.stale.clear()
        self.region = _Region(copies, where, given, undefined)

    # Where it ends

    def left(self) -> None:
        """The region ends, or the function."""
        region = self.region
        if region is None:
            return
        self.region = None
        self.times += 1
        self.accesses += len(region.copies.trace)
        if region.undefined:
            instance = region.copies.watched.instance
            self._differs("undefined", "", None, instance, f"the Scop does what has no meaning: {region.undefined}")
        # What becomes of the function's variables is asked when they are read.
        own = {number for number, obj in enumerate(self.objects.all) if obj.origin == "automatic"}
        late = own | self._dead(region)
        found = first_difference(region.trace, region.copies.trace, checked=lambda number: number not in late)
        if found is not None:
            self._found(found, region)
        self._stale(region, late)

    def _dead(self, region: _Region) -> set[int]:
        """Objects of which the user says that nobody reads them behind the region."""
        scop = self.prepared.scop
        outer = (Storage.PARAMETER, Storage.GLOBAL)
        dead: set[int] = set()
        live: set[int] = set()
        for name, pointer in region.given.items():
            if pointer.obj is not None and id(pointer.obj) in self.objects.numbers:
                gone = name not in scop.live_out and scop.arrays[name].storage in outer
                (dead if gone else live).add(self.objects.number(pointer.obj))
        return dead - live

    def _stale(self, region: _Region, late: set[int]) -> None:
        written = {at: access for access in region.trace if access.write for at, _ in access.bytes()}
        own = {at for access in region.copies.trace if access.write for at, _ in access.bytes()}
        dead = self._dead(region)
        for number, offset in {*written, *own}:
            obj = self.objects.all[number]
            if number not in late or number in dead:
                continue
            if region.copies.value(number, offset) != obj.content(offset, offset + 1)[0]:
                self.stale[id(obj), offset] = obj, obj.name

    def _read_behind(self, obj: Obj, offset: int, size: int, node: c_ast.Node) -> None:
        if any((id(obj), at) in self.stale for at in range(offset, offset + size)):
            self._differs(
                "behind the region", obj.name, node, None, f"'{obj.name}' is read, which the Scop leaves otherwise"
            )

    # Differences

    def _found(self, found: Found, region: _Region) -> None:
        obj = self.objects.all[found.object]
        location = self._location(found, region)
        message = {
            "not touched": f"{found.scop} touches {location}, which the source does not touch",
            "which write": f"{found.scop} reads what the source does not read in {location}",
            "not written": f"the source writes {location}, the Scop does not",
        }.get(found.kind, f"{location} is {self._shown(found.object, found.expected)} in the source, and ")
        if found.kind == "value":
            message += f"{self._shown(found.object, found.found)} in the Scop, which {found.scop} wrote"
        node = found.source
        self._differs(found.kind, location or obj.name, node, found.scop, message)

    def _location(self, found: Found, region: _Region) -> str:
        obj = self.objects.all[found.object]
        for name, pointer in region.given.items():
            array = self.prepared.scop.arrays[name]
            if pointer.obj is obj and not array.is_scalar:
                return f"{name}[{(found.offset - pointer.offset) // array.element.bytes}]"
        whole = found.offset == 0 and found.size == obj.size
        return obj.name if whole else f"{obj.name} from byte {found.offset} to {found.offset + found.size - 1}"

    def _shown(self, number: int, data: bytes | None) -> str:
        if data is None:
            return "nothing"
        types = [element for element in self.objects.types.get(number, ()) if element.bytes == len(data)]
        return str(decoded(data, types[0])) if types else data.hex(" ")

    def _differs(
        self, kind: str, location: str, node: c_ast.Node | None, instance: Instance | None, message: str
    ) -> None:
        place = None if node is None else c_verdicts.place_of(node)
        difference = Difference(kind, location, place, instance, message, self.setting)
        raise _Stop(Compared(Verdict.DIFFERENT, "", difference, self.times, self.accesses))


def _check_order(scop: Scop, where: Mapping[str, Where], copies: Copies) -> None:
    """What the output asks of row pointers before it runs what was made of the Scop."""
    for one in scop.ordered:
        element = scop.arrays[one.array].element

        def entry(row: int, place: Where = where[one.array], size: int = element.bytes) -> int:
            at = place((row,))
            data = copies.copy(at.object).data[at.offset : at.offset + size]
            return int.from_bytes(data, "little", signed=True)

        rows = [point[0] for point in isl.points(one.rows)] if one.rows.is_bounded() else []
        if any(entry(row) > entry(row + 1) for row in rows):
            raise _Stop(Compared(Verdict.OUTSIDE, f"'{one.array}' is not in order"))
