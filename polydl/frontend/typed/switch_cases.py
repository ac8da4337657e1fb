"""`switch` as choices, where each of its cases runs from its label to a `break`."""

from __future__ import annotations

from collections.abc import Sequence

from pycparser import c_ast

from polydl.base.records import dataclass

_ENDS = c_ast.Return | c_ast.Continue | c_ast.Goto
_MOST = 64
"""Cases: what one falls through to is resolved again for it."""


@dataclass(frozen=True, slots=True)
class Case:
    labels: tuple[c_ast.Node, ...]
    default: bool
    """Whether it is for all other values, too."""
    statements: tuple[c_ast.Node, ...]
    """What runs, those of the cases that it falls through to included, without the `break`."""


def cases_of(node: c_ast.Switch) -> list[Case] | None:
    """The cases of a switch; None where it is more than choices: where a `break` stands within another statement, or
    one case sees what another declares."""
    items = node.stmt.block_items or () if isinstance(node.stmt, c_ast.Compound) else (node.stmt,)
    groups: list[tuple[list[c_ast.Node], bool, list[c_ast.Node], bool]] = []
    labels: list[c_ast.Node] = []
    default = False
    for item in items:
        if not isinstance(item, c_ast.Case | c_ast.Default):
            return None
        default |= isinstance(item, c_ast.Default)
        labels += [item.expr] if isinstance(item, c_ast.Case) else []
        if item.stmts:
            statements, ended = _to_break(item.stmts)
            if any(isinstance(one, c_ast.Decl) or _keeps(one) for one in statements):
                return None
            groups.append((labels, default, statements, ended))
            labels, default = [], False
    if labels or default:
        groups.append((labels, default, [], True))
    if len(groups) > _MOST:
        return None
    found = []
    for number, (names, other, _, _) in enumerate(groups):
        run: list[c_ast.Node] = []
        for _, _, statements, ended in groups[number:]:
            run += statements
            if ended:
                break
        found.append(Case(tuple(names), other, tuple(run)))
    return found


def _to_break(statements: Sequence[c_ast.Node]) -> tuple[list[c_ast.Node], bool]:
    """Statements up to a jump, and whether there is one; a `break` is left out."""
    found: list[c_ast.Node] = []
    for one in statements:
        if isinstance(one, c_ast.Break):
            return found, True
        if isinstance(one, c_ast.Compound):
            inner, ended = _to_break(one.block_items or ())
            if ended:
                return [*found, c_ast.Compound(inner, one.coord)], True
        found.append(one)
        if isinstance(one, _ENDS):
            return found, True
    return found, False


def _keeps(node: c_ast.Node, *, loop: bool = False, switch: bool = False) -> bool:
    """Whether a statement has a `break` or a label of the switch, or what may not be there twice; `loop`, `switch`:
    within a loop or switch of its own."""
    match node:
        case c_ast.Label():
            return True
        case c_ast.Decl() if "static" in node.storage:
            return True
        case c_ast.Case() | c_ast.Default() if not switch:
            return True
        case c_ast.Break():
            return not (loop or switch)
        case c_ast.For() | c_ast.While() | c_ast.DoWhile():
            loop = True
        case c_ast.Switch():
            switch = True
    return any(_keeps(child, loop=loop, switch=switch) for _, child in node.children())
