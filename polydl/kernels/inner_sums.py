"""Short sums of products of integers inside of a row: each column has one of its own, over a loop of constant length.

    for b: { dot = 0; for j < 32: dot += w[b][j] * x[b][j]; y += dot * scale[b]; }      a row over b

What products of quantized numbers are made of: neighbours along j are in the lanes of a vector of 16-bit integers, and
their products are added up in pairs (VPDPWSSD, PMADDWD), and the sums of as many columns as a vector of the row has
lanes become one vector. All of it is exact: what does not provably fit into 16 bits is refused, products of 16 bits and
sums of two of them fit into 32 (none of these instructions saturates), and sums are modulo 2^32 as far as C gives them
a meaning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache

from polydl.base.records import dataclass
from polydl.kernels.microkernel import environment
from polydl.kernels.narrow_values import number_of
from polydl.kernels.vector_text import NotVectorised
from polydl.model.conversions import explicit
from polydl.model.expr import Binary, Convert, Expr, Load, Unary
from polydl.model.types import I8, I16, I32, U8, U16, ElementType
from polydl.target.instructions import RATE
from polydl.target.isa import Isa

SMALL = (I8, U8, I16, U16)
"""What 16 bits may hold."""
_LEAST, _MOST = -(2**15), 2**15 - 1
_WIDEST, _NARROWEST = 32, 8
"""16-bit integers in a vector: the most that an instruction set has, and the fewest that there is code for."""


@cache
def sums_prologue() -> str:
    """The operations, with an include guard; after `narrow_text.narrow_prologue`."""
    return environment().get_template("row_sums.c.j2").render()


def sum_cycles(iterations: int, instructions: float, columns: int, isa: Isa, *, windows: bool) -> float:
    """Cycles of the sums of so many columns: of the operations on vectors of 16 bits, and of making one vector of
    theirs, with two shuffles and an addition for each column; with `windows` these are in lanes from the beginning
    (`kernels.window_sums`)."""
    vectors = 2 * iterations / isa.vector_bytes
    return columns * (instructions * vectors if windows else instructions * max(1.0, vectors) + 3.0) / RATE


@dataclass(frozen=True, slots=True)
class Operand:
    """An element that a term reads, of the first column and the first iteration."""

    name: str
    """C variable, a pointer to it."""
    element: ElementType
    column: int
    """Elements from one column to the next."""
    along: int
    """Elements from one iteration of the sum to the next."""
    pair: int = 0
    """With `along` 2: whether it is the first (0) or the second (1) of two neighbours that the sum reads both."""

    @property
    def declaration(self) -> str:
        return f"const {self.element} *{self.name}"

    @property
    def vector(self) -> str:
        """C of so many neighbours along the sum in the middle of it, in column `polydl_column`; `{h}`: the vectors."""
        place = f"{self.name} + polydl_column * {self.column}"
        match self.along:
            case 0:
                return f"{{h}}_all(*({place}))"
            case 1:
                return f"{{h}}_load_{self.element.name}({place} + polydl_j)"
            case 2 if self.element in (I8, U8):
                which = ("first", "second")[self.pair]
                return f"{{h}}_{which}_{self.element.name}({place} + 2 * polydl_j{' - 1' if self.pair else ''})"
        raise NotVectorised("a sum over elements that are no neighbours")


@dataclass(frozen=True, slots=True)
class Sum:
    """A function that makes the sum of each column of a vector."""

    name: str
    text: str
    """C definitions; ends in a newline."""
    operands: tuple[Operand, ...]

    def call(self, last: str) -> str:
        """C of the sums of the columns from `polydl_column` on; `last`: the number of the last one there is."""
        return f"{self.name}({', '.join(['polydl_column', last, *(one.name for one in self.operands)])})"


def inner_sum(value: Expr, extent: int, load: Callable[[int], Operand], *, negative: bool) -> Sum:
    """The sum (`negative`: what is taken away) of a value over so many iterations. `load` gives what an access reads.
    Raises NotVectorised for another kind of value, or of length."""
    lanes = next((n for n in (_WIDEST, 16, _NARROWEST) if extent % n == 0), 0)
    if not lanes or extent == 0:
        raise NotVectorised(f"a sum of {extent} products")
    made, element = explicit(value, lambda access: load(access).element)
    if element not in (*SMALL, I32):
        raise NotVectorised(f"a sum in {element}")
    operands: dict[str, Operand] = {}

    def known(access: int) -> Operand:
        one = load(access)
        return operands.setdefault(one.name, one)

    terms = Halves(known).terms(made, negative=negative)
    h, w = f"polydl_halves{lanes}", f"polydl_words{lanes}"
    products = [f"polydl_sum = {h}_dot(polydl_sum, {x.format(h=h)}, {y.format(h=h)});" for x, y in terms]
    found = tuple(operands.values())
    content = repr((lanes, extent, products, [one.declaration for one in found]))
    name = f"polydl_sum_{hashlib.sha256(content.encode()).hexdigest()[:10]}"
    declared, passed = "".join(f", {one.declaration}" for one in found), "".join(f", {one.name}" for one in found)
    text = f"""\
