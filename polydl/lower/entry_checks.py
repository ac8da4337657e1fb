"""What the output asks where a region begins, behind which the loops as they were written stand.

Beside values of sizes and macros (`model.scop.Guard`) these are: that arrays whose elements part segments never
decrease (`model.scop.Ordered`), and that the memory that the region touches through one pointer is none of what it
touches through another (`Scop.apart`).

No number of elements overflows: bytes are computed modulo 2^64, and wherever something is touched they are those of an
object. Where nothing is touched the answer doesn't matter, for both branches do nothing there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from polydl.base.records import dataclass
from polydl.lower.cexpr import FromIsl, Helpers
from polydl.lower.cprint import expression
from polydl.lower.emit import helper_texts, names_for
from polydl.lower.instance import Names
from polydl.model import isl
from polydl.model.isl.trees import parametric_value
from polydl.model.polynomials import Poly, Rational, poly_add, poly_mul, poly_number, rational, whole
from polydl.model.scop import Array, Ordered, Scop
from polydl.model.touched import shown, touched

_ORDERED = """\
#ifndef {guard}
#define {guard}
/* Whether elements first to last + 1 never decrease. */
static inline __attribute__((unused)) int {prefix}ordered_{type}(const {c} *array, long first, long last)
{{
    int found = 0;
    for (long row = first; row <= last; row++) found |= array[row] > array[row + 1];
    return !found;
}}
#endif
"""

_APART = """\
#ifndef {guard}
#define {guard}
/* Whether bytes first to end - 1 of one array are none of those of another. Nothing is read. */
#if defined(__GNUC__) && __GNUC__ > 10
__attribute__((access(none, 1), access(none, 4)))
#endif
static inline __attribute__((unused)) int {prefix}apart(
    const void *one, long one_first, long one_end, const void *other, long other_first, long other_end)
{{
    const __UINTPTR_TYPE__ a = (__UINTPTR_TYPE__)one, b = (__UINTPTR_TYPE__)other;
    return a + one_end <= b + other_first || b + other_end <= a + one_first;
}}
#endif
"""

_LINE = 110
"""Characters of conditions that stand on one line, if there are several."""


@dataclass(frozen=True, slots=True)
class EntryCheck:
    """A condition of the output."""

    condition: str
    """In C."""
    asks: str
    """What it asks, for people: `whether ptr never decreases`."""
    otherwise: str
    """When it doesn't hold: `ptr decreases`."""


def entry_checks(scop: Scop) -> tuple[tuple[EntryCheck, ...], tuple[str, ...]]:
    """The conditions, and the file-scope C that they need; to be asked where the parameters have values for which the
    program runs."""
    if not scop.ordered and not scop.apart:
        return (), ()
    names = names_for(scop)
    helpers = Helpers(names.prefix, set())
    checks, texts = [], []
    for one in scop.ordered:
        array = scop.arrays[one.array]
        condition = _never_decreases(one, array, names, FromIsl(helpers, lambda name: name, scop.unsigned))
        asks = f"whether {array.name} never decreases"
        checks.append(EntryCheck(condition, asks, f"{array.name} decreases"))
        name, c = array.element.name, array.element.c
        guard = f"{names.prefix}ordered_{name}".upper()
        texts.append(_ORDERED.format(guard=guard, prefix=names.prefix, type=name, c=c))
    wide = replace(names, integer="long")
    own = Helpers(f"{names.prefix}long_", set())
    ranges = _Ranges(scop, FromIsl(own, lambda name: f"(long){name}"))
    for pair in scop.apart:
        asked = [_apart(names, *two) for two in product(*(ranges.of(scop.arrays[name]) for name in pair))]
        if not asked:
            continue  # with these sizes one of them is not touched
        both = " and ".join(f"'{shown(scop, name)}'" for name in pair)
        checks.append(EntryCheck(" && ".join(asked), f"whether {both} overlap", f"{both} overlap"))
    if scop.apart:
        texts.append(_APART.format(guard=f"{names.prefix}apart".upper(), prefix=names.prefix))
    return tuple(checks), tuple(dict.fromkeys([*helper_texts(helpers, names), *helper_texts(own, wide), *texts]))


def conditions(scop: Scop) -> list[str]:
    """The conditions alone, in C."""
    return [check.condition for check in entry_checks(scop)[0]]


