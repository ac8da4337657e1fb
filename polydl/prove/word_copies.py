"""Copies that convert elements, or put groups of neighbours into words, and the sums that kernels start from.

A word of G elements is taken for G places of the buffer, the first in its lowest bits: what a word's address is to C is
G times as far from the beginning here. Where an extent ends inside of a word, the copy has zeros; products of two zeros
are none of the original, and are left out. A copy whose highest bits are inverted holds numbers that are off by 128.
The kernel then starts from the sum of the other factors times -128 (or 128), which their copy has behind its steps:
such a kernel must read whole columns of that copy, and the sums of the same columns.
"""

from __future__ import annotations

from functools import reduce

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.types import TYPES, ElementType
from polydl.prove.addresses import address
from polydl.prove.dependence_order import Order
from polydl.prove.integers import Affine, Unreadable, Wrong, loop
from polydl.prove.printed_program import WRITES, Pointer, Printed, value_map
from polydl.prove.symbolic_values import loads
from polydl.target.products import IN_WORDS, Product, is_bf16


@dataclass(frozen=True, slots=True)
class Words:
    """What a copy makes of elements."""

    source: str
    """Type of the elements, as in the table of types."""
    copied: str
    """Type that they are converted to."""
    group: int
    """Elements in a word; 1: none are put together."""
    grouped: int
    """The loop that they are neighbours along."""
    flips: bool
    """Whether the highest bit of each is inverted."""
    sums: int
    """Where it is not 0, each panel ends with the sums of its columns times this."""
    side: int = 1
    """Words of an element of the width that are side by side."""
    filled: int = 0
    """Zeros fill the loop of the groups up to a multiple of so many iterations; 0: of a group."""

    @property
    def run(self) -> int:
        """Elements that are side by side."""
        return self.group * self.side

    @property
    def widens(self) -> bool:
        """Whether bits of bf16 become floats."""
        return is_bf16(_type(self.source)) and not is_bf16(_type(self.copied))

    def check(self, element: ElementType) -> None:
        """Raises Wrong where the array has other elements, Unreadable where a conversion may lose something."""
        source, copied = _type(self.source), _type(self.copied)
        if element is not source and not (is_bf16(element) and is_bf16(source)):
            raise Wrong(f"a copy of elements of type {source} from an array of {element}")
        other_sign = source.is_int and copied.is_int and source.bytes == copied.bytes == 1
        if not (copied.holds(source) or (is_bf16(copied) and is_bf16(source)) or (self.flips and other_sign)):
            raise Unreadable(f"a copy that converts {source} to {copied}")
        if self.flips and not other_sign:
            raise Unreadable(f"a copy that inverts bits of {source}")

    def extent(self, number: int, extent: Affine) -> Affine:
        """Words along a loop with so many iterations, those side by side counted as one."""
        if number != self.grouped or self.group == 1:
            return extent
        filled = max(self.filled, self.run)
        more, runs = extent.plus(Affine((), filled - 1)), filled // self.run
        if not more.terms:
            return Affine((), more.constant // filled * runs)
        return Affine(((f"floor(({more})/{filled})", runs),))


def _type(name: str) -> ElementType:
    return next(t for t in TYPES if t.name == name)


def product_named(name: str) -> Product:
    """The inner product of that name. Raises Unreadable."""
    if name not in IN_WORDS:
        raise Unreadable(f"the inner product {name}")
    return IN_WORDS[name]


def check_operands(product: Product, a: Words | None, b: Words | None) -> None:
    """The copies that a kernel reads are such as its inner product takes. Raises Wrong."""
    for role, words, own in (("A", a, product.a), ("B", b, product.b)):
        if words is None or words.group != product.group or own is None or _type(words.copied) is not own:
            raise Wrong(f"{product.name} does not read such a copy as {role}")
    assert a is not None and b is not None
    if a.flips != bool(product.correction) or b.flips or a.sums or b.sums != product.correction:
        raise Wrong(f"{product.name} is not made for what is added to the elements of these copies")


def leave_out_padding(order: Order) -> None:
    """Take the products of two zeros that were copied as padding out of the kernels' products."""
    for printed in order.program.statements:
        at = [one for one in loads(printed.value) if one.base in order.program.words]
        if printed.kind != "product" or not at:
            continue
        zero = [_last(order, printed, one, ("zeros",)).domain() for one in at]
        if len(zero) == 2:
            printed.domain = printed.domain.subtract(reduce(isl.Set.intersect, zero)).coalesce()


def _last(order: Order, printed: Printed, at: Pointer, kinds: tuple[str, ...]) -> isl.Map:
    """{ T[i…] -> [time] } of the last write before, where it is of such a kind."""
    writes = [s for s in order.program.statements if s.kind in WRITES and s.target and s.target.base == at.base]
    when = order.time(printed)
    last, own = isl.Map.empty(when.get_space()), isl.Map.empty(when.get_space())
    for one in writes:
        assert one.target is not None
        same = address(order.scop, printed, at).apply_range(address(order.scop, one, one.target).reverse())
        earlier = same.intersect(order.time(one).lex_lt_map(when).reverse()).apply_range(order.time(one))
        last = last.union(earlier)
        if one.kind in kinds:
            own = own.union(earlier)
    return last.lexmax().intersect(own)


def check_corrections(order: Order) -> None:
    """Each kernel that starts from sums reads whole columns, and the sums of these. Raises Wrong, Unreadable."""
    statements = order.program.statements
    for start in statements:
        if start.kind != "start":
            continue
        product = statements[start.number - 1]
        (at,) = loads(start.value)
        copies = [s for s in statements if s.kind == "copy" and s.target is not None and s.target.base == at.base]
        sums = [s for s in statements if s.kind == "sums" and s.target is not None and s.target.base == at.base]
        if len(copies) != 1 or len(sums) != 1:
            raise Unreadable(f"line {start.line}: sums of columns that are copied in several places")
        (copy,), (total,), end = copies, sums, copies[0].call + 1
        (factor,) = (one for one in loads(product.value) if one.base == at.base)
        back = value_map(product, tuple(loop(d) for d in range(start.depth)), start.name).reverse()
        read = back.apply_range(_last(order, product, factor, ("copy",)))
        begun = _last(order, start, at, ("sums",))
        if not start.domain.is_subset(begun.domain()):
            raise Wrong(f"line {start.line}: a kernel starts from what is no sum of a column")
        column = begun.apply_range(order.time(total).reverse()).apply_range(order.time(total, end))
        whole = column.apply_range(order.time(copy, end).reverse()).apply_range(order.time(copy))
        if not read.is_equal(whole):
            raise Wrong(f"line {start.line}: a kernel starts from the sum of another column than it reads")
