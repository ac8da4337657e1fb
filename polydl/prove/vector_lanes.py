"""Vectors of the generated code as their lanes: elements of memory, and sums of products of two of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from polydl.base.records import dataclass
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


@dataclass(frozen=True, slots=True)
class Stepped:
    """What the steps of a microkernel have made, each of the operands of one product, in order."""

    start: Load | tuple[()] | Operation | Literal
    products: tuple[Product, ...]


Lane = Load | tuple[Product, ...] | Operation | Literal | Stepped
"""What a lane holds: an element of memory, a sum of products, of which zero has none, the value of an operation, or
what steps have made."""
Vector = tuple[Lane, ...]


VECTOR = re.compile(
    r"polydl\d*_(f32(?:x\d)?|f64(?:x\d)?|[iu]\d+s)_(first|zero|all|load|load_part|load_alternate|load_alternate_part|"
    rf"store|store_part|stream|send|send_rest|fma|pair|fold|unpack_low|unpack_high|transpose|pieces|{'|'.join(LANE_BY_LANE)})"
)
NARROW = re.compile(r"polydl\d*_(f32)_(load|store|convert)_([a-z]+\d+)(?:_(part|[a-z]+\d+))?")
"""Loads and stores of narrow elements in lanes of floats, as what they are, and conversions of lanes."""
PURE = frozenset(f"{name}{suffix}" for name in MATH.values() for suffix in ("", "f"))
"""Functions of <math.h> that are followed as operations."""
WORD = re.compile(r"polydl\d*_(word_[24]|widened|near_[24])")
"""Functions that make a word of elements, of neighbours from an address on too, and a float of the bits of a bf16:
followed as operations."""
ALIGNED = re.compile(r"polydl\d*_(is_aligned|to_vector)")
"""What asks where memory lies: a body is followed for all answers."""
NEAR = "near_"
"""Before the number of neighbours."""
_MOST_STEPS = 4096
"""Steps of one lane that are followed one by one."""
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


def stepped(x: Lane, y: Lane, z: Lane) -> Lane:
    """One step more. Raises Unreadable."""
    if x == () or y == ():
        return z  # beyond a remainder's lanes
    if not isinstance(x, Load) or not isinstance(y, Load):
        raise Unreadable("a step on something else than elements of memory")
    one = Product(x.at, y.at)
    if isinstance(z, Stepped):
        return Stepped(z.start, (*z.products, one))
    if isinstance(z, tuple):
        raise Unreadable("a step that starts from a sum")
    return Stepped(z, (one,))


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
    if not isinstance(lane, tuple | Stepped):
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
        if isinstance(new, Stepped):
            known = old.products if isinstance(old, Stepped) else ()
            start = old.start if isinstance(old, Stepped) else old
            if new.start != start or new.products[: len(known)] != known:
                raise Unreadable("a variable that a loop changes in another way than by steps")
            lanes.append(Stepped(new.start, (*known, *_each(new.products[len(known) :], counter, times))))
            continue
        if old == new:
            lanes.append(old)
            continue
        if not isinstance(old, tuple) or not isinstance(new, tuple) or new[: len(old)] != old:
            raise Unreadable("a variable that a loop changes in another way than adding to it")
        lanes.append((*old, *(_over(p, counter, times) for p in new[len(old) :])))
    return tuple(lanes)


def _over(term: Product, counter: str, times: Affine) -> Product:
    return Product(term.left, term.right, ((counter, times), *term.over))


def _each(terms: tuple[Product, ...], counter: str, times: Affine) -> Iterator[Product]:
    """The steps of all iterations, of which one has made `terms`, in their order. Raises Unreadable."""
    if len(terms) == 1:
        yield _over(terms[0], counter, times)
        return
    if times.terms or times.constant * len(terms) > _MOST_STEPS:
        raise Unreadable("too many steps to follow one by one")
    for turn in range(times.constant):
        for one in terms:
            yield Product(_at(one.left, counter, turn), _at(one.right, counter, turn), one.over)


def _at(pointer: Pointer, counter: str, turn: int) -> Pointer:
    """An address in one iteration of a loop."""
    factor = dict(pointer.offset.terms).get(counter, 0)
    moved = pointer.offset.plus(Affine(((counter, 1),)), -factor)
    return Pointer(pointer.base, moved.plus(Affine((), factor * turn)))
