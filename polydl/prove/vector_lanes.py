"""Vectors of the generated code as their lanes: elements of memory, and sums of products of two of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from polydl.prove.integers import Affine, Unreadable
from polydl.prove.printed_program import Pointer
from polydl.prove.symbolic_values import LANE_BY_LANE, MATH, Literal, Load, Operation, Symbol

Counters = tuple[tuple[str, Affine], ...]
"""Loops around something that happens, outermost first: the counter, which starts from zero, and how often it runs."""


@dataclass(frozen=True, slots=True)
class Product:
    """The product of two elements of memory, added up over some loops."""

    left: Pointer
    right: Pointer
    over: Counters = ()


Lane = Load | tuple[Product, ...] | Operation | Literal
"""What a lane holds: an element of memory, a sum of products, of which zero has none, or the value of an operation."""
Vector = tuple[Lane, ...]


VECTOR = re.compile(
    r"polydl\d*_(f32|f64|[iu]\d+s)_(first|zero|all|load|load_part|store|store_part|stream|fma|pair|fold|unpack_low|unpack_high|transpose|"
    rf"{'|'.join(LANE_BY_LANE)})"
)
NARROW = re.compile(r"polydl\d*_(f32)_(load|store|convert)_([a-z]+\d+)(?:_(part|[a-z]+\d+))?")
"""Loads and stores of narrow elements in lanes of floats, as what they are, and conversions of lanes."""
PURE = frozenset(f"{name}{suffix}" for name in MATH.values() for suffix in ("", "f"))
"""Functions of <math.h> that are followed as operations."""
WORD = re.compile(r"polydl\d*_(word_[24]|widened|near_[24])")
"""Functions that make a word of elements, of neighbours from an address on too, and a float of the bits of a bf16:
followed as operations."""
ALIGNED = re.compile(r"polydl\d*_is_aligned")
"""What asks where memory lies: a body is followed for both answers."""
NEAR = "near_"
"""Before the number of neighbours."""
GROUP_BYTES = 16
"""x86's shuffles work within pieces of so many bytes."""


def fma(x: Lane, y: Lane, z: Lane) -> Lane:
    """x * y + z. Raises Unreadable."""
    if not isinstance(z, tuple):
        raise Unreadable("a product added to an element of memory")
    if x == () or y == ():
        return z
    if not (isinstance(x, Load) and isinstance(y, Load)):
        raise Unreadable("a product of sums")
    return (*z, Product(x.at, y.at))


def shuffled(name: str, x: Vector, y: Vector, group: int) -> Vector:
    """`unpack_low`: x0 y0 x1 y1 … of the lower half of each group; `unpack_high`: of the upper half; `fold`: the sums
    of neighbours, in each group those of x before those of y."""
    lanes: list[Lane] = []
    half = group // 2
    for start in range(0, len(x), group):
        if name == "fold":
            for v in (x, y):
                lanes += [_sum(v[start + 2 * k], v[start + 2 * k + 1]) for k in range(half)]
        else:
            first = start + (half if name == "unpack_high" else 0)
            lanes += [lane for k in range(first, first + half) for lane in (x[k], y[k])]
    return tuple(lanes)


def _sum(x: Lane, y: Lane) -> Lane:
    if not isinstance(x, tuple) or not isinstance(y, tuple):
        raise Unreadable("a sum of elements of memory")
    return x + y


def value_of(lane: Lane) -> Symbol:
    """A lane as an operand. Raises Unreadable for a sum of products."""
    if not isinstance(lane, tuple):
        return lane
    if lane:
        raise Unreadable("an operation on a sum of products")
    return Literal("0", vector=True)


def grown(before: Any, after: Any, counter: str, times: Affine) -> Any:
    """Sums after all iterations, of which one adds what `after` has more than `before`. Raises Unreadable."""
    if not isinstance(before, tuple) or not isinstance(after, tuple):
        raise Unreadable("a variable that a loop changes in another way than adding to it")
    lanes: list[Lane] = []
    for old, new in zip(before, after, strict=True):
        if not isinstance(old, tuple) or not isinstance(new, tuple) or new[: len(old)] != old:
            raise Unreadable("a variable that a loop changes in another way than adding to it")
        more = (Product(p.left, p.right, ((counter, times), *p.over)) for p in new[len(old) :])
        lanes.append((*old, *more))
    return tuple(lanes)
