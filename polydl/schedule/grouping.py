"""Which inner product a structure's microkernel computes, and along which reduction it takes groups of neighbours."""

from __future__ import annotations

from collections.abc import Iterable

from polydl.base.records import dataclass
from polydl.model.contraction import Contraction, Operand
from polydl.model.strides import Stride
from polydl.schedule.loops import KernelLoops, Loop, NestLoops, trips
from polydl.target.products import (
    BYTES,
    DOT_8,
    FMA,
    MATRICES,
    SINGLE,
    Product,
    direct_product,
    in_matrices,
    inner_product,
    is_bf16,
    of_bytes,
)
from polydl.target.schemes import scheme_of, tile_of


@dataclass(frozen=True, slots=True)
class Grouping:
    """How the reductions of a microkernel are multiplied."""

    product: Product
    loop: Loop | None = None
    """Its reduction whose neighbours are side by side in words; None: none, products are of single elements."""
    in_place: bool = False
    """A has the words as it is, so that it need not be copied."""
    within: str = ""
    """In place of `loop`, the reduction within a segment (`Contraction.within`) with the groups; B's words are put
    together when they are loaded then."""

    def of(self, loop: Loop) -> int:
        """Iterations of a reduction that one step of the microkernel takes."""
        return scheme_of(self.product).depth(self.product) if loop is self.loop else 1

    def run(self, role: str) -> int:
        """Neighbours along the reduction with the groups that lie side by side in the copy of an operand."""
        return 1 if self.loop is None else scheme_of(self.product).run(self.product, role)

    @property
    def words(self) -> int:
        """Words of each operand that one step takes along the reduction with the groups."""
        grouped = self.loop is not None or self.within
        return scheme_of(self.product).depth(self.product) // self.product.group if grouped else 1


def grouping(structure: NestLoops) -> Grouping:
    """By the types of the contraction, what the microkernel was told, and the reductions inside of it.

    A group needs a reduction that moves both operands and has two iterations at least: one along which A has the words
    as it is, else the longest of them, the innermost of the longest. Without one, elements are multiplied one by one.
    """
    kernel, found = structure.kernel, structure.nest.contraction
    assert kernel is not None and found is not None
    if found.within and not found.uniform:
        return _within(structure, kernel, found)
    product = _product(structure, kernel, found)
    if not product.in_words:
        return Grouping(product)
    longest, best = 1, None
    for loop in kernel.reductions:
        count = trips(structure.nest, loop)
        moves = found.left.strides[loop.iterator] != 0 and found.right.strides[loop.iterator] != 0
        if moves and _in_words(structure, kernel, loop, product):
            return Grouping(product, loop, in_place=True)
        # Of an extent that is not known any may come.
        if moves and (count is None or count >= longest) and count != 1:
            longest, best = count or longest, loop
    return Grouping(FMA) if best is None else Grouping(product, best)


def _within(structure: NestLoops, kernel: KernelLoops, found: Contraction) -> Grouping:
    """Of operands that data choose, which are read where they are: groups of A's neighbours along the innermost
    reduction that has whole groups of them, where all else moves A by whole groups."""
    a, b = (structure.operand(role) for role in ("A", "B"))
    if kernel.product == SINGLE:
        return Grouping(FMA)
    moves = [a.strides[loop.iterator] for loop in kernel.all]
    if kernel.product in MATRICES:
        product = in_matrices(kernel.product, a.element, b.element, found.element, direct=True)
        along = None if product is None else grouped_within(found, a, moves, product)
        if product is not None and along is not None and _in_whole_blocks(structure, kernel, product):
            return Grouping(product, in_place=True, within=along)
    product = direct_product(a.element, b.element, found.element)
    along = grouped_within(found, a, moves, product) if product.in_words else None
    return Grouping(FMA) if along is None else Grouping(product, in_place=True, within=along)


def grouped_within(found: Contraction, a: Operand, moves: Iterable[Stride], product: Product) -> str | None:
    """The innermost reduction within a segment that has whole steps of a product, where A has the words as it is and
    all else moves it by whole words: the loops by `moves`. None: there is none."""
    within = {one.iterator: one.left if a is found.left else one.right for one in found.within}
    depth = scheme_of(product).depth(product)
    for one in reversed(found.within[1:]):
        others = [*moves, *(stride for iterator, stride in within.items() if iterator != one.iterator)]
        whole = all(isinstance(stride, int) and stride % product.group == 0 for stride in others)
        if within[one.iterator] == 1 and one.extent is not None and one.extent % depth == 0 and whole:
            return one.iterator
    return None


