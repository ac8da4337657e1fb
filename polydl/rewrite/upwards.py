"""Loops that run downwards, turned round where nothing depends on it.

    for (int j = n - 1; j >= 0; j--) C[i][j] += A[i][k] * B[k][j];

Vectors hold neighbours in the order of memory, so the search looks at loops that run upwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from polydl.equations.step import RegroupingOnLeave, Step, together
from polydl.model.scop import Scop, Statement

_Loop = tuple[tuple[int, ...], str]
"""Where a loop stands, and its variable: all statements in it have these positions up to its depth."""


@dataclass(frozen=True, slots=True)
class Upwards(RegroupingOnLeave):
    """Loops run through the same values in the opposite order.

    before:    for j = n - 1 … 0: S(j)
    after:     for j = 0 … n - 1: S(j)
    requires:  every dependence is kept; with leave to reassociate, those between the terms of a sum need not be
    """

    loops: tuple[_Loop, ...]

    def __str__(self) -> str:
        return f"{', '.join(dict.fromkeys(name for _, name in self.loops))} may run upwards"


def upwards(scop: Scop, *, reassociate: bool = True) -> Iterator[Step]:
    """Turn round every loop that runs downwards and may as well run upwards (`Upwards`), as many together as hold.
    Raises QuotaExceeded."""
    loops = list(dict.fromkeys(one for s in scop.statements for one in _downwards(s)))

    def made(scop: Scop, some: Collection[_Loop]) -> Step:
        turned = tuple(_turned(s, some) for s in scop.statements)
        return Step(Upwards(tuple(some), reassociate=reassociate), scop, replace(scop, statements=turned))

    yield from together(scop, loops, lambda one: one[0][0], made)


def _downwards(statement: Statement) -> list[_Loop]:
    return [
        (statement.position[: depth + 1], name)
        for depth, name in enumerate(statement.iterators)
        if name in statement.descending
    ]


def _turned(statement: Statement, loops: Collection[_Loop]) -> Statement:
    turned = {one[1] for one in _downwards(statement) if one in loops}
    return replace(statement, descending=statement.descending - turned) if turned else statement
