"""The data of candidates: shapes and types of the arrays, input values, and the shared memory that holds them."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from polydl.base.by_identity import once_for_each
from polydl.base.errors import InputError, NotMeasurable, QuotaExceeded
from polydl.base.records import dataclass
from polydl.measure.driver import Block, Place
from polydl.measure.given_data import Given, check_values, least_extents
from polydl.measure.index_data import Values, assumed_elements, filled, neighbours, values_of
from polydl.measure.unit import passed_arrays, written_arrays
from polydl.model import isl
from polydl.model.bf16_words import arrays_of_words
from polydl.model.bfloat16 import narrowed, widened
from polydl.model.layout import Layout, row_major
from polydl.model.scop import Array, Scop, Storage
from polydl.model.types import BF16_WORDS, F32, U16, ElementType
from polydl.rewrite.canonical import canonical

AnyArray = npt.NDArray[np.generic]

_CANARY = 0xA5
_MEMORY_SHARE = 0.6
"""Part of the free memory that measuring may use."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array that the harness provides."""

    array: Array
    layout: Layout
    """Row-major, with padding in front where the program uses negative subscripts."""
    place: Place
    written: bool
    live: bool
    """Whether its contents are read after the region."""
    fixed: int | None = None
    """The value of a scalar whose value is fixed by --size; None: any."""
    overwritten: bool = False
    """Whether the region overwrites it before reading it (measure.poison)."""
    indices: Values | None = None
    """The integers that it may hold where subscripts are made of them; None: any."""
    given: Given | None = None
    """Data of the user's, in place of invented ones."""
    in_words: bool = False
    """Whether the program takes bits of its elements for bfloat16s: it holds such numbers then."""
    diagonal: isl.Set | None = None
    """Of a packed array the elements that an access reaches one of in each row, as those of a diagonal."""
    parts: tuple[Buffer, ...] = ()
    """Of structures whose members have several types: the arrays in this memory, one of each type, itself the first."""

    @property
    def element(self) -> ElementType:
        return BF16_WORDS if self.in_words else self.array.element

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """NumPy's type of the elements as they lie in memory: where it has none, of their bits."""
        return np.dtype(np.uint16 if self.element.numpy is None else self.element.numpy)

    def stored(self, values: AnyArray) -> AnyArray:
        """Numbers as they lie in memory, rounded to the element's type."""
        return narrowed(values) if self.element.numpy is None else values.astype(self.dtype)

    def numbers(self, stored: AnyArray) -> AnyArray:
        """What lies in memory as numbers of a type that NumPy computes with; the same array where it is."""
        return widened(stored) if self.element.numpy is None else stored

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per dimension; () for a scalar."""
        return tuple(extent or 0 for extent in self.layout.shape)

    @property
    def elements(self) -> int:
        return self.layout.size or 0

    @property
    def lower(self) -> int:
        """Elements before the one that the pointer points to."""
        return self.layout.offset([0] * self.layout.rank)

    @property
    def bytes(self) -> int:
        return self.elements * self.element.bytes

    @property
    def slots(self) -> Slots:
        """Which bytes of a structure its members are: offsets, and those of their elements."""
        assert self.array.members is not None
        of = self.element.bytes
        return [slice(at * of, (at + 1) * of) for at, path in enumerate(self.array.members.paths) if path]

    def absolute(self, values: AnyArray) -> AnyArray:
        """The magnitudes of what it holds."""
        if not self.parts:
            return self.stored(np.abs(self.numbers(values)))
        made = values.copy()
        for part in self.parts:
            _put(part, made, part.stored(np.abs(part.numbers(_taken(part, values)))))
        return made


Slots = list[slice]


def _rows(values: AnyArray, bytes_: int) -> npt.NDArray[np.uint8]:
    """The bytes of structures, one after the other."""
    return values.reshape(-1).view(np.uint8).reshape(-1, bytes_)


def _put(part: Buffer, whole: AnyArray, values: AnyArray) -> None:
    """Give the members of one type, among the structures that `whole` holds, the values of an array of them."""
    assert part.array.members is not None
    size = part.array.members.bytes
    target, source = _rows(whole, size), _rows(np.ascontiguousarray(values), size)
    for slot in part.slots:
        target[:, slot] = source[:, slot]


def _taken(part: Buffer, whole: AnyArray) -> AnyArray:
    """The members of one type among structures, as their array: zeros in the place of all others."""
    assert part.array.members is not None
    made = np.zeros(part.shape, part.dtype)
    target, source = _rows(made, part.array.members.bytes), _rows(whole, part.array.members.bytes)
    for slot in part.slots:
        target[:, slot] = source[:, slot]
    return made


def describe_buffers(
    scop: Scop, description: Sequence[Sequence[int]], given: Mapping[str, Given] | None = None
) -> tuple[Buffer, ...]:
    """The buffers of a scop whose sizes all have values.

    `description` has a row (element bytes, object bytes, is pointer) for each of `passed_arrays`, as the compiled unit
    reports it; `given`: data of the user's, by the names of arrays. Raises InputError for element types that have
    another size than polydl takes them to have, for extents without a bound, and for data that do not fit.
    """
    written = written_arrays(scop)
    values = {guard.name: guard.value for guard in scop.guards if not guard.macro}
    given = given or {}
    least = least_extents(scop, given)
    buffers = []
    together: dict[str, list[Array]] = {}
    for array in scop.arrays.values():
        together.setdefault(array.spelled, []).append(array)
    for array, (element, size, pointer) in zip(passed_arrays(scop), description, strict=True):
        if element != array.element.bytes:
            raise NotMeasurable(
                f"the compiler gives {element} bytes to an element of '{array.name}' ('{array.element}'), "
                f"and polydl took it to have {array.element.bytes}",
                array.span,
                "compile for a 64-bit system, without flags that change the sizes of types",
            )
        place = Place.BUFFER
        view = scop.views.get(array.spelled)
        if (array.storage is Storage.GLOBAL and not pointer) or (view is not None and view.inside is not None):
            place = Place.CONSTANT if array.const and view is None else Place.IN_UNIT
        layout = _layout(scop, together[array.spelled], given.get(array.name), least.get(array.name, 0))
        if place is Place.IN_UNIT and layout.strides:
            # The size of the object decides, not the declaration.
            layout = row_major([size // element // layout.strides[0], *layout.shape[1:]])
        for one in together[array.spelled]:
            # Structures that lie one after the other, in units of each type.
            buffers.append(
                Buffer(
                    one,
                    layout if one is array else _beside(layout, one),
                    place,
                    one.name in written,
                    one.name in scop.live_out,
                    values.get(one.name) if one.is_scalar else None,
                    given=_fitting(given[one.name], one, layout, place) if one.name in given else None,
                    diagonal=_diagonal(scop, one),
                )
            )
    extents = {b.array.name: [n - before for n, before in zip(b.shape, b.layout.before, strict=True)] for b in buffers}
    indices = values_of(scop, extents)
    words = _in_words(scop)
    whole: dict[str, list[Buffer]] = {}
    for buffer in buffers:
        known = replace(buffer, indices=indices.get(buffer.array.name), in_words=buffer.array.name in words)
        if known.given is not None and known.indices is not None:
            check_values(scop, known.array, known.given, known.indices)
        whole.setdefault(buffer.array.spelled, []).append(known)
    return tuple(_together(parts) for parts in whole.values())


@once_for_each
def _in_words(scop: Scop) -> frozenset[str]:
    """The arrays of which a program makes bfloat16s: what their elements become is known when functions are inlined."""
    if not any(array.element is U16 and not array.is_scalar for array in scop.arrays.values()):
        return frozenset()
    try:
        return arrays_of_words(canonical(scop).scop)
    except QuotaExceeded:
        return frozenset()  # integers are as good as any: those of a comparison are small ones then


def _fitting(given: Given, array: Array, layout: Layout, place: Place) -> Given:
    """Data in the shape of an array. Raises InputError."""
    if place is Place.CONSTANT or any(layout.before):
        why = "is a constant of the file" if place is Place.CONSTANT else "has elements in front of its pointer"
        raise InputError(f"{given.source}: '{array.name}' {why}", array.span, "data can be given for other arrays")
    return replace(given, values=given.fitting(array, layout))


def rests_on(buffers: Sequence[Buffer]) -> str:
    """What chooses elements, for people: data of the user's, or invented ones; empty: no data do."""
    choosing = [b for b in buffers if b.indices is not None]
    files = [f"'{b.array.name}' ({b.given.source})" for b in choosing if b.given is not None]
    invented = [f"'{b.array.name}'" for b in choosing if b.given is None]
    said = [f"given subscripts in {', '.join(files)}"] if files else []
    if invented:
        name = invented[0].strip("'")
        real = f"--data {name}=FILE.npy takes real ones"
        said.append(f"invented subscripts in {', '.join(invented)}, of neighbours as in a mesh numbered well: {real}")
    return "; ".join(said)


