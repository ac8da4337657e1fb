"""What a run of C can end in, besides a value."""

from __future__ import annotations

from pycparser import c_ast

from polydl.base.errors import Span


def place_of(node: c_ast.Node | None) -> Span:
    """Where a node stands in its source file; line 0 where the parser does not say."""
    coord = getattr(node, "coord", None)
    if coord is None:
        return Span("?", 0, 0)
    return Span(coord.file, coord.line, coord.column or 0)


class Verdict(Exception):
    """A run that gave no value."""

    def __init__(self, message: str, place: Span) -> None:
        super().__init__(message)
        self.message = message
        self.place = place

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class Undefined(Verdict):
    """C says nothing of what the program does with this input."""

    def __init__(self, kind: str, message: str, place: Span) -> None:
        super().__init__(message, place)
        self.kind = kind
        """One of overflow, shift, division, conversion, bounds, alignment, null, pointer, uninitialised, lifetime,
        unsequenced, argument, return, constant, assertion, abort."""


class StepLimit(Verdict):
    """The run took more steps than it was given."""


class Unsupported(Verdict):
    """The program uses what the interpreter does not know."""

    @property
    def reason(self) -> str:
        return self.message
