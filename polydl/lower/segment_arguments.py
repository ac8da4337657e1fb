"""What calls of a microkernel are given that adds up over a segment (`model.scop.Segment`)."""

from __future__ import annotations

import re
from collections.abc import Callable

from polydl.base.records import dataclass
from polydl.lower.ctree import Binary, Declare, Expr, Int, Name, Node, Paren, Scope, Text, plus, times
from polydl.lower.instance import Place, declaration
from polydl.model import isl
from polydl.model.contraction import Contraction, Operand, Within
from polydl.model.scop import BlackBox, Segment, Statement
from polydl.model.strides import Stride
from polydl.schedule.grouping import Grouping


@dataclass(frozen=True, slots=True)
class SegmentArguments:
    """Writes the arguments that say where the segment of a call begins, how long it is, and what its tables are."""

    body: BlackBox
    segment: Segment
    found: Contraction
    corner: isl.PwMultiAff
    """{ S_mk[t…] -> S[i…] } the first instance of a call."""
    left_is_a: bool
    groups: Grouping

    @property
    def _first(self) -> str:
        return f"polydl_first_{self.segment.entry}"

    def start(self, operand: Operand, at: Place) -> Expr:
        """Elements from the operand of entry 0 to that of the first one."""
        entry = self.found.within[0]
        stride, table = self._of(entry, left=operand is self.found.left)
        return Int(0) if table or stride == 0 else times(Name(self._first), self._elements(stride, at))

    def strides(self, at: Place) -> list[Expr]:
        """Arguments for the number of entries, for strides that the function is not made for, and for the distance of
        the rows of B that are in neighbouring words of a step, and in a word."""
        found, words = list[Expr](), list[Expr]()
        group, in_step = self.groups.product.group, self.groups.words
        for one in self.found.within:
            if one.extent is None:
                found.append(Binary("-", Paren(Text(self.segment.last)), Name(self._first)))
            a, b = (self._of(one, left=left)[0] for left in (self.left_is_a, not self.left_is_a))
            found += [] if isinstance(a, int) else [at.distance(a)]
            if isinstance(b, int):
                continue
            row, grouped = at.distance(b), one.iterator == self.groups.within
            found.append(_multiple(row, group * in_step if grouped else 1))
            if grouped:
                words = [_multiple(row, group), row][in_step == 1 :]
        return [*found, *words]

    @property
    def tables(self) -> list[Expr]:
        """Arguments for tables, from the first entry on."""
        both = [
            self._of(one, left=left)[1] for one in self.found.within for left in (self.left_is_a, not self.left_is_a)
        ]
        return [plus(Name(table), Name(self._first)) for table in both if table]

    def around(self, call: Node, at: Place) -> Node:
        """A call behind the declarations that its arguments need."""
        declared = bound_names(
            self.body, self.segment, lambda value: at.affine(value.pullback_pw_multi_aff(self.corner))
        )
        first = Declare("const ptrdiff_t", ((self._first, Text(self.segment.first)),))
        return Scope((*declared, first, call))

    @staticmethod
    def _elements(stride: Stride, at: Place) -> Expr:
        return Int(stride) if isinstance(stride, int) else at.distance(stride)

    @staticmethod
    def _of(one: Within, *, left: bool) -> tuple[Stride, str]:
        return (one.left, one.left_table) if left else (one.right, one.right_table)


def _multiple(distance: Expr, rows: int) -> Expr:
    return times(distance, Int(rows)) if rows > 1 else distance


def bound_names(body: BlackBox, segment: Segment, affine: Callable[[isl.PwAff], Expr]) -> list[Declare]:
    """Declarations of the names that the bounds of a segment mention. `affine` writes functions of the loops."""
    named = set(re.findall(r"[A-Za-z_]\w*", f"{segment.first} {segment.last}"))
    return [
        declaration(text, affine(value))
        for text, value in body.locals
        if value is not None and text.rpartition(" ")[2] in named
    ]


def segment_arguments(
    statement: Statement, found: Contraction, corner: isl.PwMultiAff, a: Operand, groups: Grouping
) -> SegmentArguments | None:
    """What writes these arguments for calls whose first instance is `corner`, where `a` is the operand A; None for a
    statement that adds up in loops of its own."""
    if not isinstance(statement.body, BlackBox) or statement.body.segment is None:
        return None
    return SegmentArguments(statement.body, statement.body.segment, found, corner, a is found.left, groups)