def joined(asked: Sequence[str], newline: str = "\n", pad: str = "") -> str:
    """All of the conditions, in C, on as many lines as they need."""
    lines = [asked[0]]
    for one in asked[1:]:
        if len(lines[-1]) + len(one) < _LINE:
            lines[-1] += f" && {one}"
        else:
            lines.append(one)
    return f" &&{newline}{pad}    ".join(lines)


def _never_decreases(one: Ordered, array: Array, names: Names, c: FromIsl) -> str:
    some = one.rows.params()
    low, high = (
        expression(c(parametric_value(bound.coalesce().gist_params(some))))
        for bound in isl.symbolic_bounds(one.rows, 0)
    )
    return f"{names.prefix}ordered_{array.element.name}({array.name}, {low}, {high})"


def _apart(names: Names, one: str, other: str) -> str:
    return f"{names.prefix}apart({one}, {other})"


class _Ranges:
    """Writes what a program touches of arrays."""

    def __init__(self, scop: Scop, c: FromIsl) -> None:
        """`c`: for what is no polynomial, computed as `long`."""
        self._scop, self._c = scop, c

    def of(self, array: Array) -> list[str]:
        """`x, 0, n * sizeof(float)` for each range: the base, the first byte from there, and one past the last."""
        base = f"&{array.name}" if array.is_scalar else array.spelled
        return [
            f"{base}, {self._bytes(array, one.first)}, {self._bytes(array, one.last, past=1)}"
            for one in touched(self._scop, array)
        ]

    def _bytes(self, array: Array, subscripts: Sequence[isl.PwAff], past: int = 0) -> str:
        """Bytes from the base to an element, or to one `past` it."""
        if array.layout.packed is not None:
            place = array.layout.packed.at([rational(self._polynomial(one)) for one in subscripts])
            return _packed_bytes(poly_add(place, rational(poly_number(past))), f"sizeof({array.element.c})")
        elements = poly_number(0)
        for subscript, extent in zip(subscripts, array.extents, strict=True):
            if elements:
                assert extent is not None, "only the first extent may be unknown"
                elements = poly_mul(elements, self._polynomial(extent))
            elements = poly_add(elements, self._polynomial(subscript))
        return in_bytes(poly_add(elements, poly_number(past)), f"sizeof({array.element.c})")

    def _polynomial(self, value: isl.PwAff) -> Poly:
        """A function of the parameters, over their names; over its own text in C where it has cases or quotients."""
        ((_, only), *others) = isl.pieces(value)
        terms = None if others or isl.divisors(only) else isl.parameter_terms(only)
        if terms is not None:
            return terms
        text = expression(self._c(parametric_value(value)))
        return {(text if text.endswith(")") and text.startswith(self._c.helpers.prefix) else f"({text})",): 1}


def _packed_bytes(elements: Rational, size: str) -> str:
    """So many elements, in C. The sum in front of a division is one of `long`: it may be below zero on its way."""
    plain = whole(elements)
    if plain is not None:
        return in_bytes(plain, size)
    by = math.lcm(*(c.denominator for c in elements.values()))
    terms = sorted(elements.items(), key=lambda term: (term[1] < 0, -len(term[0]), term[0]))
    text = ""
    for monomial, coefficient in terms:
        number = int(coefficient * by)
        product_of = " * ".join([f"{abs(number)}l", *monomial])
        text += f" {'-' if number < 0 else '+'} {product_of}" if text else f"{'-' if number < 0 else ''}{product_of}"
    return f"({text}) / {by} * {size}"


def in_bytes(elements: Poly, size: str) -> str:
    """So many elements of a size, in C: computed as `unsigned long`, modulo 2^64, whatever the types of the names."""
    match list(elements.items()):
        case []:
            return "0"
        case [((), number)]:
            return size if number == 1 else f"{number} * {size}"
        case [((name,), 1)]:
            return f"{name} * {size}"
        case [(names, factor)]:
            return " * ".join([size, *([] if factor == 1 else [str(factor)]), *names])
    terms = sorted(elements.items(), key=lambda term: (term[1] < 0, -len(term[0]), term[0]))
    text = ""
    for at, (names, factor) in enumerate(terms):
        # Of two `int` beside one another the sum would be an `int`.
        alone = at > 0 or (factor == 1 and len(terms) == 2 and terms[1][0] == ())
        bare = factor in (1, -1) and len(names) == 1 and alone
        number = abs(factor) if at else factor
        term = names[0] if bare else " * ".join([f"{number}ul", *names])
        text += term if not at else f" {'-' if factor < 0 else '+'} {term}"
    return f"({text}) * {size}"
