"""Operands of narrower types than the sum's, which a microkernel reads where they are: where data choose what it reads
(sums over segments), nothing can be copied before.

Products of groups take A's neighbours along a reduction as words, as they lie in memory; a word of B is put together of
elements of as many rows when it is loaded, once for all rows of a block. Without groups, elements become those of the
sum as they are loaded.
"""

from __future__ import annotations

from polydl.base.records import dataclass
from polydl.model.types import ElementType
from polydl.target.products import Product, is_bf16


@dataclass(frozen=True, slots=True)
class DirectReads:
    """How A and B lie in memory."""

    a: ElementType
    b: ElementType
    b_row: int | None = 0
    """Elements between rows of B that are side by side in a word; None: argument of the function."""

    def between(self, rows: int) -> int | None:
        """Elements of B from one row to another one so many further on; None: argument of the function."""
        return None if self.b_row is None else self.b_row * rows


def read_b(direct: DirectReads, product: Product, sums: ElementType) -> str:
    """The name of the function that loads a vector of B."""
    kind = f"words{product.group}" if product.in_words else f"as_{sums.name}"
    return f"polydl_{kind}_{direct.b.c.replace(' ', '_')}"


def instructions_of_b(product: Product) -> int:
    """That make a vector of what is loaded of B: conversions of the elements of a word, shifts, and what joins them."""
    return 3 * product.group - 2


def element_of_a(direct: DirectReads, text: str) -> str:
    """C of an element of A in the type of the sum."""
    return f"{direct.a.through[1]}({text})" if direct.a.through else text


def direct_values(direct: DirectReads, product: Product, sums: ElementType) -> dict[str, object]:
    """What `templates/direct_reads.c.j2` is given."""
    return {
        "name": read_b(direct, product, sums),
        "c": direct.b.c,
        "bits": direct.b.bits,
        "upper": is_bf16(direct.b),
        "unsigned": direct.b.unsigned,
        "group": product.group,
        "result": f"polydl_{product.word(sums).name}",
        "sums": f"polydl_{sums.name}",
    }
