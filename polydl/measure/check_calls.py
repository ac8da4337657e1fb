"""The calls with which an output is compared with its source: sizes, data, and the memory that arguments point to."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

import numpy as np

from polydl.base.errors import InputError, NotMeasurable, QuotaExceeded
from polydl.base.records import dataclass
from polydl.measure.check_data import FILLINGS, Filling
from polydl.measure.check_job import Block, Call
from polydl.measure.check_values import Cell
from polydl.measure.index_data import filled
from polydl.measure.input_data import Buffer, describe_buffers
from polydl.measure.unit import passed_arrays
from polydl.model.at_sizes import instances
from polydl.model.bfloat16 import narrowed
from polydl.model.combiners import SUM, of_assignment
from polydl.model.expr import calls
from polydl.model.functions import function_called
from polydl.model.scop import Assignment, Header, Scop, Storage
from polydl.model.types import C64, F32, F64, ElementType, Kind, spelled
from polydl.oracle.overlaps import Overlap, Pointer, overlaps

MOST_INSTANCES = 3e7
"""Of the statements of a function in one call: some tenths of a second where nothing is in vectors."""
MOST_BYTES = 32 << 20
"""Of the memory of one call, and of all large calls of a function together."""
_LARGE = 1 << 16
"""Bytes of a call from which on it counts among the large ones, of which each size has one or two."""
SLOT = 16
"""Bytes of an argument in the frame."""
_SCALARS = 7
"""Values of a parameter that is a number, one in each call."""
_UNUSED = 4096
"""Bytes behind a pointer that no region uses."""
_TINY = (
    (5, 7, 3, 4, 6), (3, 2, 5, 1, 4), (1, 1, 1, 1, 1), (8, 9, 17, 7, 16), (2, 1, 3, 2, 2), (17, 16, 15, 33, 9),
    (0, 0, 0, 0, 0), (1, 5, 2, 3, 1), (33, 3, 9, 8, 2), (6, 6, 6, 6, 6), (2, 33, 4, 5, 3),
)  # fmt: skip
"""Values of the first, second, … size; each vector length, one less and one more is there."""
_OVERLAPS, _APART = 24, 4
"""Ways in which arguments may overlap, and every how many-th is tried at each of the sizes."""
_FEW_FILLINGS = 3
"""Fillings at each size but the first, which gets all."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A function that holds regions, and how to know what its arguments lead to."""

    function: str
    header: Header
    scops: tuple[Scop, ...]
    """Its regions with the tuned sizes."""
    at: Callable[[Mapping[str, int]], tuple[Scop, ...]]
    """They with other sizes. Raises InputError."""
    sizes: tuple[Mapping[str, int], ...] = ()
    """Sizes at which it runs other code than at the smaller ones, beside the tuned ones."""

    @property
    def may_overlap(self) -> bool:
        """Whether its output asks at run time what overlaps: where it takes it for granted, it is not asked here."""
        return not any("overlap" in assumption for scop in self.scops for assumption in scop.assumptions)

    @property
    def zeros_open(self) -> bool:
        """Whether the sign of a zero may be another one: of a sum that begins elsewhere, and of what fmax and fmin
        choose (C11 F.10.9.2)."""
        bodies = [statement.body for scop in self.scops for statement in scop.statements]
        return any(
            not isinstance(one, Assignment)
            or of_assignment(one.op) is SUM
            or any(row is not None and row.chooses for row in map(function_called, calls(one.value)))
            for one in bodies
        )


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of a function as a call gives it a value."""

    kind: str
    """The type of its place in the frame: `long long`, `double`, `void *`."""


@dataclass(frozen=True, slots=True)
class Compared:
    """An object that is compared after a call."""

    number: int
    element: int
    """Bytes of an element."""
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A call, and what is compared after it."""

    subject: Subject
    arguments: tuple[Argument, ...]
    sizes: Mapping[str, int]
    filling: Filling
    call: Call
    compared: tuple[Compared, ...]
    guessed: bool = False
    """Whether something is behind a pointer of which no region says how much there has to be."""
    overlap: Overlap | None = None
    """Which arguments lead to the same memory; None: none do."""


