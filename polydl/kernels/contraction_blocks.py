"""Nests that are contractions, as calls of generated microkernels for blocks of the output."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from polydl.base.records import dataclass
from polydl.dependences.nests import Nest
from polydl.kernels.direct_reads import instructions_of_b
from polydl.kernels.family import Cycles
from polydl.kernels.microkernel import Microkernel, generate
from polydl.kernels.microkernel_spec import MicrokernelSpec, Reduction, shared_taps
from polydl.kernels.reference import loops
from polydl.model.contraction import Contraction, Operand
from polydl.model.layout import Layout, row_major
from polydl.model.types import ElementType
from polydl.schedule.grouping import grouping
from polydl.schedule.loops import NestLoops, given, stride_of
from polydl.target.isa import Isa
from polydl.target.products import BYTES, DOT_8, FMA, MATRICES, SINGLE, Product, in_matrices, inner_product, of_bytes
from polydl.target.schemes import scheme_of, tile_of


@dataclass(frozen=True, slots=True)
class Block:
    """The part of the output that one call computes, at most."""

    m: int
    """Rows."""
    n: int
    """Columns, in elements."""


@dataclass(frozen=True, slots=True)
class ContractionUse:
    """A contraction with the roles of its loops and operands."""

    element: ElementType
    rows: str | None
    """The loop over a block's rows; None: it has a single one."""
    columns: str
    """The loop along which a block is in vectors."""
    reductions: tuple[str, ...]
    """Outermost first."""
    left: Operand
    """A: its elements are broadcast."""
    right: Operand
    """B: it is read in vectors."""
    output: Operand
    row_extent: int | None
    """Rows that are cut into blocks; None: not known."""
    column_extent: int | None
    reduction_extents: tuple[int | None, ...]
    product: Product = FMA
    """How it multiplies."""
    filled: float = 1.0
    """Iterations of the reductions that steps take, over those that there are: the last step of the grouped one may be
    filled up with zeros."""
    in_place: bool = False
    """See `Grouping.in_place`."""
    direct: bool = False
    """Data choose what it reads, which is not copied."""
    window: int = 0
    """Not 0: A is read in vectors, too, and so many taps of neighbouring rows are the same (`taps`)."""
    spec: MicrokernelSpec | None = None
    """What the calls pass, which is decided when operands and what is fused have their places; its block is a shape's.
    None: not yet."""

    @property
    def narrow(self) -> bool:
        """Whether elements are converted, or put together in words, when they are read."""
        return self.direct and not self.left.element is self.right.element is self.element

    def in_matrices(self, scheme: str) -> Product | None:
        """Its product of a scheme of `MATRICES`; None where there is none."""
        return in_matrices(scheme, self.left.element, self.right.element, self.element, direct=self.direct)

    def told(self, product: str) -> ContractionUse:
        """The same with the inner product that a microkernel was told to take (`Microkernel.product`)."""
        if product == BYTES:
            a, b = of_bytes(self.left.element), of_bytes(self.right.element)
            assert a is not None and b is not None
            return replace(self, product=DOT_8[a, b])
        if product in MATRICES:
            tiles = self.in_matrices(product)
            assert tiles is not None
            longest = max((extent or 0 for extent in self.reduction_extents), default=0)
            return replace(self, product=tiles, filled=_filled(longest, scheme_of(tiles).depth(tiles)))
        return replace(self, product=FMA) if product == SINGLE else self


