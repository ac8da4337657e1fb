"""Statements that are kept as they are written: the same C, with the same values of the loops around."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast
from pycparser.c_generator import CGenerator

from polydl.frontend.core.node_copies import mapped
from polydl.model import isl
from polydl.model.scop import BlackBox, Scop, Statement
from polydl.prove import printed_segments
from polydl.prove.addresses import linear
from polydl.prove.as_plain_c import kept_name
from polydl.prove.integers import Affine, Unreadable, Wrong, affine
from polydl.prove.printed_program import Hint, Printed
from polydl.prove.symbolic_values import Kept
from polydl.prove.syntax import check_bounded, line_of, loop_start, loop_step, names_in
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
    shown = _shown(items)
    original = walk.parsed.functions.get(kept_name(body.text))
    if original is None:
        raise Unreadable(f"line {line_of(block)}: {statement.name} cannot be read")
    if shown != _shown(original.body.block_items or []):
        raise Unreadable(f"line {line_of(block)}: {statement.name} is printed in another way")
    walk.add(at, "kept", "=", Kept(tuple(sorted(values.items()))), None, hint, block)


def _shown(items: list[Any]) -> str:
    """C of statements, without those that only fetch rows ahead and integers that these alone mention."""
    items = [_essential(one) for one in items]
    used = {name for item in items for name in names_in(item)}
    left = _essential(c_ast.Compound([one for one in items if not _is_unused(one, used)]))
    return str(CGenerator().visit(left))


def _is_unused(item: Any, used: set[str]) -> bool:
    """Whether it declares an integer that nothing mentions."""
    return isinstance(item, c_ast.Decl) and "const" in item.quals and item.name not in used and not _acts(item.init)


def _essential(node: Any) -> Any:
    """Without what only fetches; a block of one statement as that statement."""
    made = mapped(node, _essential)
    if not isinstance(made, c_ast.Compound):
        return made
    items = [one for one in made.block_items or [] if not _fetches(one)]
    alone = len(items) == 1 and not isinstance(items[0], c_ast.Decl)
    return items[0] if alone else c_ast.Compound(items, made.coord)


def _fetches(node: Any) -> bool:
    """Whether a statement ends, and does nothing but fetch lines in a loop of its own."""
    match node:
        case c_ast.If(cond=condition, iftrue=inner, iffalse=None):
            return not _acts(condition) and _fetches(inner)
        case c_ast.FuncCall(name=c_ast.ID(name="__builtin_prefetch"), args=given):
            return not _acts(given)
        case c_ast.For(cond=condition, stmt=inner) if _fetches(inner):
            variable, first = loop_start(node)
            check_bounded(_first_of(condition), variable)
            return loop_step(node, variable) > 0 and not (_acts(first) or _acts(condition))
    return False


def _first_of(condition: Any) -> Any:
    """The first of some conditions that all have to hold."""
    return _first_of(condition.left) if isinstance(condition, c_ast.BinaryOp) and condition.op == "&&" else condition


def _acts(node: Any) -> bool:
    """Whether evaluating an expression may change something."""
    if isinstance(node, c_ast.FuncCall | c_ast.Assignment) or (
        isinstance(node, c_ast.UnaryOp) and node.op.strip("p") in ("++", "--")
    ):
        return True
    return node is not None and any(_acts(child) for _, child in node.children())


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
