"""The table of kernels' families."""

from __future__ import annotations

from typing import Any

from polydl.kernels.family import Cycles, Family
from polydl.kernels.innermost import VECTOR, Innermost, RowFunction
from polydl.kernels.rows import GeneralRow
from polydl.target.isa import Isa

INNERMOST: tuple[Family[Innermost, Any, int, RowFunction], ...] = (GeneralRow(),)
"""Of innermost loops: the first that matches runs them. Those for special loops stand before the general one."""


def row_function(piece: Innermost) -> RowFunction | None:
    """The function that runs a piece; None where no family has one."""
    for family in INNERMOST:
        for use in family.matches(piece):
            return family.emit(use, VECTOR)
    return None


def row_cycles(piece: Innermost, isa: Isa) -> Cycles:
    """What the function that runs a piece takes for each vector of columns."""
    family, use = next((family, use) for family in INNERMOST for use in family.matches(piece))
    return family.cycles(use, VECTOR, isa)
