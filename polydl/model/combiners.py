"""The table of combiners: everything that polydl knows of an operation that makes one value of many, in any grouping.

A combiner more is a row here (docs/extending.md). Nothing else keeps a table of them, or of the operators that
accumulate (tests/test_combiners.py). Whoever adds a row vouches for what it says: that the operation is associative and
commutative, but for what `regrouping` tells.
"""

from __future__ import annotations

import math
from enum import Enum

from polydl.base.records import dataclass
from polydl.model.functions import function_of
from polydl.model.types import I32, ElementType, common


class Regrouping(Enum):
    """What becomes of the result where values are combined in another order, or in groups first."""

    EXACT = "exact"
    """The same bits."""
    FIRST = "first"
    """The same value; of equal ones the bits are those of the first, which shows in zeros alone: `x > m ? x : m`."""
    ROUNDS = "rounds"
    """Other bits perhaps: sums round otherwise; of zeros of both signs fmax gives any, in C too."""
    LEAVES_RANGE = "leaves the range"
    """Another value altogether perhaps: parts of a product overflow or vanish that the whole does not, and infinity
    times zero is NaN. The order stays, but where the user asks for approximations."""


@dataclass(frozen=True, slots=True)
class Compound:
    """A compound assignment of C that combines: `m op x`."""

    op: str
    idle_float: str | None
    """A float x that leaves every m as it is, to the bit; None: there is none, or no operator on floats."""
    idle_integer: str | None
    """The same for integers; None: there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class Combiner:
    """A way to make one value of two. There is one object for each: its row."""

    name: str
    floats: Regrouping
    """Of floating-point numbers; of integers it is always exact."""
    compounds: tuple[Compound, ...] = ()
    """How C combines in one assignment. The first puts groups together, those behind it take the inverse of x."""
    function: str = ""
    """The function that combines two values, in any order, for doubles (a row of model.functions) or as it is called;
    empty where none does."""
    better: str = ""
    """The comparison in `x > m ? x : m`; empty where it takes no choice."""
    renews: bool = False
    """Whether an m that is no number gives way to whatever comes: `x > m || m != m ? x : m`."""
    neutral: str | None = None
    """What a group of its own starts from; None: from the m that there is, which may be combined any number of
    times."""
    symbol: str = ""
    """The operator of C that combines, as OpenMP names the reduction; empty where none does."""
    step: str = ""
    """C on vectors of the generated code, named `{v}`, that combines `{m}` and `{x}`; empty: there is none."""
    gather: str = ""
    """Behind `polydl_f32_` the function that makes one value of the lanes."""

    @property
    def idempotent(self) -> bool:
        """Whether the same value may be combined any number of times."""
        return self.neutral is None or self.symbol in ("&", "|")

    @property
    def op(self) -> str:
        """The compound assignment that puts groups together."""
        return self.compounds[0].op

    def takes(self, x: str, m: str, *, last: bool = False) -> str:
        """C of the question whether x takes the place of m; `last`: of equal ones, too."""
        return f"{x} {self.better}{'=' if last else ''} {m}" + (f" || {m} != {m}" if self.renews else "")

    def regrouping(self, element: ElementType, *, fast_math: bool = False) -> Regrouping:
        """What becomes of a result of such a type; `fast_math`: where neither the sign of a zero counts nor what
        overflows on the way."""
        relaxed = {Regrouping.FIRST: Regrouping.EXACT, Regrouping.LEAVES_RANGE: Regrouping.ROUNDS}
        found = Regrouping.EXACT if element.is_int else self.floats
        return relaxed.get(found, found) if fast_math else found

    def called(self, element: ElementType) -> str:
        """The name of the function for values of such a type."""
        known = function_of(self.function)
        own = None if known is None else known.of(element)
        return own or self.function

    def worst(self, element: ElementType) -> float:
        """The value of a type that no other one is worse than, of what takes the better of two: an integer of integers,
        an infinity of floats."""
        greatest = self.better == ">"
        if element.is_float:
            return -math.inf if greatest else math.inf
        return element.minimum if greatest else element.maximum

    def start(self, element: ElementType) -> str | None:
        """C of what a group starts from; None where that is the m that there is."""
        number = self.neutral is not None and self.neutral.isdigit()
        return f"{self.neutral}.0{element.suffix or ''}" if number and element.is_float else self.neutral


SUM = Combiner(
    "sum", Regrouping.ROUNDS, (Compound("+=", "-0.0", "0"), Compound("-=", "0.0", "0")), neutral="0", symbol="+",
    step="{m} + {x}", gather="sum",
)  # fmt: skip
PRODUCT = Combiner(
    "product", Regrouping.LEAVES_RANGE, (Compound("*=", "1.0", "1"),), neutral="1", symbol="*", step="{m} * {x}",
    gather="product",
)  # fmt: skip
AND = Combiner(
    "and",
    Regrouping.EXACT,
    (Compound("&=", None, "-1"),),
    neutral="~0",
    symbol="&",
    step="{m} & {x}",
    gather="conjunction",
)
OR = Combiner(
    "or",
    Regrouping.EXACT,
    (Compound("|=", None, "0"),),
    neutral="0",
    symbol="|",
    step="{m} | {x}",
    gather="disjunction",
)
XOR = Combiner(
    "xor", Regrouping.EXACT, (Compound("^=", None, "0"),), neutral="0", symbol="^", step="{m} ^ {x}", gather="parity"
)
# x86's max(x, m) is x > m ? x : m.
MAX = Combiner("max", Regrouping.FIRST, better=">", step="{v}_max({x}, {m})", gather="greatest")
MIN = Combiner("min", Regrouping.FIRST, better="<", step="{v}_min({x}, {m})", gather="least")
MAX_NUMBER = Combiner(
    "max_number", Regrouping.FIRST, better=">", renews=True, step="{v}_number_max({m}, {x})", gather="greatest_number"
)  # fmt: skip
MIN_NUMBER = Combiner(
    "min_number", Regrouping.FIRST, better="<", renews=True, step="{v}_number_min({m}, {x})", gather="least_number"
)  # fmt: skip
FMAX = Combiner(
    "fmax", Regrouping.ROUNDS, function="fmax", step="{v}_fmax({m}, {x})", gather="fmax_all"
)  # fmt: skip
FMIN = Combiner(
    "fmin", Regrouping.ROUNDS, function="fmin", step="{v}_fmin({m}, {x})", gather="fmin_all"
)  # fmt: skip

COMBINERS: tuple[Combiner, ...] = (SUM, PRODUCT, AND, OR, XOR, MAX, MIN, MAX_NUMBER, MIN_NUMBER, FMAX, FMIN)
"""Every row."""


def named(name: str) -> Combiner:
    """The row of that name."""
    return next(row for row in COMBINERS if row.name == name)


def of_assignment(op: str) -> Combiner | None:
    """How a compound assignment combines; None: it does not, or in one order alone."""
    return next((row for row in COMBINERS for one in row.compounds if one.op == op), None)


def of_function(name: str) -> Combiner | None:
    """How a function of two values combines; None: it is not known to."""
    known = function_of(name)
    own = name if known is None else known.name
    return next((row for row in COMBINERS if own and row.function == own), None)


def of_comparison(op: str, *, renews: bool = False) -> Combiner | None:
    """How `x op m ? x : m` combines; `renews`: where an m that is no number gives way, too."""
    return next((row for row in COMBINERS if op and row.better == op and row.renews == renews), None)


def of_gathering(function: str) -> Combiner | None:
    """What a function of the generated code makes of lanes, by its name behind the type's."""
    return next((row for row in COMBINERS if function and row.gather == function), None)


def adds(op: str) -> bool:
    """Whether an assignment adds to its target, or takes away from it."""
    return of_assignment(op) is SUM


def subtracts(op: str) -> bool:
    """Whether an assignment takes away from its target."""
    return adds(op) and op != SUM.op


def taken_away(op: str) -> str:
    """The assignment that takes away what another one adds: `-=` of `+=`, and the other way round."""
    return next(one.op for one in SUM.compounds if one.op != op)


def idle(op: str, element: ElementType, value: ElementType) -> str | None:
    """C of a number that an assignment to such a target leaves it with as it is, to the bit, in `c ? x : number` beside
    a `value` x; None: none is known."""
    row = of_assignment(op)
    found = next((one for one in row.compounds if one.op == op), None) if row is not None else None
    if found is None:
        return None
    if element.is_float:
        return found.idle_float
    # Beside an unsigned x a number less than zero has no more bits than that: it may clear some of a longer target.
    meant = common(value, I32)
    cut = meant.unsigned and meant.bits < element.bits and (found.idle_integer or "").startswith("-")
    return found.idle_integer if value.is_int and not cut else None
