"""The greatest two values of a row, or the least two: `if (x > a) { b = a; a = x; } else if (x > b) b = x;`.

Each lane keeps the best two of its own columns, and the best two of all lanes are put to what there was, the better one
first. Of floats whose result is a zero the loop runs once more as it is written, for the sign of a zero says which of
equal ones was met first.
"""

from __future__ import annotations

from collections.abc import Sequence

from polydl.base.records import dataclass
from polydl.kernels.family import Cycles
from polydl.kernels.innermost import Argument, Innermost, OfRows, RowFunction, stated
from polydl.kernels.microkernel import environment
from polydl.kernels.rows import row_prologue
from polydl.kernels.whole_text import worst_text
from polydl.model.accumulation import accumulation_in
from polydl.model.combiners import Combiner
from polydl.model.expr import Binary, Conditional, Load
from polydl.model.scop import Assignment
from polydl.model.types import ElementType
from polydl.target.isa import ROW_TYPES, Isa, lanes_name


@dataclass(frozen=True, slots=True)
class BestTwoUse:
    """The roles of a piece's accesses: x of the first statement, its target b, and a, the target of the second."""

    x: int
    second: int
    first: int
    combiner: Combiner
    element: ElementType
    """Of x."""
    held: ElementType
    """Of a and b, which may be a longer type."""
    long: str = ""
    """See `model.scop.Scop`."""


class BestTwo(OfRows):
    """See the module."""

    name = "best two"

    def matches(self, piece: Innermost) -> Sequence[BestTwoUse]:
        """`b = x > a ? a : x > b ? x : b` and `a = x > a ? x : a` with one x in a column, neighbours along the row."""
        where = piece.printed
        if where is None or where.turned or len(piece.statements) != 2 or piece.inner:
            return ()
        below, best = piece.statements
        how = accumulation_in(piece.arrays, best, fast_math=where.options.fast_math)
        if how is None or not how.combiner.better or how.combiner.renews or how.guards or where.private:
            return ()
        if not isinstance(how.value, Load) or not isinstance(below.body, Assignment) or below.body.op != "=":
            return ()
        op = how.combiner.better
        match below.body.value:
            case Conditional(
                Binary(first, Load(x0), Load(a0)), Load(a1),
                Conditional(Binary(second, Load(x1), Load(b0)), Load(x2), Load(b1)),
            ) if (first, second) == (op, op):  # fmt: skip
                assert isinstance(best.body, Assignment)
                own = [((0, x0), (0, x1), (0, x2), (1, how.value.access)), ((0, a0), (0, a1), (1, best.body.target))]
                own.append(((0, b0), (0, b1), (0, below.body.target)))
            case _:
                return ()
        for places in own:
            accesses = [piece.statements[at].accesses[access] for at, access in places]
            touched = [where.relation(at, piece.statements[at].accesses[access]) for at, access in places]
            if len({a.array for a in accesses}) > 1 or not all(touched[0].is_equal(other) for other in touched):
                return ()
        arrays = [piece.arrays[below.accesses[access].array] for access in (x0, a0, b0)]
        moves = [piece.moves[0][access] for access in (x0, a0, b0)]
        element, held, other = (array.element for array in arrays)
        if held is not other or len({array.name for array in arrays}) < 3 or moves != [1, 0, 0]:
            return ()
        if element not in ROW_TYPES or not held.holds(element) or element.is_int != held.is_int:
            return ()
        return (BestTwoUse(x0, below.body.target, best.body.target, how.combiner, element, held, where.options.long),)

    def cycles(self, use: BestTwoUse, shape: int, isa: Isa) -> Cycles:
        return Cycles(step=3 / isa.loads)

    def emit(self, use: BestTwoUse, shape: int) -> RowFunction:
        t, held, v = use.element, use.held, f"polydl_{lanes_name(use.element)}"
        name = f"polydl_best_two_{'greatest' if use.combiner.better == '>' else 'least'}_{lanes_name(t)}"
        name += f"_in_{held.name}" if held is not t else ""
        signature = f"const ptrdiff_t n, const {t} *x, {held} *a, {held} *b"
        template = environment().get_template("best_two.c.j2")
        body = template.render(
            t=t,
            v=v,
            longer=held is not t,
            better=use.combiner.better,
            worst=worst_text(use.combiner, t),
            plain=self.meaning(use, shape),
        )
        arguments = (
            Argument(0, use.x, pointer=True),
            Argument(1, use.first, pointer=True),
            Argument(0, use.second, pointer=True),
        )
        text = stated(name, signature, self.meaning(use, shape), body)
        return RowFunction(name, text, signature, row_prologue(t, use.long), arguments, gathers=True)

    def meaning(self, use: BestTwoUse, shape: int) -> str:
        op = use.combiner.better
        return (
            f"for (ptrdiff_t j = 0; j < n; j++) {{ *b = x[j] {op} *a ? *a : x[j] {op} *b ? x[j] : *b; "
            f"*a = x[j] {op} *a ? x[j] : *a; }}"
        )
