"""Which inner product a structure's microkernel computes, and along which reduction it takes groups of neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from polydl.schedule.structure import Loop, Structure, trips
from polydl.target.products import BYTES, DOT_8, FMA, SINGLE, Product, inner_product, of_bytes


@dataclass(frozen=True, slots=True)
class Grouping:
    """How the reductions of a microkernel are multiplied."""

    product: Product
    loop: Loop | None = None
    """Its reduction whose neighbours are side by side in words; None: none, products are of single elements."""

    def of(self, loop: Loop) -> int:
        """Iterations of a reduction that one step of the microkernel takes."""
        return self.product.group if loop is self.loop else 1


def grouping(structure: Structure) -> Grouping:
    """By the types of the contraction, what the microkernel was told, and the reductions inside of it.

    A group needs a reduction that moves both operands and has two iterations at least: the longest of them, the
    innermost of the longest. Without one, elements are multiplied one by one.
    """
    kernel, found = structure.kernel, structure.nest.contraction
    assert kernel is not None and found is not None
    product = inner_product(found)
    assert product is not None, "kernels are made for contractions that have one"
    if not product.in_words or kernel.product == SINGLE:
        return Grouping(FMA)
    longest, best = 1, None
    for loop in kernel.reductions:
        count = trips(structure.nest, loop)
        moves = found.left.strides[loop.iterator] != 0 and found.right.strides[loop.iterator] != 0
        # Of an extent that is not known any may come.
        if moves and (count is None or count >= longest) and count != 1:
            longest, best = count or longest, loop
    if best is None:
        return Grouping(FMA)
    if kernel.product == BYTES and _in_bytes(structure):
        a, b = (of_bytes(structure.operand(role).element) for role in ("A", "B"))
        assert a is not None and b is not None, "of other types than it was told"
        return Grouping(DOT_8[a, b], best)
    return Grouping(product, best)


def _in_bytes(structure: Structure) -> bool:
    """Whether groups of four fit the reductions: pieces of tiles hold a whole group, and the sums of B's columns are
    taken over just what a call multiplies."""
    kernel = structure.kernel
    assert kernel is not None
    if any(loop.within is not None and loop.within < 4 for loop in kernel.reductions):
        return False
    return all(structure.operand("B").strides[loop.iterator] != 0 for loop in kernel.reductions)