class Contractions:
    """Contractions on one element type that has vectors, over loops with fixed strides."""

    name = "contraction"

    def matches(self, piece: Nest) -> Sequence[ContractionUse]:
        """One for each pair of loops that can be columns and rows."""
        found = piece.contraction
        uses: list[ContractionUse] = []
        for columns in found.columns() if found is not None else ():
            assert found is not None
            operands = found.roles(columns)
            assert operands is not None
            uses += (
                ContractionUse(
                    found.element,
                    rows,
                    columns,
                    found.reductions,
                    *operands,
                    found.output,
                    1 if rows is None else piece.counts[rows].extent,
                    piece.counts[columns].extent,
                    tuple(piece.counts[r].extent for r in found.reductions),
                    inner_product(found) or FMA,
                    direct=bool(found.within),
                    window=_window(found, piece, rows, columns, {r: piece.counts[r].extent for r in found.reductions}),
                )
                for rows in found.rows(columns) or (None,)
            )
        return uses

    def shapes(self, use: ContractionUse, isa: Isa) -> Sequence[Block]:
        """For each number of vectors the block that loses least to remainders and ports, by `price`."""
        best: dict[int, tuple[tuple[float, float], int]] = {}
        scheme = scheme_of(use.product)
        whole = use.direct and tile_of(use.product) is not None
        for block in scheme.blocks(_core(use, isa), use.element):
            m, n = scheme.cut(block, use.row_extent, use.column_extent)
            if whole and (use.row_extent is None or use.row_extent % m):
                continue  # A is read as it is, and has no rows beyond its last
            offer = price(use, Block(m, n), isa), m
            best[n] = min(best.get(n, offer), offer)
        return [Block(m, n) for _, n, m in sorted((cost, n, m) for n, (cost, m) in best.items())]

    def layouts(self, use: ContractionUse, shape: Block) -> Mapping[str, Layout]:
        """B has to have neighbours along the columns, and both operands elements of the sum's type. Where they have
        not, a panel holds the columns, or rows, of a block side by side for each step of the reductions; which of
        these are in groups of neighbours depends on the loops inside (`schedule.grouping`), and whether A has them side
        by side as it is."""
        if use.left.strides[use.columns] != 0:  # a window
            return {}
        mixed = not use.direct and not use.left.element is use.right.element is use.element
        needed = ["A", "B"] if mixed else [] if use.right.strides[use.columns] == 1 else ["B"]
        needed = [role for role in needed if not (role == "A" and use.in_place)]
        widths = {"A": shape.m, "B": shape.n}
        return {role: row_major([*use.reduction_extents, widths[role]]) for role in needed}

    def cycles(self, use: ContractionUse, shape: Block, isa: Isa) -> Cycles:
        """A step is one of the reductions over all rows and columns, an extent that is not known being a block's: a
        part of one where groups of iterations are multiplied at once. C is loaded and stored once per
        block. The pipeline of FMAs fills and drains once per call. Vectors of B that are put together as they are read
        are so once for all rows of a block that stays in registers."""
        rows, columns = _extents(use, shape)
        core = _core(use, isa)
        scheme = scheme_of(use.product)
        block = (shape.m, shape.n)
        step = use.filled * scheme.cycles(core, use.element, block, rows, columns)
        if use.narrow:
            times = math.ceil(rows / scheme.rows_held(core, use.element, block))
            vectors = times * -(-columns // isa.lanes(use.element))
            step += vectors * instructions_of_b(use.product) / isa.fmas
        return Cycles(step / use.product.group, scheme.stores(core, use.element, block), float(2 * core.latency))

    def emit(self, use: ContractionUse, shape: Block) -> Microkernel:
        return generate(_specified(use, shape))

    def meaning(self, use: ContractionUse, shape: Block) -> str:
        """The proof reads the sums from the line above the function (`microkernel.generate`), what happens to them from
        its text. Raises ValueError where something is fused into it, whose vector statements have no plain form here.
        """
        return loops(_specified(use, shape))


def inside(use: ContractionUse, structure: NestLoops) -> ContractionUse:
    """The same contraction with those of its loops that run in a structure's microkernel."""
    kernel, counts = structure.kernel, structure.nest.counts
    assert kernel is not None
    rows, groups = None if kernel.rows is None else kernel.rows.iterator, grouping(structure)
    extents = {loop.iterator: loop.within or counts[loop.iterator].extent for loop in kernel.reductions}
    return replace(
        use,
        rows=rows,
        row_extent=1 if rows is None else counts[rows].extent,
        reductions=tuple(extents),
        reduction_extents=tuple(extents.values()),
        product=groups.product,
        filled=1.0
        if groups.words == 1 or groups.loop is None
        else _filled(extents[groups.loop.iterator], groups.of(groups.loop)),
        in_place=groups.in_place,
        window=_window(structure.nest.contraction, structure.nest, rows, use.columns, extents),
    )


def _filled(extent: int | None, depth: int) -> float:
    """Iterations in whole steps over those of a loop; 1 where it is not known."""
    return -(-extent // depth) * depth / extent if extent else 1.0


def _window(
    found: Contraction | None, nest: Nest, rows: str | None, columns: str, reductions: Mapping[str, int | None]
) -> int:
    """`ContractionUse.window` of a block with these rows, columns, and extents of reductions inside."""
    if found is None or rows is None or not found.windows(columns):
        return 0
    operands = found.roles(columns)
    assert operands is not None
    strides = {i: stride_of(nest, operands[0], i) for i in (rows, *reductions)}
    loops = tuple(Reduction(extent, given(strides[i]), 0) for i, extent in reductions.items())
    shared = shared_taps(given(strides[rows]), loops)
    return 1 if shared is None else shared.taps


def _core(use: ContractionUse, isa: Isa) -> Isa:
    """What runs the steps of a block."""
    return isa.multiplying(use.product).windowed(use.window, given(use.left.strides[use.columns]) or 1)


def _specified(use: ContractionUse, shape: Block) -> MicrokernelSpec:
    assert use.spec is not None, "operands without a place have no function"
    return replace(use.spec, m=shape.m, n=shape.n)


def _extents(use: ContractionUse, shape: Block) -> tuple[int, int]:
    rows = shape.m if use.row_extent is None else use.row_extent
    return rows, shape.n if use.column_extent is None else use.column_extent


def price(use: ContractionUse, shape: Block, isa: Isa) -> tuple[float, float]:
    """By which blocks are ordered, the least first: the modelled fraction of the FMA peak (to the percent, negative),
    then the bytes that a block loads per FMA, 1/m + 1/n."""
    rows, columns = _extents(use, shape)
    block = (shape.m, shape.n)
    lost = -round(block_efficiency(_core(use, isa), use.product, use.element, block, rows, columns), 2)
    return lost, 1 / shape.m + 1 / shape.n


@cache
def block_efficiency(
    isa: Isa, product: Product, element: ElementType, block: tuple[int, int], rows: int, columns: int
) -> float:
    """Modelled fraction of the peak of a product when a rows x columns output is cut into register blocks; `isa` is
    that of the product.

    Remainder blocks count with their own, lower efficiency; lanes that a mask leaves idle count as lost.
    """
    spent = scheme_of(product).cycles(isa, element, block, rows, columns)
    return rows * columns / (isa.lanes(element) * isa.fmas) / spent
