"""Lines that say which instance of the scop a printed statement is: hints for the proof (polydl.prove), not code.

    polydl_instance_row(c3, 1, 1);         the row below takes the place of a loop c3 from 1 on
    polydl_instance_S2(c0, 4 * c1 + c3);   what follows is the instance S2[c0, 4 * c1 + c3]
    polydl_instance_part(polydl_part_T, 64 * c0);   the memory that it has for T begins with the element T[64 * c0]

They are never part of an output: the text without them is the one that is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from polydl.lower.ctree import Expr, Hint, Int, Name
from polydl.lower.instance import Place
from polydl.model import isl
from polydl.model.scop import Statement

_MARK = "polydl_instance_"
ROW = f"{_MARK}row"
PART = f"{_MARK}part"
BEGIN = f"{_MARK}begin"
"""Of the line at the beginning of a region's code."""
_LINE = re.compile(r"^[ \t]*polydl\d*_instance_\w+\(.*\);\r?\n", re.MULTILINE)


def instance_mark(statement: Statement, at: Place) -> Hint:
    """Of one statement of the scop."""
    iterators = map(isl.PwAff.from_aff, isl.coordinates(statement.domain))
    values = (at.affine(i.intersect_domain(statement.domain)) for i in iterators)
    return Hint(f"{_MARK}{statement.name}", tuple(values))


def part_mark(at: Place, array: str) -> Hint:
    """Of memory in which a part of an array is at a time."""
    return Hint(PART, (Name(at.arrays[array].name), at.base(array)))


def row_mark(loops: Sequence[tuple[Expr, Expr, Expr]], *, back: bool = False) -> Hint:
    """Of a row: per loop, outermost first, its variable, its value in the first column and its iterations (of the
    outermost any number). `back`: a word in front of them, since they count downwards. A function of two loops has two
    of these."""
    return Hint(ROW, (*([Int(-1)] if back else []), *(part for loop in loops for part in loop)))


def is_mark(line: str) -> bool:
    """Whether a line is one of these."""
    return line.lstrip().startswith(_MARK)


def without_marks(text: str) -> str:
    """The text that is compiled."""
    return _LINE.sub("", text)