def _in_whole_blocks(structure: NestLoops, kernel: KernelLoops, product: Product) -> bool:
    """Whether all calls have whole tiles of rows, so that A is read where there are elements of it."""
    tile = tile_of(product)
    assert tile is not None, "no product of matrices"
    extent = None if kernel.rows is None else structure.nest.counts[kernel.rows.iterator].extent
    whole = structure.nest.box and kernel.m % tile.rows == 0 and kernel.n % tile.columns == 0
    return whole and extent is not None and extent % kernel.m == 0


def copied_bytes(structure: NestLoops, role: str) -> float:
    """Bytes that a copy of A or B reads and writes for each of its elements, in the mean of both: more than those of
    the operand's where the elements of the copy are wider."""
    assert structure.nest.contraction is not None
    operand, sums = structure.operand(role), structure.nest.contraction.element
    return (operand.element.bytes + grouping(structure).product.copy(role, sums).bytes) / 2


def _product(structure: NestLoops, kernel: KernelLoops, found: Contraction) -> Product:
    """The inner product, where there are reductions whose iterations it can take in groups."""
    product = inner_product(found)
    assert product is not None, "kernels are made for contractions that have one"
    if not product.in_words:
        return product
    if kernel.product == SINGLE:
        return FMA
    if kernel.product in MATRICES:
        a, b = (structure.operand(role).element for role in ("A", "B"))
        tiles = in_matrices(kernel.product, a, b, found.element)
        if tiles is not None and _whole_tiles(structure, kernel, found, tiles) and _fit(structure, tiles):
            return tiles
    if kernel.product == BYTES and _in_bytes(structure):
        left, right = (of_bytes(structure.operand(role).element) for role in ("A", "B"))
        assert left is not None and right is not None, "of other types than it was told"
        return DOT_8[left, right]
    return product


def _in_words(structure: NestLoops, kernel: KernelLoops, along: Loop, product: Product) -> bool:
    """Whether A's elements along a reduction are the words of an inner product: of its type, side by side, in whole
    groups in every call, and all else that moves A inside of the microkernel moves it by whole words."""
    nest, operand = structure.nest, structure.operand("A")
    group, depth = product.group, scheme_of(product).depth(product)
    wanted = product.a
    assert wanted is not None, "groups are of elements of a type"
    same = is_bf16(operand.element) if is_bf16(wanted) else operand.element is wanted
    # A's copy for a product with a correction has other bits than A.
    if not same or product.correction or not nest.box:
        return False
    strides: dict[str, int] = {}
    for loop in kernel.all:
        stride, count = operand.strides[loop.iterator], nest.counts[loop.iterator]
        if not isinstance(stride, int):
            return False
        backwards = loop.iterator in nest.statements[0].descending
        strides[loop.iterator] = stride * count.stride * (-1 if backwards else 1)
    extent = nest.counts[along.iterator].extent
    if strides[along.iterator] != 1 or extent is None or extent % depth or (along.within or depth) % depth:
        return False
    return all(stride % group == 0 for iterator, stride in strides.items() if iterator != along.iterator)


def _whole_tiles(structure: NestLoops, kernel: KernelLoops, found: Contraction, product: Product) -> bool:
    """Whether a microkernel's blocks are whole tiles, of a nest whose operands can be copied."""
    tile = tile_of(product)
    assert tile is not None, "no product of matrices"
    whole = kernel.rows is not None and kernel.m % tile.rows == 0 and kernel.n % tile.columns == 0
    return whole and structure.nest.box and not found.within and len(kernel.reductions) < _MOST_REDUCTIONS


_MOST_REDUCTIONS = 6
"""Loops of a microkernel's reductions, that over the words of a tile among them (`kernels.microkernel`)."""


def _fit(structure: NestLoops, product: Product) -> bool:
    """Whether the reductions have what a product of matrices adds to its copies."""
    return not product.correction or _in_bytes(structure)


def _in_bytes(structure: NestLoops) -> bool:
    """Whether groups of four fit the reductions: pieces of tiles hold a whole group, and the sums of B's columns are
    taken over just what a call multiplies."""
    kernel = structure.kernel
    assert kernel is not None
    if any(loop.within is not None and loop.within < 4 for loop in kernel.reductions):
        return False
    return all(structure.operand("B").strides[loop.iterator] != 0 for loop in kernel.reductions)
