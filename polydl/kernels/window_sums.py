"""Short sums of products of integers over windows: what one column adds up and what the next one does overlap.

    for i: { s = 0; for k < 64: s += x[i + k] * h[k]; y[i] = s >> 15; }      a row over i, a filter

Each word of a vector has two neighbours of 16 bits, x[i + k] and x[i + k + 1], which one instruction multiplies by h[k]
and h[k + 1] and adds up (`target.products.DOT_I16`). Words from an even column on are those of every second column; the
odd ones have a vector that is loaded one element further on. Nothing is moved between lanes but the two vectors of sums
at the end. Exact for the reasons that `inner_sums` states.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from polydl.base.records import dataclass
from polydl.kernels.inner_sums import SMALL, Halves, Operand
from polydl.kernels.vector_text import NotVectorised
from polydl.model.conversions import explicit
from polydl.model.expr import Expr
from polydl.model.types import I32

_H, _W = "polydl_halves32", "polydl_words32"
_MOST = 4096
"""Iterations of a sum: the columns at the end of a row are computed from a copy, on the stack, of what they read."""
_APART = 4
"""Sums that a column's is made of: no product waits for the one before."""


@dataclass(frozen=True, slots=True)
class InWindow(Operand):
    """An operand whose `vector` is in pairs along the sum: those of every second column, or one for all of them. Its
    pointer leads to the element of the first column and iteration, iterations running as `window_operands` says."""

    begin: int = 0
    """Where that element lies, behind the pointer that the row has."""

    @property
    def vector(self) -> str:
        if self.along == 0:
            return f"{{h}}_all(*{self.name})"
        if self.column == 1:
            return f"{{h}}_load_{self.element.name}({self.name} + odd + j)"
        if self.along == 1:
            return f"{{h}}_pair_{self.element.name}({self.name} + j)"
        return f"{{h}}_turned_{self.element.name}({self.name} - j - 1)"

    def at(self, column: str) -> str:
        """C of its pointer for the columns from one on, of what the row has."""
        return f"{self.name}{f' + {column}' if self.column else ''}{_plus(self.begin)}"


def _plus(number: int) -> str:
    return f" {'+' if number > 0 else '-'} {abs(number)}" if number else ""


def window_operands(operands: Mapping[int, Operand], extent: int) -> Mapping[int, InWindow] | None:
    """What a sum over so many iterations reads, by the accesses, where some of it moves by one element with each column
    and with each iteration, and the rest stays with the column; where it moves backwards, iterations run the other way
    round. None for other sums."""
    moves = {one.along for one in operands.values() if one.column}
    by = min(moves, default=0)
    fitting = all(
        one.column in (0, 1) and one.along in (-1, 0, 1) and one.element in SMALL for one in operands.values()
    )
    if moves not in ({1}, {-1}) or not fitting or not 2 <= extent <= _MOST:
        return None
    last = 0 if by == 1 else extent - 1
    return {
        access: InWindow(one.name, one.element, one.column, one.along * by, begin=last * one.along)
        for access, one in operands.items()
    }


@dataclass(frozen=True, slots=True)
class WindowSum:
    """A function that makes the sums of two vectors of columns."""

    name: str
    text: str
    """C definitions; ends in a newline."""
    operands: tuple[InWindow, ...]

    def call(self, column: str, left: str, to: str) -> str:
        """C of the sums of two vectors of columns from one on, which are stored; `left`: how many columns there are,
        of which the vectors may have more."""
        return f"{self.name}({', '.join([column, left, *(one.name for one in self.operands), to])})"


