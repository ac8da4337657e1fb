"""Schemes of multiplying: which blocks a product keeps in registers, how copies of its operands lie, what a step takes.

A product names its scheme (`products.Product.scheme`). The outer product is that of BLIS and LIBXSMM: vectors of B and
broadcast elements of A. A tile is a matrix of sums in one register, as of AMX. Estimates and copies ask the scheme.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from polydl.base.records import dataclass
from polydl.model.types import ElementType
from polydl.target import register_blocks
from polydl.target.isa import Isa
from polydl.target.products import Product


class Scheme(Protocol):
    """How products of one kind are made."""

    def blocks(self, isa: Isa, element: ElementType) -> Sequence[tuple[int, int]]:
        """(rows, columns) of blocks of sums of type `element` that stay in registers, most efficient first."""

    def cut(self, block: tuple[int, int], rows: int | None, columns: int | None) -> tuple[int, int]:
        """A block for an output of so many rows and columns; None: not known."""

    def cycles(self, isa: Isa, element: ElementType, block: tuple[int, int], rows: int, columns: int) -> float:
        """Cycles of one step of the reductions, a word of each operand, over rows x columns sums in blocks; `isa` is
        that of the product (`Isa.multiplying`)."""

    def rows_held(self, isa: Isa, element: ElementType, block: tuple[int, int]) -> int:
        """Rows of a block whose sums stay in registers together: a vector of B is loaded once for all of them."""

    def stores(self, isa: Isa, element: ElementType, block: tuple[int, int]) -> float:
        """Cycles in which a block of sums is added to the output."""

    def depth(self, product: Product) -> int:
        """Iterations of a reduction that one step of the kernel's loop takes; copies have zeros up to a multiple."""

    def run(self, product: Product, role: str) -> int:
        """Neighbours along that reduction that lie side by side in the copy of A, or of B."""


