"""Statements that are kept as they are written: the same C, with the same values of the loops around."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast
from pycparser.c_generator import CGenerator

from polydl.model import isl
from polydl.model.scop import BlackBox, Scop, Statement
from polydl.prove import printed_segments
from polydl.prove.addresses import linear
from polydl.prove.as_plain_c import kept_name
from polydl.prove.integers import Affine, Unreadable, Wrong, affine
from polydl.prove.printed_program import Hint, Printed
from polydl.prove.symbolic_values import Kept
from polydl.prove.syntax import line_of
from polydl.prove.walk_state import Place, Walk


def kept(walk: Walk, block: Any, statement: Statement, at: Place, hint: Hint) -> None:
    """A block that is a statement's text behind declarations of the integers that it needs. Raises Unreadable."""
    body = statement.body
    assert isinstance(body, BlackBox)
    items = list(block.block_items or [])
    values: dict[str, Affine] = {}
    for text, value in body.locals:
        name = text.rpartition(" ")[2]
        declared = items.pop(0) if items else None
        if not isinstance(declared, c_ast.Decl) or declared.name != name or (declared.init is None) != (value is None):
            raise Unreadable(f"line {line_of(block)}: what {statement.name} is given")
        if declared.init is not None:
            values[name] = affine(declared.init, at.env)
    original = walk.parsed.functions.get(kept_name(body.text))
    if original is None:
        raise Unreadable(f"line {line_of(block)}: {statement.name} cannot be read")
    if _shown(items) != _shown(original.body.block_items or []):
        raise Unreadable(f"line {line_of(block)}: {statement.name} is printed in another way")
    walk.add(at, "kept", "=", Kept(tuple(sorted(values.items()))), None, hint, block)


def _shown(items: list[Any]) -> str:
    return str(CGenerator().visit(c_ast.Compound(items)))


def touching(scop: Scop, printed: Printed, statement: Statement, instances: isl.Map) -> None:
    """Note what a kept statement touches. Raises Wrong where it is given other integers than in the original."""
    body = statement.body
    assert isinstance(body, BlackBox)
    for name, value in printed.value.values:
        if not printed_segments.same_name(scop, printed, body, instances, name, value):
            raise Wrong(f"line {printed.line}: another {name} in {statement.name}")
    printed.touches = tuple(
        (access.array, access.write, instances.apply_range(linear(scop, statement, number)))
        for number, access in enumerate(statement.accesses)
    )
