"""Where the elements of an array lie in memory: a quasi-affine map from subscripts to storage.

A layout cuts subscripts into digits and puts the digits in an order; storage is row-major over them:

    row-major      A[i][j]      i, j                      as C has it
    blocked        B[k][n]      n / 16, k, n % 16         panels of 16 columns, as microkernels read them
    interleaved    B[k][n]      k / 2, n, k % 2           pairs of neighbours, for dot products of bf16 (VNNI)
    padded         I[y][x]      y + 1, x + 1              a border around an image

or, where rows have different lengths, says where an element lies by a polynomial (`model.packed`):

    packed         L[i][j]      i*(i + 1)/2 + j           a triangle, row by row

Strides, sizes and footprints of storage are computed from here, and nowhere else is an array taken to be row-major.
The digits are those of the packed layouts of BLIS (Van Zee and van de Geijn, TOMS 2015) and of TPP-MLIR's `pack`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.packed import Packed


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension of storage: a digit of one subscript."""

    dimension: int
    """Of the array."""
    step: int
    """What one more of this digit adds to the subscript, >= 1."""
    extent: int | None
    """Values that the digit takes, from 0; None: not known."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Storage of an array of some rank. `row_major` makes the plain one, methods make others of it."""

    axes: tuple[Axis, ...]
    """Outermost first. The digits of a dimension are a mixed radix system: the finest has step 1, and what is below a
    step fits the finer digits. Where more fits, storage has gaps. Digits with one value are 0."""
    before: tuple[int, ...]
    """Elements of padding in front of each dimension: its subscripts start at -before."""
    packed: Packed | None = None
    """Where elements lie if no digits say that, as those of a packed triangle: axes have no extents then, and strides
    are those of the innermost dimension alone."""

    def __post_init__(self) -> None:
        """Raises ValueError for axes that are no such digits."""
        for dimension in range(self.rank):
            digits = self._digits(dimension)
            if not digits or digits[-1].step != 1:
                raise ValueError(f"dimension {dimension} has no digit of step 1")
            for coarse, fine in pairwise(digits):
                if fine.extent is None or not fine.step < coarse.step <= fine.step * fine.extent:
                    raise ValueError(f"the digits of dimension {dimension} leave out some of its subscripts")
        if any(not 0 <= axis.dimension < self.rank for axis in self.axes):
            raise ValueError(f"there is an axis of a dimension that an array of rank {self.rank} has not")

    @property
    def rank(self) -> int:
        """Dimensions of the array."""
        return len(self.before)

    def _digits(self, dimension: int) -> list[Axis]:
        """The axes of a dimension, coarsest first, without those that are always 0 beside others."""
        own = sorted((a for a in self.axes if a.dimension == dimension), key=lambda a: -a.step)
        return [axis for axis in own if axis.extent != 1] or own[-1:]

    def digits_of(self, dimension: int) -> list[int]:
        """The places in `axes` of a dimension's digits, coarsest first."""
        return [self.axes.index(axis) for axis in self._digits(dimension)]

    @property
    def is_row_major(self) -> bool:
        """Whether this is the layout of a C array: one axis per dimension, in order, without padding in front."""
        plain = self.packed is None and not any(self.before)
        return plain and [(a.dimension, a.step) for a in self.axes] == [(d, 1) for d in range(self.rank)]

    # Other layouts

    def blocked(self, dimension: int, block: int) -> Layout:
        """The dimension in blocks, whose elements become the innermost axis; the last block is filled up.

        before:  k, n            blocked(1, 16)        before:  k, n            blocked(0, 2)
        after:   k, n / 16, n % 16                     after:   k / 2, n, k % 2
        Raises ValueError where coarser digits would have to be filled up.
        """
        old = self._digits(dimension)[-1]
        place = self.axes.index(old)
        if len(self._digits(dimension)) > 1 and (old.extent is None or old.extent % block):
            raise ValueError(f"{old.extent} elements in a block are no multiple of {block}")
        outer = Axis(dimension, block, None if old.extent is None else -(-old.extent // block))
        return replace(self, axes=(*self.axes[:place], outer, *self.axes[place + 1 :], Axis(dimension, 1, block)))

    def permuted(self, order: Sequence[int]) -> Layout:
        """The axes in another order: `order[i]` is where the new axis i was."""
        if sorted(order) != list(range(len(self.axes))):
            raise ValueError(f"{tuple(order)} is no order of {len(self.axes)} axes")
        return replace(self, axes=tuple(self.axes[i] for i in order))

    def padded(self, dimension: int, before: int = 0, after: int = 0) -> Layout:
        """With room for more elements of a dimension, in front and behind. Raises ValueError for one that is cut."""
        if len(self._digits(dimension)) > 1:
            raise ValueError(f"dimension {dimension} is blocked: pad first")
        axes = tuple(
            replace(a, extent=a.extent + before + after) if a.dimension == dimension and a.extent is not None else a
            for a in self.axes
        )
        fronts = tuple(b + before * (d == dimension) for d, b in enumerate(self.before))
        return Layout(axes, fronts)

    # Sizes and distances, in elements of storage

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Extents of the axes, outermost first."""
        return tuple(axis.extent for axis in self.axes)

    @property
    def size(self) -> int | None:
        """Elements of storage, padding and filled-up blocks included; None where it is not known."""
        return _product(self.shape)

    @property
    def axis_strides(self) -> tuple[int | None, ...]:
        """Elements between neighbours along each axis; None where the axes inside of it are not known."""
        found: list[int | None] = []
        inside: int | None = 1
        for axis in reversed(self.axes):
            found.append(inside)
            inside = None if inside is None or axis.extent is None else inside * axis.extent
        return tuple(reversed(found))

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Elements between neighbours along each dimension of the array; None where one is blocked or not known."""
        found = [self.distance([int(d == dimension) for d in range(self.rank)]) for dimension in range(self.rank)]
        known = tuple(stride for stride in found if stride is not None)
        return known if len(known) == len(found) else None

    def distance(self, moves: Sequence[int]) -> int | None:
        """Elements between a place and the one whose subscripts are `moves` further; None where that depends on the
        place (between the elements of a blocked dimension, the rows of a triangle) or is not known."""
        if self.packed is not None:
            return self.packed.distance(moves)
        total = 0
        strides = dict(zip(self.axes, self.axis_strides, strict=True))
        for dimension, move in enumerate(moves):
            if move == 0:
                continue
            # A digit and the coarser ones move as one where they are as far apart as if the dimension were not cut.
            digits = self._digits(dimension)
            for place in reversed(range(len(digits))):
                digit, stride = digits[place], strides[digits[place]]
                coarser = [(c.step // digit.step, c.step % digit.step, strides[c]) for c in digits[:place]]
                if stride is None or move % digit.step:
                    continue
                if all(rest == 0 and own == ratio * stride for ratio, rest, own in coarser):
                    total += move // digit.step * stride
                    break
            else:
                return None
        return total

    def offset(self, subscripts: Sequence[int]) -> int:
        """Elements from the start of storage to an element. The extents of all but the outermost axis are known, or the
        parameters of a packed address have values."""
        if self.packed is not None:
            place = self.packed.offset(subscripts)
            assert place is not None, "the layout is not known"
            return place
        total = 0
        for axis, stride in zip(self.axes, self.axis_strides, strict=True):
            assert stride is not None, "the layout is not known"
            total += self._digit(axis, subscripts[axis.dimension]) * stride
        return total

    def _digit(self, axis: Axis, subscript: int) -> int:
        if axis not in self._digits(axis.dimension):
            return 0
        value = subscript + self.before[axis.dimension]
        for step in self._coarser(axis):
            value %= step
        return value // axis.step

    def _coarser(self, axis: Axis) -> list[int]:
        """Steps of the coarser digits of the same dimension, coarsest first, without those that are multiples of the
        next: what is left of a subscript after these digits is its remainder by all of them in turn."""
        steps = [digit.step for digit in self._digits(axis.dimension) if digit.step > axis.step]
        return [s for i, s in enumerate(steps) if i + 1 == len(steps) or s % steps[i + 1]]

    # As functions of isl

    def digits(self, elements: isl.Set | isl.Space) -> list[isl.Aff]:
        """{ A[a…] -> [digit] } for each axis."""
        found = []
        for axis in self.axes:
            if axis not in self._digits(axis.dimension):
                found.append(isl.constant(elements, 0))
                continue
            value = isl.coordinate(elements, axis.dimension).add_constant_val(isl.value(self.before[axis.dimension]))
            for step in self._coarser(axis):
                value = value.mod_val(isl.value(step))
            found.append(isl.floor_div(value, axis.step) if axis.step > 1 else value)
        return found

    def address(self, elements: isl.Set | isl.Space) -> isl.Aff:
        """{ A[a…] -> [elements from the start of storage] }."""
        total = isl.constant(elements, 0)
        for digit, stride in zip(self.digits(elements), self.axis_strides, strict=True):
            assert stride is not None, "the layout is not known"
            total = total.add(digit.scale_val(isl.value(stride)))
        return total

    def accessed(self, relation: isl.Map) -> isl.Map:
        """{ S[i…] -> [elements from the start of storage] } for an access { S[i…] -> A[a…] }."""
        return relation.apply_range(isl.Map.from_aff(self.address(relation.get_space().range())))

    def footprint(self, region: isl.Set) -> tuple[int, int]:
        """First element of storage that a region of the array reaches, and one past the last. Raises ValueError for one
        that is empty or without a bound."""
        first, last = isl.bounds(region.apply(isl.Map.from_aff(self.address(region))), 0)
        return first, last + 1

    def contiguous(self, region: isl.Set) -> bool:
        """Whether the elements of a region fill a run of storage. Raises ValueError as `footprint` does."""
        first, end = self.footprint(region)
        return region.apply(isl.Map.from_aff(self.address(region))).is_equal(isl.interval(first, end - 1))


def _product(extents: Sequence[int | None]) -> int | None:
    known = [extent for extent in extents if extent is not None]
    return math.prod(known) if len(known) == len(extents) else None


NO_AXES = Layout((), ())
"""Of a scalar."""


def row_major(extents: Sequence[int | None]) -> Layout:
    """The layout of a C array with these extents; None for one that is not known."""
    return Layout(tuple(Axis(d, 1, extent) for d, extent in enumerate(extents)), (0,) * len(extents))


def packed_by(address: Packed) -> Layout:
    """The layout of elements that lie at a packed address."""
    return Layout(tuple(Axis(d, 1, None) for d in range(address.rank)), (0,) * address.rank, address)