/* What one column adds up: neighbours in lanes. */
POLYDL_INLINE {w} {name}_column(const ptrdiff_t polydl_column{declared})
{{
    {w} polydl_sum = {{ 0 }};
    for (ptrdiff_t polydl_j = 0; polydl_j < {extent}; polydl_j += (ptrdiff_t)(sizeof polydl_sum / 2)) {{
{"".join(f"        {line}{chr(10)}" for line in products)}    }}
    return polydl_sum;
}}
/* The sums of a vector of columns up to the last one. */
POLYDL_INLINE polydl_f32_bits {name}(const ptrdiff_t polydl_column, const ptrdiff_t polydl_last{declared})
{{
#define POLYDL_COLUMN(k) ((k) <= polydl_last ? {name}_column(polydl_column + (k){passed}) : ({w}){{ 0 }})
    return {h}_sums(POLYDL_COLUMN);
#undef POLYDL_COLUMN
}}
"""
    return Sum(name, text, found)


@dataclass(frozen=True, slots=True)
class Halves:
    """How values with all of C's conversions become vectors of 16 bits, modulo 2^16, as C text with a place `{h}`."""

    load: Callable[[int], Operand]

    def terms(self, value: Expr, *, negative: bool) -> list[tuple[str, str]]:
        """Pairs of factors whose products make up the value. Raises NotVectorised."""
        match value:
            case Binary("*", left, right) if self._is_half(left) and self._is_half(right):
                return [(self._signed(left, negative=negative), self.text(right))]
            case _ if self._is_half(value):
                return [(self._signed(value, negative=negative), "{h}_all(1)")]
            case Binary("+" | "-" as op, left, right):
                other = negative != (op == "-")
                return [*self.terms(left, negative=negative), *self.terms(right, negative=other)]
            case Unary("-" | "+" as op, operand):
                return self.terms(operand, negative=negative != (op == "-"))
        raise NotVectorised("a term that does not fit into 16 bits")

    def _is_half(self, value: Expr) -> bool:
        try:
            return _fits(self.ends(value))
        except NotVectorised:
            return False

    def _signed(self, value: Expr, *, negative: bool) -> str:
        if not negative:
            return self.text(value)
        low, high = self.ends(value)
        if not _fits((-high, -low)):
            raise NotVectorised("a term that does not fit into 16 bits")
        return f"(-{self.text(value)})"

    def ends(self, value: Expr) -> tuple[int, int]:
        """Least and greatest value in C. Raises NotVectorised."""
        number = number_of(value)
        if number is not None and number == int(number) and self._is_int(value):
            return int(number), int(number)
        match value:
            case Load(access):
                element = self.load(access).element
                if element in SMALL:
                    return element.minimum, element.maximum
            case Convert(source, target, operand) if source in (*SMALL, I32) and target in (*SMALL, I32):
                low, high = self.ends(operand)
                fits = target.minimum <= low and high <= target.maximum
                return (low, high) if fits else (target.minimum, target.maximum)
            case Unary("-", operand):
                low, high = self.ends(operand)
                return -high, -low
            case Unary("~", operand):
                low, high = self.ends(operand)
                return ~high, ~low
            case Unary("+", operand):
                return self.ends(operand)
            case Binary("+" | "-" | "*" as op, left, right):
                (a, b), (c, d) = self.ends(left), self.ends(right)
                corners = {"+": (a + c, b + d), "-": (a - d, b - c), "*": (a * c, a * d, b * c, b * d)}[op]
                return min(corners), max(corners)
            case Binary("&", left, right):
                tops = [high for low, high in (self.ends(left), self.ends(right)) if low >= 0]
                if tops:
                    return 0, min(tops)
            case Binary("|" | "^", left, right):
                (a, b), (c, d) = self.ends(left), self.ends(right)
                reach = 2 ** max(x.bit_length() for x in (a, b, c, d))
                return (0 if min(a, c) >= 0 else -reach), reach - 1
            case Binary("<<" | ">>" as op, left, right) if (by := _shift(right)) is not None:
                low, high = self.ends(left)
                return (low << by, high << by) if op == "<<" else (low >> by, high >> by)
        raise NotVectorised("a value without bounds")

    @staticmethod
    def _is_int(value: Expr) -> bool:
        """Whether a number is one of C's int."""
        while isinstance(value, Convert):
            if value.target not in (*SMALL, I32):
                return False
            value = value.operand
        return True

    def text(self, value: Expr) -> str:
        """C of a vector. Raises NotVectorised."""
        number = number_of(value)
        if number is not None and number == int(number) and self._is_int(value):
            return f"{{h}}_all({int(number)})"
        match value:
            case Load(access):
                return self.load(access).vector
            case Convert(_, target, operand):
                inner = self.text(operand)
                if self.ends(value) == self.ends(operand) or target in (I16, U16, I32):
                    return inner  # the same modulo 2^16
                return f"{{h}}_wrap_{target.name}({inner})"
            case Unary("-", _) | Binary("+" | "-" | "*", _, _) if not _fits(self.ends(value)):
                raise NotVectorised("a part that does not fit into 16 bits")
            case Unary("-" | "~" as op, operand):
                return f"({op}{self.text(operand)})"
            case Unary("+", operand):
                return self.text(operand)
            case Binary("+" | "-" | "*" | "&" | "|" | "^" as op, left, right):
                return f"({self.text(left)} {op} {self.text(right)})"
            case Binary("<<", left, right) if (by := _shift(right)) is not None:
                return f"{{h}}_left({self.text(left)}, {by})"
            case Binary(">>", left, right) if (by := _shift(right)) is not None:
                if not _fits(self.ends(left)):
                    raise NotVectorised("a shift of what does not fit into 16 bits")
                return f"({self.text(left)} >> {by})"
        raise NotVectorised("an operation on integers")


def _fits(ends: tuple[int, int]) -> bool:
    return ends[0] >= _LEAST and ends[1] <= _MOST


def _shift(value: Expr) -> int | None:
    """By how many bits, below 16."""
    number = number_of(value)
    return int(number) if number is not None and 0 <= number < 16 and number == int(number) else None