def window_sum(value: Expr, extent: int, operands: Mapping[int, InWindow]) -> WindowSum:
    """The sum of a value over so many iterations. Raises NotVectorised for another kind of value."""
    made, element = explicit(value, lambda access: operands[access].element)
    if element not in (*SMALL, I32):
        raise NotVectorised(f"a sum in {element}")
    terms = Halves(operands.__getitem__).terms(made, negative=False)
    products = [f"sum = {_H}_dot(sum, {x.format(h=_H)}, {y.format(h=_H)} & both);" for x, y in terms]
    own = tuple(dict.fromkeys(operands.values()))
    content = repr((extent, products, [(one.declaration, one.column, one.begin) for one in own]))
    name = f"polydl_window_{hashlib.sha256(content.encode()).hexdigest()[:10]}"
    return WindowSum(name, _text(name, extent, products, own), own)


def _text(name: str, extent: int, products: Sequence[str], operands: Sequence[InWindow]) -> str:
    declared, passed = "".join(f", {one.declaration}" for one in operands), "".join(f", {o.name}" for o in operands)
    moving = [one for one in operands if one.column]
    copies = [f"{one.element} {one.name}_copy[2 * POLYDL_F32_LANES + {extent}] = {{ 0 }};" for one in moving]
    copies += [
        f"__builtin_memcpy({o.name}_copy, {o.at('column')}, (size_t)(left + {extent - 1}) * sizeof *{o.name});"
        for o in moving
    ]
    there = "".join(f", {one.at('column + at' if one.column else '')}" for one in operands)
    copied = "".join(f", {f'{one.name}_copy + at' if one.column else one.at('')}" for one in operands)
    blocks = "for (ptrdiff_t at = 0; at < 2 * POLYDL_F32_LANES; at += POLYDL_HALVES32_BYTES / 2)"
    return f"""\
/* What a pair of iterations adds to the sums of every second column. */
POLYDL_INLINE {_W} {name}_pair({_W} sum, const ptrdiff_t odd, const ptrdiff_t j, const {_H} both{declared})
{{
{_lines(products)}    (void)odd, (void)j;
    return sum;
}}
POLYDL_INLINE void {name}_block(int32_t *to{declared})
{{
{_lines(_block(name, extent, passed))}}}
/* The sums of two vectors of columns; those at the end from copies that have room behind them. */
POLYDL_INLINE void {name}(const ptrdiff_t column, const ptrdiff_t left{declared}, int32_t *to)
{{
    if (left >= 2 * POLYDL_F32_LANES) {{
        {blocks} {name}_block(to + at{there});
        return;
    }}
{_lines(copies)}    {blocks} {name}_block(to + at{copied});
}}
"""


def _block(name: str, extent: int, passed: str) -> list[str]:
    """The statements that make the sums of the columns of two vectors of words."""
    apart = min(_APART, extent // 2)
    whole = extent // (2 * apart) * 2 * apart

    def pair(k: int, j: str, both: str) -> list[str]:
        sums = ((f"even{k}", 0), (f"odd{k}", 1))
        return [f"{to} = {name}_pair({to}, {odd}, {j}, {both}{passed});" for to, odd in sums]

    names = [f"{which}{k}" for k in range(apart) for which in ("even", "odd")]
    lines = [f"{_W} {', '.join(f'{one} = {{ 0 }}' for one in names)};", f"const {_H} all = {_H}_all(-1);"]
    lines += [f"for (ptrdiff_t j = 0; j < {whole}; j += {2 * apart}) {{"]
    lines += [f"    {line}" for k in range(apart) for line in pair(k, f"j{_plus(2 * k)}", "all")]
    lines += ["}"]
    lines += [line for k, j in enumerate(range(whole, extent - 1, 2)) for line in pair(k, str(j), "all")]
    if extent % 2:
        # The last element comes second in a pair with one that is in the sum already.
        lines += [f"const {_H} second = ({_H})(({_W}){{ 0 }} - 65536);", *pair(0, str(extent - 2), "second")]
    sums = [" + ".join(f"({_W}_u32){which}{k}" for k in range(apart)) for which in ("even", "odd")]
    return [*lines, f"polydl_words32_beside(to, {', '.join(f'({_W})({one})' for one in sums)});"]


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"    {line}\n" for line in lines)
