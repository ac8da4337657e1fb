"""Schemes of multiplying: which blocks a product keeps in registers, how copies of its operands lie, what a step takes.

A product names its scheme (`products.Product.scheme`). The outer product is that of BLIS and LIBXSMM: vectors of B and
broadcast elements of A. Estimates, copies and the microkernel ask the scheme and know none by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

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

    def depth(self, product: Product) -> int:
        return product.group

    def run(self, product: Product, role: str) -> int:
        return product.group


SCHEMES: Mapping[str, Scheme] = {"outer": OuterProduct()}
"""By the names that products have for them."""


def scheme_of(product: Product) -> Scheme:
    """The scheme that a product names."""
    return SCHEMES[product.scheme]
