"""Names of their own for variables of a region, where C lets one name mean several things: what follows knows names
alone.

    for (…) { float t = …; }  for (…) { double t = …; }          the second one is `t_2`
    for (int i = …) for (int i = 0; …)                           so is the inner `i`

What may keep its name does: the first one of several types, and what is declared outside of the region's blocks, which
others may see behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import field

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.records import dataclass
from polydl.frontend.core.node_copies import mapped
from polydl.frontend.core.tree_parts import text_of
from polydl.frontend.meaning.liveness import assigned_names
from polydl.frontend.meaning.symbols import Scope, mentions, nodes
from polydl.model.scop import Storage


def alpha_renamed(items: Sequence[Node], scope: Scope, kept: Collection[str]) -> list[Node]:
    """Statements in which no variable that they declare hides another one or has the name of one of another type.
    `scope`: names visible in front of them; `kept`: names that stay as they are."""
    declared = _Declared(scope)
    for item in items:
        declared.visit(item)
    renamed = dict[int, str]()
    used = {str(name) for item in items for node in nodes(item) for name in _names(node)}
    for variable in declared.conflicts(items):
        name = variable.node.name
        if name not in kept:
            renamed |= dict.fromkeys((id(variable.node), *variable.uses), _free(name, used, scope))
    return [_Renaming(renamed)(item) for item in items] if renamed else list(items)


@dataclass(slots=True)
class _Variable:
    """A variable that statements declare."""

    node: c_ast.Decl
    in_head: bool
    """It is declared in the head of a loop."""
    outermost: bool
    hides: bool
    """It hides another variable of the statements, or the counter of a loop around."""
    uses: list[int] = field(default_factory=list)
    """Of nodes that mean it."""

    @property
    def type(self) -> str:
        node = self.node
        return text_of(c_ast.Decl(node.name, node.quals, [], [], [], node.type, None, None))


class _Declared:
    """The variables that statements declare, and what uses them."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._visible: list[dict[str, _Variable]] = [{}]
        self._counting: list[str] = []
        """Counters of the loops around that were declared before."""
        self._outside: set[str] = set()
        """Names that mean something from outside."""
        self._found: list[_Variable] = []

    def visit(self, node: Node) -> None:
        match node:
            case c_ast.Compound():
                self._within(node)
            case c_ast.For():
                before = len(self._counting)
                if isinstance(node.init, c_ast.Assignment | c_ast.ExprList):
                    self._counting += assigned_names(node.init)
                self._within(node)
                del self._counting[before:]
            case c_ast.DeclList(decls=decls):
                for decl in decls:
                    self._declare(decl, in_head=True)
            case c_ast.Decl():
                self._declare(node, in_head=False)
            case c_ast.ID(name=name):
                found = next((one[name] for one in reversed(self._visible) if name in one), None)
                if found is None:
                    self._outside.add(name)
                else:
                    found.uses.append(id(node))
            case c_ast.Struct() | c_ast.Union() | c_ast.FuncDecl():
                pass  # what these declare is no variable
            case c_ast.StructRef(name=base):
                self.visit(base)
            case c_ast.NamedInitializer(expr=value):
                self.visit(value)
            case _:
                for child in node:
                    self.visit(child)

    def _within(self, node: Node) -> None:
        self._visible.append({})
        for child in node:
            self.visit(child)
        self._visible.pop()

    def _declare(self, node: c_ast.Decl, *, in_head: bool) -> None:
        self.visit(node.type)
        if node.name is not None and not node.storage and not isinstance(node.type, c_ast.FuncDecl):
            around = any(node.name in one for one in self._visible) or node.name in self._counting
            variable = _Variable(node, in_head, len(self._visible) == 1, around)
            self._visible[-1][node.name] = variable
            self._found.append(variable)
        if node.init is not None:
            self.visit(node.init)

    def conflicts(self, items: Sequence[Node]) -> Iterator[_Variable]:
        """The variables that need another name."""
        symbols = {name: symbol for name in self._outside if (symbol := self._scope.find(name)) is not None}
        counters = {
            name
            for name in {name for item in items for name in assigned_names(item)}
            if (symbol := symbols.get(name)) is not None and symbol.is_integer and symbol.storage is Storage.LOCAL
        }
        extents = {name for symbol in symbols.values() for level in symbol.levels if level.extent is not None
                   for name in mentions(level.extent)}  # fmt: skip
        types = dict[str, str]()
        for variable in sorted(self._found, key=lambda one: not one.outermost):
            name = variable.node.name
            symbol = self._scope.find(name)
            hidden = symbol is not None and not symbol.is_function
            if variable.in_head:
                other = hidden and name in (self._outside - counters) | extents
            else:
                other = hidden or types.setdefault(name, variable.type) != variable.type
            if not variable.outermost and (variable.hides or other):
                yield variable


def _names(node: Node) -> Iterator[str]:
    if isinstance(node, c_ast.ID | c_ast.Decl) and node.name is not None:
        yield node.name


def _free(name: str, used: set[str], scope: Scope) -> str:
    number = 2
    while (found := f"{name}_{number}") in used or scope.find(found) is not None or scope.find_typedef(found):
        number += 1
    used.add(found)
    return found


@dataclass(frozen=True, slots=True)
class _Renaming:
    """Copies a tree with other names for some nodes."""

    renamed: dict[int, str]
    """By node: the new name."""

    def __call__(self, node: Node) -> Node:
        name = self.renamed.get(id(node))
        made = mapped(node, self)
        if name is not None and isinstance(made, c_ast.Decl | c_ast.ID):
            made.name = name
            if isinstance(made, c_ast.Decl):
                next(one for one in nodes(made.type) if isinstance(one, c_ast.TypeDecl)).declname = name
        return made
