"""Data that make errors show: for arrays and scalars of each type, by a name and a seed.

Random data hide what a few values show: a product that wraps, a sum that cancels, a tie, a row without entries. The
values are those on which compilers and tools like this one were found wrong before (Csmith and YARPGen's constants:
zero, one, the least and greatest, powers of two; NaN, infinities and zeros of both signs for floats).

Nothing is known here of the program. Which array of integers holds subscripts, and how large they may be, nobody says:
`ladder` goes from values of the full range, over those that are subscripts of something, to zeros, and the caller takes
the first for which the program has a meaning.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.model.types import F32, F64, ElementType, Kind
from polydl.oracle.scop_numbers import Number, encoded, rounded, wrapped


@dataclass(frozen=True, slots=True)
class Filling:
    """How arrays are filled: floating-point ones by `floats`, integers by `integers`."""

    floats: str
    """A key of `FLOATS`."""
    integers: str
    """A key of `INTEGERS`."""
    seed: int = 0
    bound: int = 8
    """For integers that may be subscripts: they are below."""

    @property
    def name(self) -> str:
        """`distinct/permuted<8 #0`."""
        below = f"<{self.bound}" if self.integers in BOUNDED else ""
        return f"{self.floats}/{self.integers}{below} #{self.seed}"

    def numbers(self, element: ElementType, count: int, salt: str = "") -> list[Number]:
        """Values of a type; `salt`: another array of the same type gets others, or others in another order."""
        source = random.Random(f"{self.seed} {salt} {element.name}")  # a string: the same in every process
        if element.is_int:
            made = INTEGERS[self.integers](count, element, self.bound, source)
            return [wrapped(value, element) for value in made]
        if element.kind is Kind.COMPLEX:
            part = F32 if element.bytes == 8 else F64
            both = [rounded(value, part) for value in FLOATS[self.floats](2 * count, part, source)]
            return list(zip(both[::2], both[1::2], strict=True))
        return [rounded(value, element) for value in FLOATS[self.floats](count, element, source)]

    def values(self, element: ElementType, count: int, salt: str = "") -> bytes:
        """The bytes of an array of a type."""
        return b"".join(encoded(value, element) for value in self.numbers(element, count, salt))


Floats = Callable[[int, ElementType, random.Random], Sequence[float]]
Integers = Callable[[int, ElementType, int, random.Random], Sequence[int]]


def _distinct(count: int, element: ElementType, source: random.Random) -> Sequence[float]:
    """Numbers with all bits of their significands, of both signs, no two of them equal, about 1 in size: which one was
    read shows in every sum of them."""
    return [(source.random() + 0.5) * source.choice((-1, 1)) for _ in range(count)]


def _whole(count: int, element: ElementType, source: random.Random) -> Sequence[float]:
    """Small whole numbers, distinct: i * i + 7, so that arithmetic is exact."""
    return [float(i * i % 1009 + 7) for i in range(count)]


def _equal(count: int, element: ElementType, source: random.Random) -> Sequence[float]:
    """Ties."""
    return [2.5] * count


def _permuted(count: int, element: ElementType, source: random.Random) -> Sequence[float]:
    """1 to count in another order, with signs that alternate."""
    numbers = list(range(1, count + 1))
    source.shuffle(numbers)
    return [float(x) if i % 2 else -float(x) for i, x in enumerate(numbers)]


def _zeros(count: int, element: ElementType, source: random.Random) -> Sequence[float]:
    return [0.0] * count


def _signed_zeros(count: int, element: ElementType, source: random.Random) -> Sequence[float]:
    """Zeros of both signs, and an odd one."""
    return [source.choice((0.0, -0.0, 0.0, -0.0, 1.0)) for _ in range(count)]


def _sparse(count: int, element: ElementType, source: random.Random) -> Sequence[float]:
    """Weights of which most are zero, the first ones and whole stretches too."""
    return [0.0 if (i // 3) % 2 == 0 or source.random() < 0.4 else source.random() + 0.25 for i in range(count)]


def _special(count: int, element: ElementType, source: random.Random) -> Sequence[float]:
    """Everything that floating-point arithmetic treats apart."""
    return [source.choice(_specials(element)) for _ in range(count)]


def _specials(element: ElementType) -> list[float]:
    most = math.ldexp(2.0 - 2.0 ** (1 - min(element.significand, 53)), min(element.exponent, 1023))
    tiny = math.ldexp(1.0, max(2 - element.exponent - element.significand, -1074))
    exact = 2.0 ** min(element.significand, 53)
    return [
        0.0,
        -0.0,
        1.0,
        -1.0,
        tiny,
        -tiny,
        most,
        -most,
        math.inf,
        -math.inf,
        math.nan,
        exact + 2.0,
        exact - 1.0,
        0.5,
    ]


def _cancelling(count: int, element: ElementType, source: random.Random) -> Sequence[float]:
    """Large numbers of both signs that take each other away beside small ones; no infinities but by products."""
    large = 1e30 if element.exponent > 100 else 3e4
    return [source.choice((large, -large, 1.0, -1.0, 3.0, 1 / large)) for _ in range(count)]


def _infinite(count: int, element: ElementType, source: random.Random) -> Sequence[float]:
    """Numbers, with an infinity or a NaN in some places: what they reach shows."""
    odd = (math.inf, -math.inf, math.nan)
    return [source.choice(odd) if source.random() < 0.15 else source.random() - 0.5 for _ in range(count)]


FLOATS: dict[str, Floats] = {
    "distinct": _distinct,
    "whole": _whole,
    "equal": _equal,
    "permuted": _permuted,
    "zeros": _zeros,
    "signed_zeros": _signed_zeros,
    "sparse": _sparse,
    "special": _special,
    "cancelling": _cancelling,
    "infinite": _infinite,
}
"""By name, what floating-point arrays hold."""

EXACT = frozenset({"whole", "permuted", "equal", "zeros"})
"""Those of which short sums and products are the same in every order."""


def _extremes(count: int, element: ElementType, bound: int, source: random.Random) -> Sequence[int]:
    """The least and greatest, those next to them, 0, 1, -1 and both sides of half of the bits."""
    half = 1 << element.bits // 2
    most, least = element.maximum, element.minimum
    some = [0, 1, -1, least, most, most - 1, least + 1, half, -half, half - 1, most // 2, most // 2 + 1]
    return [source.choice(some) for _ in range(count)]


def _full_range(count: int, element: ElementType, bound: int, source: random.Random) -> Sequence[int]:
    return [source.randint(element.minimum, element.maximum) for _ in range(count)]


def _small(count: int, element: ElementType, bound: int, source: random.Random) -> Sequence[int]:
    """i * i + 7, as large as the square root of the type takes: products stay inside."""
    most = max(1, math.isqrt(element.maximum) // 8)
    return [(i * i + 7) % most * (1 if element.unsigned or i % 3 else -1) for i in range(count)]


def _shuffled(count: int, element: ElementType, bound: int, source: random.Random) -> Sequence[int]:
    """Subscripts below the bound, each as often as there is room, in another order."""
    numbers = [i % bound for i in range(count)]
    source.shuffle(numbers)
    return numbers


def _repeated(count: int, element: ElementType, bound: int, source: random.Random) -> Sequence[int]:
    """Subscripts below the bound of which a few come again and again."""
    few = [source.randrange(bound) for _ in range(max(1, bound // 3))]
    return [source.choice(few) for _ in range(count)]


def _sorted(count: int, element: ElementType, bound: int, source: random.Random) -> Sequence[int]:
    """Where rows begin: from 0 to the bound, with rows of no entry, the first and the last one among them."""
    inside = sorted(source.randint(0, bound) for _ in range(max(0, count - 4)))
    return [*(0, 0)[:count], *inside, *(bound, bound)[: max(0, count - 2)]]


def _flags(count: int, element: ElementType, bound: int, source: random.Random) -> Sequence[int]:
    return [source.randrange(2) for _ in range(count)]


INTEGERS: dict[str, Integers] = {
    "extremes": _extremes,
    "full_range": _full_range,
    "small": _small,
    "permuted": _shuffled,
    "repeated": _repeated,
    "sorted": _sorted,
    "flags": _flags,
    "zeros": lambda count, element, bound, source: [0] * count,
    "ones": lambda count, element, bound, source: [1] * count,
}
"""By name, what arrays of integers hold."""
BOUNDED = frozenset({"permuted", "repeated", "sorted"})
"""Those that look at the bound."""

LADDER: tuple[str, ...] = (
    "extremes",
    "full_range",
    "small",
    "permuted",
    "repeated",
    "sorted",
    "flags",
    "zeros",
    "ones",
)
"""What arrays of integers are filled with, what shows most first."""

_ORDER = (
    "distinct", "special", "sparse", "equal", "infinite", "permuted", "cancelling", "signed_zeros", "whole", "zeros",
)  # fmt: skip


def fillings(seed: int = 0, bound: int = 8, most: int | None = None) -> list[Filling]:
    """Fillings, the most telling first, each with the first step of `ladder`."""
    return [Filling(name, LADDER[0], seed, bound) for name in _ORDER[:most]]


def ladder(first: Filling, *, start: int = 0) -> Iterator[Filling]:
    """The filling with other integers, from those of the full range to those that make sense as subscripts anywhere.

    The caller takes the first one for which the program has a meaning; `start`: that of the steps to begin with.
    """
    for name in LADDER[start:]:
        bounds = dict.fromkeys((first.bound, 4, 2)) if name in BOUNDED else (first.bound,)
        for bound in bounds:
            yield replace(first, integers=name, bound=bound)
