"""What a walk over printed code knows: where it is, what it found so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from polydl.model.scop import Scop
from polydl.prove.as_plain_c import Parsed
from polydl.prove.integers import WHERE, ZERO, Affine, Unreadable, loop, not_negative, number
from polydl.prove.printed_program import Buffer, ConcurrentLoop, Hint, Pointer, Printed, Program, Row, Team, domain
from polydl.prove.syntax import line_of

MOST_STATEMENTS = 400
"""Printed statements beyond which a proof would take too long."""


@dataclass(slots=True)
class Place:
    """Where the walk is."""

    env: dict[str, Any]
    depth: int = 0
    constraints: list[str] = field(default_factory=list)
    time: tuple[Affine, ...] = ()
    loops: tuple[ConcurrentLoop, ...] = ()
    parts: dict[str, Affine] = field(default_factory=dict)
    """See `Printed.parts`."""
    team: Team | None = None
    """The team of threads that all run this."""
    before: Mapping[str, Any] = field(default_factory=dict)
    """What names meant where the team began."""

    def inside(self) -> Place:
        made = replace(self, env=dict(self.env), constraints=list(self.constraints))
        made.env[WHERE] = made.holds
        return made

    def holds(self, formula: str) -> bool:
        """Whether it holds wherever the walk comes here."""
        return _holds(formula, self.depth, tuple(self.constraints))


@lru_cache(4096)
def _holds(formula: str, depth: int, constraints: tuple[str, ...]) -> bool:
    return domain("", depth, [*constraints, f"(not ({formula}))"]).is_empty()


@dataclass(slots=True)
class Waiting:
    """Pragmas and markers that stand before a statement and hold for it."""

    hints: list[Hint] = field(default_factory=list)
    rows: tuple[Row, ...] = ()
    parts: dict[str, Affine] = field(default_factory=dict)
    """By pointer to a part of an array: the element that it points to."""
    omp: str = ""


@dataclass(slots=True)
class Walk:
    """One walk over a region."""

    scop: Scop
    parsed: Parsed
    strides: Mapping[str, tuple[Affine, ...]]
    """Of the scop's arrays."""
    program: Program = field(default_factory=Program)
    """What was read."""
    steps: int = 0
    """Calls of kernels, copies and rows so far."""
    reserved: int = 0
    """Bytes for the copies of one thread."""
    loops: int = 0
    """Concurrent loops so far."""
    parts: dict[str, str] = field(default_factory=dict)
    """By pointer to a part of an array the array."""
    early: list[tuple[int, tuple[Affine, ...], frozenset[str]]] = field(default_factory=list)
    """What is read before it is used: the number of the next statement, the time of the block, and the arrays."""

    def is_own(self, value: object) -> bool:
        """Whether it is memory of which each thread has its own, or a pointer to it."""
        buffer = self.program.buffers.get(value.base) if isinstance(value, Pointer) else value
        return isinstance(buffer, Buffer) and buffer.own

    def waits(self, at: Place, time: tuple[Affine, ...], item: Any) -> None:
        """The threads of a team wait for each other."""
        where = domain(f"T{len(self.program.waits)}", at.depth, at.constraints)
        number_ = len(self.program.waits)
        made = Printed(number_, at.depth, where, time, at.loops, "wait", "", None, None, None, line_of(item))
        self.program.waits.append(made)

    def add(
        self,
        at: Place,
        kind: str,
        op: str,
        value: Any,
        target: Pointer | None,
        hint: Hint | None,
        item: Any,
        call: int | None = None,
        *,
        lanes: bool = False,
    ) -> Printed:
        """One statement more; `call`: it is part of one, that many places of the time are around it."""
        number_ = len(self.program.statements)
        if number_ >= MOST_STATEMENTS:
            raise Unreadable(f"more than {MOST_STATEMENTS} printed statements")
        where = domain(f"T{number_}", at.depth, at.constraints)
        made = Printed(
            number_, at.depth, where, at.time, at.loops, kind, op, value, target, hint, line_of(item),
            self.steps if call is not None else None, call or 0, lanes, at.parts,
        )  # fmt: skip
        self.program.statements.append(made)
        return made


def count(at: Place, extent: Affine, first: Affine = ZERO) -> Affine:
    """A loop more, inside of a call; `at` is changed."""
    here = loop(at.depth)
    last = first.plus(extent).plus(number(-1))
    at.constraints += [not_negative(here.plus(first, -1)), not_negative(last.plus(here, -1))]
    at.depth += 1
    return here