@dataclass(frozen=True, slots=True)
class OuterProduct:
    """Vectors of B times elements of A, or words of groups of them, broadcast: a column of accumulators for each."""

    def blocks(self, isa: Isa, element: ElementType) -> Sequence[tuple[int, int]]:
        return register_blocks.register_blocks(element, isa, 0.0)

    def cut(self, block: tuple[int, int], rows: int | None, columns: int | None) -> tuple[int, int]:
        """No larger than the output: remainders have code of their own."""
        m, n = block
        return m if rows is None else min(m, max(rows, 1)), n if columns is None else min(n, max(columns, 1))

    def cycles(self, isa: Isa, element: ElementType, block: tuple[int, int], rows: int, columns: int) -> float:
        return register_blocks.block_cycles(isa, element, *block, rows, columns)

    def rows_held(self, isa: Isa, element: ElementType, block: tuple[int, int]) -> int:
        return register_blocks.split_block(isa, element, *block).rows

    def stores(self, isa: Isa, element: ElementType, block: tuple[int, int]) -> float:
        """One vector per cycle, the loads beside them."""
        return float(block[0] * -(-block[1] // isa.lanes(element)))

    def depth(self, product: Product) -> int:
        return product.group

    def run(self, product: Product, role: str) -> int:
        return product.group


@dataclass(frozen=True, slots=True)
class Tile:
    """Registers that are matrices: of sums, rows x columns; of A, rows x steps words; of B, steps x columns words.

    The copy of A has the words of a row side by side, that of B those of a step. A block is a few tiles of sums, beside
    which a column of tiles of A stays, and tiles of B come and go.
    """

    rows: int
    columns: int
    steps: int
    registers: int
    macros: str
    """Begins the names of the C macros that load, multiply and store tiles, in a template of that name."""
    sums: int = 1
    """Registers of a tile of sums."""
    of_b: int = 1
    """Registers of a tile of B; one of A takes one."""
    loads_a: int = 16
    """Loads of a tile of A from its copy; those of B are as many as steps."""
    shuffles: int = 0
    """Instructions that a tile of B is put together with, on the ports that multiply."""
    begins: bool = False
    """Whether threads begin and end to use them, which the system may refuse."""

    def held(self, m: int, n: int) -> tuple[int, int]:
        """(tiles along the rows, along the columns) of the sums that stay in registers, of an m x n block."""
        high, wide = -(-m // self.rows), -(-n // self.columns)
        fitting = [(r, c) for r in range(1, high + 1) for c in range(1, wide + 1) if high % r == 0 and wide % c == 0]
        # The fewest loads per product, then the most products.
        return min(
            (one for one in fitting if self._fits(*one)),
            key=lambda one: ((one[0] + one[1]) / (one[0] * one[1]), -one[0] * one[1]),
        )

    def spare(self, high: int, wide: int) -> int:
        """Tiles of B that there are registers for beside those of sums and a column of A."""
        return (self.registers - high * wide * self.sums - high) // self.of_b

    def _fits(self, high: int, wide: int) -> bool:
        return self.spare(high, wide) >= 1

    def blocks(self, isa: Isa, element: ElementType) -> Sequence[tuple[int, int]]:
        shapes = [(r, c) for r in range(1, self.registers) for c in range(1, self.registers) if self._fits(r, c)]
        shapes.sort(key=lambda one: (self._cycles(isa, *one) / (one[0] * one[1]), abs(one[0] - one[1])))
        return [(r * self.rows, c * self.columns) for r, c in shapes]

    def cut(self, block: tuple[int, int], rows: int | None, columns: int | None) -> tuple[int, int]:
        """Whole tiles, of which none is all beyond the output."""
        most = (
            block[0] if rows is None else -(-max(rows, 1) // self.rows) * self.rows,
            block[1] if columns is None else -(-max(columns, 1) // self.columns) * self.columns,
        )
        return min(block[0], most[0]), min(block[1], most[1])

    def cycles(self, isa: Isa, element: ElementType, block: tuple[int, int], rows: int, columns: int) -> float:
        """Tiles that the output ends in count as whole ones, and blocks as whole blocks."""
        r, c = self.held(*block)
        calls = math.ceil(rows / block[0]) * math.ceil(columns / block[1])
        held = (block[0] // (r * self.rows)) * (block[1] // (c * self.columns))
        return calls * held * self._cycles(isa, r, c) / self.steps

    def _cycles(self, isa: Isa, high: int, wide: int) -> float:
        """Of one product of each tile of sums: the slowest of the multiplier, the loads of rows of tiles, and the
        latency on which each tile of sums waits for itself."""
        tile = self.rows * self.columns * self.steps / (isa.fmas * self.columns)
        shuffles = wide * self.shuffles * tile / self.sums
        return max(high * wide * tile + shuffles, (high * self.loads_a + wide * self.steps) / isa.loads, isa.latency)

    def depth(self, product: Product) -> int:
        return self.steps * product.group

    def run(self, product: Product, role: str) -> int:
        return self.depth(product) if role == "A" else product.group

    def rows_held(self, isa: Isa, element: ElementType, block: tuple[int, int]) -> int:
        return self.held(*block)[0] * self.rows

    def stores(self, isa: Isa, element: ElementType, block: tuple[int, int]) -> float:
        """Sums go through memory to where vectors take them."""
        return 3.0 * block[0] * -(-block[1] // isa.lanes(element))


TILE = Tile(16, 16, 16, registers=8, macros="tile", begins=True)
"""Intel, Intrinsics Guide, "AMX"."""
MMLA = Tile(2, 4, 2, registers=31, macros="mmla", sums=2, of_b=4, loads_a=1, shuffles=2)
"""Arm's SMMLA, USMMLA and BFMMLA: blocks of 2 x 2 sums in vectors of 16 bytes, two of them side by side. Two rows of
words of B are interleaved to what two of the instructions read, so that vector code reads the same copy. Where the
last of the registers is needed, too, gcc 12 spills."""
SCHEMES: Mapping[str, Scheme] = {"outer": OuterProduct(), "tile": TILE, "mmla": MMLA}
"""By the names that products have for them."""


def scheme_of(product: Product) -> Scheme:
    """The scheme that a product names."""
    return SCHEMES[product.scheme]


def tile_of(product: Product) -> Tile | None:
    """The scheme of a product of matrices; None for vectors."""
    scheme = scheme_of(product)
    return scheme if isinstance(scheme, Tile) else None