def _beside(layout: Layout, other: Array) -> Layout:
    """The layout of structures in units of another type of their members."""
    before = layout.before[0]
    outer, *inner = layout.shape
    assert outer is not None
    return row_major([outer - before, *inner[:-1], other.layout.shape[-1]]).padded(0, before)


def _together(parts: Sequence[Buffer]) -> Buffer:
    """The arrays that are one in memory."""
    first, *others = parts
    if not others:
        return first
    written, live = any(part.written for part in parts), any(part.live for part in parts)
    return replace(first, written=written, live=live, parts=tuple(parts))


def _layout(scop: Scop, arrays: Sequence[Array], given: Given | None = None, least: int = 0) -> Layout:
    """The layout of an array, all extents known: from its declaration, the accesses of the statements, its data if they
    are given, and `least`, the outermost extent that others' data ask for. Of several that are one array of structures,
    that of the first."""
    array, names = arrays[0], {one.name for one in arrays}
    if array.is_scalar:
        return array.layout
    touched = [a.relation.range() for s in scop.statements for a in s.accesses if a.array in names]
    touched = [region for region in touched if not region.is_empty()]
    if array.layout.packed is not None:
        # Addresses grow with the subscripts in lexicographic order.
        last = max((array.layout.offset(isl.lex_extreme(region, greatest=True)) for region in touched), default=0)
        size = max(last + 1, 0 if given is None else given.values.size, least)
        return row_major([size])
    ends = [(isl.least(region, 0), isl.greatest(region, 0)) for region in touched]
    known = [(low, high) for low, high in ends if low is not None and high is not None]
    outer, *inner = array.layout.shape
    if array.layout.strides is None:
        raise NotMeasurable(f"array '{array.name}' has an inner dimension of unknown size", array.span)
    low = min((low for low, _ in known), default=0)
    if outer is None:
        outer = max((high + 1 for _, high in known), default=1)
        row = max(math.prod(n or 1 for n in inner), 1)
        if given is not None:
            outer = max(outer, given.values.size // row)
        elif least:
            outer = max(outer, least)
        elif len(known) < len(ends):
            outer = max(outer, -(-assumed_elements(scop, array) // row))
    before = max(0, -low)
    if outer + before < 1 or any((extent or 0) < 1 for extent in inner):
        raise NotMeasurable(f"array '{array.name}' has no elements at these sizes", array.span, "give other sizes")
    return row_major([outer, *inner]).padded(0, before)


def _diagonal(scop: Scop, array: Array) -> isl.Set | None:
    """See `Buffer.diagonal`; None of other arrays."""
    if array.layout.packed is None:
        return None
    ranges = [a.relation.range() for s in scop.statements for a in s.accesses if a.array == array.name]
    found = [
        one
        for one in ranges
        if all(isl.is_determined(one, d) for d in range(1, array.layout.rank)) and one.is_bounded()
    ]
    return isl.united(found)


ROOM = mmap.PAGESIZE
"""Bytes that vectorized code may read beside an array: some compilers load whole vectors or structures of which they
use a part."""


def blocks_for(buffers: Sequence[Buffer], *, flush_end: bool, room: int = 0) -> tuple[Block, ...]:
    """Lay the buffers out in the shared file, one after the other in whole pages.

    Each array either begins right after the guard before it (`flush_end` false: it is page aligned) or ends right
    before the guard after it (true: it is aligned to its elements only). The rest of its pages is filled with canaries,
    and so is `room`: bytes, whole pages, that may be read between each array and its guards.
    """
    blocks, offset = [], 0
    for buffer in buffers:
        size = buffer.bytes
        pages = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        block, start = pages + 2 * room, room + (pages - size if flush_end else 0)
        blocks.append(
            Block(
                buffer.place, size, block, offset, start, buffer.lower * buffer.element.bytes, buffer.written,
                in_each_run=buffer.written and buffer.indices is not None,
            )
        )  # fmt: skip
        offset += block
    return tuple(blocks)


def integer_range(terms: int, buffers: Sequence[Buffer]) -> int:
    """Largest value k of the integer inputs, so that a sum of `terms` products of three inputs stays exact.

    k^3 * terms < 2^significand, between 2 (more than one value, so that mixed-up elements show) and 4. The
    significand is the shortest of the floating-point buffers, that of float where there are none.
    """
    bits = min((b.element.significand for b in buffers if b.element.rounds), default=F32.significand)
    k = 4
    while k > 2 and k**3 * terms >= 2**bits:
        k -= 1
    return k


_PERIOD = 16_777_213
"""Elements after which the values of a large input repeat. A prime: no extent, tile or page is a multiple of it, so
that swapped elements have different values."""


def _filled(buffer: Buffer, values: Callable[[int], AnyArray], *, whole: bool = False) -> AnyArray:
    """What an array holds: `values(count)`, repeated with the period `_PERIOD` unless it is `whole`."""
    count = int(np.prod(buffer.shape, dtype=np.int64))
    period = buffer.stored(np.asarray(values(count if whole else min(count, _PERIOD))))
    if whole or count <= _PERIOD:
        return period.reshape(buffer.shape)
    flat = np.empty(count, buffer.dtype)
    for start in range(0, count, _PERIOD):
        flat[start : start + _PERIOD] = period[: count - start]
    return flat.reshape(buffer.shape)


def integer_inputs(buffers: Sequence[Buffer], seed: int, largest: int, *, dominant: bool = False) -> list[AnyArray]:
    """Inputs with integer values in 1..largest: positive, so that quotients and roots are defined. Those that
    subscripts are made of are spread over all that there is. `dominant`: see `_dominant`."""

    def made(buffer: Buffer, rng: np.random.Generator) -> AnyArray:
        if buffer.fixed is not None:
            return buffer.stored(np.full(buffer.shape, buffer.fixed))
        if buffer.given is not None and buffer.element.is_int:
            return np.array(buffer.given.values)
        if buffer.indices is not None:
            return _filled(buffer, partial(filled, buffer.indices, rng), whole=buffer.indices.ordered)
        top = min(largest, buffer.element.maximum) if buffer.element.is_int else largest
        values = _filled(buffer, partial(_integers, rng, top))
        return _dominant(buffer, values, top) if dominant and buffer.element.rounds else values

    return [_of_parts(buffer, made, [seed, 0, i]) for i, buffer in enumerate(buffers)]


def _of_parts(buffer: Buffer, made: Callable[[Buffer, np.random.Generator], AnyArray], seed: list[int]) -> AnyArray:
    """What a buffer holds: what `made` gives it, and of structures with members of several types each of them."""
    values = made(buffer, np.random.default_rng(seed))
    for number, part in enumerate(buffer.parts[1:]):
        _put(part, values, made(part, np.random.default_rng([*seed, number])))
    return values


def _dominant(buffer: Buffer, values: AnyArray, largest: float) -> AnyArray:
    """The values, with the diagonal of a square or packed matrix of reals made larger than the sum of any row.

    Factorisations and triangular systems are then well conditioned, and rounding in another order (or not, in an FMA)
    changes little. Otherwise an elimination without pivoting multiplies differences by the inverse of any small pivot
    (Higham, "Accuracy and stability of numerical algorithms", 9.3).
    """
    if buffer.diagonal is not None:
        at = np.asarray([buffer.array.layout.offset(point) for point in isl.points(buffer.diagonal)])
        own = np.asarray(buffer.numbers(np.asarray(values[at])))
        values[at] = buffer.stored(np.add(own, 2 * largest * len(at)))
    elif values.ndim == 2 and values.shape[0] == values.shape[1]:
        at = np.arange(values.shape[0])
        values[at, at] = buffer.stored(np.asarray(buffer.numbers(values[at, at]) + 2 * largest * values.shape[0]))
    return values


def real_inputs(
    buffers: Sequence[Buffer], seed: int, low: float, high: float, *, dominant: bool = False
) -> list[AnyArray]:
    """Inputs with real values, uniform in [low, high); integer arrays get the values of `integer_inputs` for another
    seed, but that subscripts are made of neighbours. Data that the user gave are in their places. `dominant`: see
    `_dominant`."""

    def made(buffer: Buffer, rng: np.random.Generator) -> AnyArray:
        if buffer.fixed is not None:
            return buffer.stored(np.full(buffer.shape, buffer.fixed))
        if buffer.given is not None:
            return np.array(buffer.given.values)
        if buffer.indices is not None:
            return _filled(buffer, partial(neighbours, buffer.indices, rng), whole=True)
        if buffer.element.rounds:
            values = _filled(buffer, partial(_reals, rng, low, high))
            return _dominant(buffer, values, max(abs(low), abs(high))) if dominant else values
        return _filled(buffer, partial(_integers, rng, min(4, buffer.element.maximum)))

    return [_of_parts(buffer, made, [seed, 1, i]) for i, buffer in enumerate(buffers)]


def _integers(rng: np.random.Generator, top: int, count: int) -> AnyArray:
    return np.asarray(rng.integers(1, top, count, dtype=np.int8, endpoint=True))


def _reals(rng: np.random.Generator, low: float, high: float, count: int) -> AnyArray:
    return np.asarray(rng.random(count, dtype=np.float32)) * np.float32(high - low) + np.float32(low)


_COMPARED = 1 << 22
"""Bytes compared at a time."""


def unchanged(mapping: mmap.mmap, block: Block, before: AnyArray) -> bool:
    """Whether an array in the shared file still holds the bits of `before`."""
    flat = before.reshape(-1).view(np.uint8)
    start = block.file_offset + block.data_offset
    return all(
        np.array_equal(np.frombuffer(mapping, np.uint8, part.size, start + at), part)
        for at in range(0, block.bytes, _COMPARED)
        if (part := flat[at : at + _COMPARED]).size
    )


def write_inputs(mapping: mmap.mmap, blocks: Sequence[Block], inputs: Sequence[AnyArray]) -> None:
    """Put inputs and canaries into the shared file."""
    for block, values in zip(blocks, inputs, strict=True):
        if block.place is Place.CONSTANT:
            continue
        whole = np.frombuffer(mapping, np.uint8, block.block_bytes, block.file_offset)
        whole[: block.data_offset] = _CANARY
        whole[block.data_offset + block.bytes :] = _CANARY
        # As bytes, since an array that ends at its guard may begin at any address.
        whole[block.data_offset : block.data_offset + block.bytes] = (
            np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        )


def read_array(mapping: mmap.mmap, block: Block, buffer: Buffer) -> AnyArray:
    """The contents of an array as numbers: a view of the shared file that is valid until the mapping is closed, or a
    copy where NumPy has not the type."""
    start = block.file_offset + block.data_offset
    return buffer.numbers(np.frombuffer(mapping, buffer.dtype, buffer.elements, start).reshape(buffer.shape))


def results(mapping: mmap.mmap, blocks: Sequence[Block], buffers: Sequence[Buffer]) -> Iterator[tuple[str, AnyArray]]:
    """What the region has written and is read after it, by name: see `read_array`. Of structures with members of
    several types, an array of each that is written."""
    for block, buffer in zip(blocks, buffers, strict=True):
        if not (buffer.written and buffer.live):
            continue
        if not buffer.parts:
            yield buffer.array.name, read_array(mapping, block, buffer)
            continue
        whole = np.frombuffer(mapping, np.uint8, block.bytes, block.file_offset + block.data_offset)
        for part in buffer.parts:
            if part.written and part.live:
                yield part.array.name, part.numbers(_taken(part, whole))


def damaged_canary(mapping: mmap.mmap, block: Block) -> int | None:
    """Offset, relative to the start of the array, of a canary byte that was overwritten; None when there is none."""
    whole = np.frombuffer(mapping, np.uint8, block.block_bytes, block.file_offset)
    end = block.data_offset + block.bytes
    for start, stop in ((0, block.data_offset), (end, block.block_bytes)):
        damaged = np.flatnonzero(whole[start:stop] != _CANARY)
        if damaged.size:
            nearest = damaged[0] if start == end else damaged[-1]
            return start + int(nearest) - block.data_offset
    return None


def available_memory() -> int:
    """Bytes that can be allocated without swapping, within the limit of the control group."""
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.is_file() and used.is_file() and (text := limit.read_text().strip()) != "max":
        available = min(available, max(0, int(text) - int(used.read_text())))
    return available


def memory_budget() -> int:
    """Bytes that measuring may use: most of what is free, so that the machine does not start to swap."""
    return int(_MEMORY_SHARE * available_memory())