def cases(subjects: Sequence[Subject], largest: float = MOST_INSTANCES) -> tuple[list[Case], dict[str, str]]:
    """The calls of all functions, and by function why there are none, for people."""
    made: list[Case] = []
    not_called: dict[str, str] = {}
    for number, subject in enumerate(subjects):
        before = len(made)
        why = ""
        left = MOST_BYTES
        for sizes, fillings in _points(subject):
            try:
                found = _at(subject, number, sizes, fillings, largest) if left > 0 else ()
                for case in found:
                    made.append(case)
                    size = sum(len(one.data) for one in case.call.objects)
                    left -= size if size > _LARGE else 0
            except (InputError, QuotaExceeded) as error:  # sizes that the program does not work with
                why = why or error.reason
        if len(made) == before:
            not_called[subject.function] = why or "no sizes were found at which it can be called"
    return made, not_called


def _at(
    subject: Subject, number: int, sizes: Mapping[str, int], fillings: Sequence[Filling], largest: float
) -> Iterator[Case]:
    """The calls at some sizes. Raises InputError where the program does not work with them."""
    scops = subject.at(sizes) if sizes else subject.scops
    work = sum(map(instances, scops))
    if work > largest:
        raise NotMeasurable("with the sizes that are fixed it runs too long to be called")
    found: dict[str, Buffer] = {}
    for scop in scops:
        whole = [(array.element.bytes, 0, True) for array in passed_arrays(scop)]
        for buffer in describe_buffers(scop, whole):
            name = buffer.array.spelled
            if name not in found or found[name].bytes < buffer.bytes:
                found[name] = buffer
    views = next((view for scop in scops for view in scop.views.values()), None)
    if views is not None:
        raise NotMeasurable(f"what '{views.root}' points to is not known well enough")
    size = sum(buffer.bytes for buffer in found.values())
    if size > MOST_BYTES:
        raise NotMeasurable("with the sizes that are fixed it needs too much memory to be called")
    if size > _LARGE and sizes:  # the others are tried at smaller ones
        fillings = fillings[: 2 if size <= MOST_BYTES // 16 else 1]
    elif size > _LARGE:
        fillings = fillings[: max(1, int(min(MOST_BYTES / 4 / size, largest / max(work, 1))))]
    dead = frozenset[str]().union(*(set(scop.arrays) - scop.live_out for scop in scops))
    for turn, filling in enumerate(fillings):
        yield _case(subject, number, sizes, filling, found, dead, turn + sum(sizes.values()))
    if subject.may_overlap and size <= _LARGE:
        turn = sum(sizes.values())
        several = overlaps(_pointers(found), _OVERLAPS)[1:]
        for at, overlap in enumerate(several[turn % _APART :: _APART]):
            case = _case(subject, number, sizes, FILLINGS[0], found, dead, turn + at)
            yield _overlapping(case, overlap)


def _pointers(buffers: Mapping[str, Buffer]) -> list[Pointer]:
    """The parameters whose memory others may reach, too; those of which subscripts are made stay apart."""
    found = []
    for name, buffer in buffers.items():
        array = buffer.array
        if array.storage is Storage.PARAMETER and not array.is_scalar and not array.restrict and not buffer.parts:
            if buffer.indices is None and array.rows is None:
                found.append(Pointer(name, buffer.element, buffer.elements, written=buffer.written))
    return found


def _overlapping(case: Case, overlap: Overlap) -> Case:
    """The call with arguments that lead to the same memory: one object in place of several."""
    objects, pointers = list(case.call.objects), list(case.call.objects[0].pointers)
    where = {one.name: at for at, one in enumerate(objects)}
    blocks: dict[int, list[tuple[int, int]]] = {}
    for name, block, offset in overlap.places:
        blocks.setdefault(block, []).append((where[name], offset))
    compared = {one.number: one for one in case.compared}
    for members in blocks.values():
        first = members[0][0]
        data = bytearray(max(offset + len(objects[at].data) for at, offset in members))
        for at, offset in reversed(members):
            data[offset : offset + len(objects[at].data)] = objects[at].data
        for at, offset in members:
            pointers = [(a, first, to + offset) if number == at else (a, number, to) for a, number, to in pointers]
        name = " and ".join(objects[at].name for at, _ in members)
        shown = next((compared.pop(at) for at, _ in members if at in compared), None)
        for at, _ in members:
            compared.pop(at, None)
            objects[at] = replace(objects[at], data=b"")
        objects[first] = replace(objects[first], data=bytes(data), name=name)
        if shown is not None:
            compared[first] = replace(shown, number=first)
    objects[0] = replace(objects[0], pointers=tuple(pointers))
    call = replace(case.call, objects=tuple(objects))
    return replace(case, call=call, compared=tuple(compared.values()), overlap=overlap)


def _case(
    subject: Subject, number: int, sizes: Mapping[str, int], filling: Filling, buffers: Mapping[str, Buffer],
    dead: frozenset[str], turn: int,
) -> Case:  # fmt: skip
    header = subject.header
    frame = bytearray(SLOT * (len(header.parameters) + 1))
    pointers: list[tuple[int, int, int]] = []
    arguments: list[Argument] = []
    objects: list[Block] = []
    compared: list[Compared] = []
    for at, (name, declaration) in enumerate(header.parameters):
        buffer = buffers.get(name)
        if buffer is not None and buffer.array.is_scalar and buffer.array.storage is Storage.PARAMETER:
            arguments.append(_scalar(frame, at * SLOT, buffer, declaration, filling, turn))
        elif buffer is not None and buffer.array.rows is not None:
            pointers.append((at * SLOT, len(objects) + 1, 0))
            rows, shown = _rows(buffer, filling, len(objects) + 1, apart=turn % 2 == 1)
            compared += shown if name not in dead else []
            objects += rows
            arguments.append(Argument("void *"))
        elif buffer is not None:
            data = _bytes(buffer, filling, len(objects) + 1)
            pointers.append((at * SLOT, len(objects) + 1, buffer.lower * buffer.element.bytes))
            if name not in dead:
                compared.append(Compared(len(objects) + 1, *_cells(buffer)))
            objects.append(Block(name, data))
            arguments.append(Argument("void *"))
        elif name in sizes:
            struct.pack_into("<q", frame, at * SLOT, sizes[name])
            arguments.append(Argument("long long"))  # converted by the call
        elif "*" in declaration or "[" in declaration:
            # Behind what no region uses the rest of the function may leave what it made of the results.
            pointers.append((at * SLOT, len(objects) + 1, 0))
            element = _declared(declaration, name)
            if element is None:
                objects.append(Block(name, bytes(_UNUSED)))
            else:
                compared.append(Compared(len(objects) + 1, element.bytes, _numbers(element, "", 0)))
                objects.append(
                    Block(name, _of_type(element, _UNUSED // element.bytes, name, filling, len(objects) + 1))
                )
            arguments.append(Argument("void *"))
        elif spelled(_without_name(declaration, name)) is not None:
            arguments.append(Argument(_without_name(declaration, name)))
        else:
            raise NotMeasurable(f"'{name}' is a structure that is passed by value")
    if header.result != "void":
        element = spelled(header.result)
        cells = _numbers(element, "", len(frame) - SLOT) if element is not None else ()
        compared.append(Compared(0, len(frame), cells))
    first = Block("the result", bytes(frame), tuple(pointers))
    call = Call(number, (first, *objects), at_end=turn % 2 == 0)
    guessed = any(one.name not in buffers and not one.pointers for one in objects)
    return Case(subject, tuple(arguments), sizes, filling, call, tuple(compared), guessed)


def _rows(buffer: Buffer, filling: Filling, number: int, *, apart: bool) -> tuple[list[Block], list[Compared]]:
    """An array of pointers, the `number`-th object, and its rows: one behind the other, or each in memory of its own.
    Raises NotMeasurable where rows are no arrays of numbers."""
    if len(buffer.shape) != 2 or buffer.lower or buffer.parts or buffer.array.members is not None:
        raise NotMeasurable(f"'{buffer.array.name}' leads to more than rows of numbers")
    (count, width), name = buffer.shape, buffer.array.name
    row = width * buffer.element.bytes
    data = _filled(buffer, filling, number)
    parts = [data[at * row : (at + 1) * row] for at in range(count)] if apart else [data]
    to = [(8 * at, number + 1 + at if apart else number + 1, 0 if apart else at * row) for at in range(count)]
    blocks = [Block(f"pointers of {name}", bytes(8 * count), tuple(to)), *(Block(name, part) for part in parts)]
    return blocks, [Compared(number + 1 + at, *_cells(buffer)) for at in range(len(parts))]


def _scalar(frame: bytearray, at: int, buffer: Buffer, declaration: str, filling: Filling, turn: int) -> Argument:
    """The value of a parameter that is a number."""
    element, name = buffer.element, buffer.array.name
    if buffer.fixed is not None:
        data = buffer.stored(np.array([buffer.fixed])).tobytes()
    else:
        values = _of_type(element, _SCALARS, name, filling, 0)
        data = values[turn % _SCALARS * element.bytes :][: element.bytes]
    frame[at : at + len(data)] = data
    return Argument(_without_name(declaration, name))


def _without_name(declaration: str, name: str) -> str:
    return re.sub(rf"\b{re.escape(name)}\b", "", declaration).strip()


def _bytes(buffer: Buffer, filling: Filling, number: int) -> bytes:
    """What an array holds: subscripts stay inside of the arrays that they are of."""
    if not buffer.parts:
        return _filled(buffer, filling, number)
    whole = np.zeros(buffer.bytes, np.uint8)
    assert buffer.array.members is not None
    of = buffer.array.members.bytes
    for part in buffer.parts:
        mine = np.frombuffer(_filled(part, filling, number), np.uint8)
        rows = len(whole) // of
        for slot in part.slots:
            whole[: rows * of].reshape(rows, of)[:, slot] = mine[: rows * of].reshape(rows, of)[:, slot]
    return whole.tobytes()


def _declared(declaration: str, name: str) -> ElementType | None:
    """The type of the numbers behind a pointer or in an array that is declared so; None where it is none of C's."""
    words = re.split(r"[\[*]", declaration)[0].replace(name, " ").split()
    return spelled(" ".join(word for word in words if word not in ("const", "restrict", "volatile")))


def _filled(buffer: Buffer, filling: Filling, number: int) -> bytes:
    count = buffer.elements
    if buffer.indices is not None:
        rng = np.random.default_rng([number, count])
        return filled(buffer.indices, rng, count).astype(buffer.dtype).tobytes()
    return _of_type(buffer.element, count, buffer.array.name, filling, number)


def _of_type(element: ElementType, count: int, name: str, filling: Filling, number: int) -> bytes:
    if element.kind is Kind.COMPLEX:
        part = F32 if element is C64 else F64
        return filling.values(name, number, np.dtype(part.numpy), 2 * count).tobytes()
    values = filling.values(name, number, np.dtype(element.numpy or F32.numpy), count)
    return (values if element.numpy else narrowed(values)).tobytes()


def _cells(buffer: Buffer) -> tuple[int, tuple[Cell, ...]]:
    """Bytes of an element, and the numbers in it."""
    members = buffer.array.members
    if members is None:
        return buffer.element.bytes, _numbers(buffer.element, "", 0)
    cells: list[Cell] = []
    for part in buffer.parts or (buffer,):
        of = part.element
        assert part.array.members is not None
        for at, path in enumerate(part.array.members.paths):
            if path:
                cells += _numbers(of, path, at * of.bytes)
    return members.bytes, tuple(cells)


def _numbers(element: ElementType, path: str, offset: int) -> tuple[Cell, ...]:
    if element.kind is Kind.COMPLEX:
        part = F32 if element is C64 else F64
        return Cell(f"{path} (real)", offset, part), Cell(f"{path} (imaginary)", offset + part.bytes, part)
    return (Cell(path, offset, element),)


def _points(subject: Subject) -> Iterator[tuple[Mapping[str, int], Sequence[Filling]]]:
    """Sizes and what is filled in there: the tuned ones, those with other code, tiny ones."""
    tuned = {guard.name: guard.value for scop in subject.scops for guard in scop.guards if not guard.macro}
    yield tuned, FILLINGS
    turn = count()
    if tuned:
        for values in (*subject.sizes, *(dict(zip(tuned, values, strict=False)) for values in _TINY)):
            start = next(turn) * (_FEW_FILLINGS - 1)
            yield values, [FILLINGS[(start + k) % len(FILLINGS)] for k in range(_FEW_FILLINGS)]
