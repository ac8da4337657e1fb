"""Names of C: what each means where it stands, and what a function does to its variables."""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from pycparser import c_ast

from polydl.base.records import dataclass
from polydl.frontend.typed.core_values import Const, Obj, Record, Signature, Type, Var
from polydl.model.types import ElementType


@dataclass(frozen=True, slots=True)
class Typedef:
    type: Type
    volatile: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """A function."""

    name: str
    type: Signature


Symbol: TypeAlias = Var | Obj | Typedef | Named | Const | None
"""A Const is an enumeration constant; None is what is declared and not understood."""


@dataclass(slots=True)
class Scope:
    """The names of a block; those around it are its `parent`'s."""

    parent: Scope | None = None
    names: dict[str, Symbol] = field(default_factory=dict)
    tags: dict[str, Record | ElementType] = field(default_factory=dict)
    """An ElementType is that of an enumeration."""

    def find(self, name: str) -> Symbol:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def tag(self, name: str) -> Record | ElementType | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.tags:
                return scope.tags[name]
            scope = scope.parent
        return None


class Facts:
    """What a function does to each variable that it declares: the variables by the identity of their Decl.

    Its scopes are C's: a name stands for the innermost declaration in front of it.
    """

    def __init__(self, function: c_ast.FuncDef) -> None:
        self.used: set[int] = set()
        """Named anywhere, but in their own declaration."""
        self.assigned: set[int] = set()
        """Given a value by something else than their declaration."""
        self.addressed: set[int] = set()
        self._scopes: list[dict[str, int | None]] = [{}]
        """Names, with the Decl of a variable; None of anything else."""
        kind = function.decl.type
        assert isinstance(kind, c_ast.FuncDecl), "the parser has checked it"
        for parameter in kind.args.params if kind.args is not None else ():
            self._walk(parameter)
        self._walk(function.body)

    def _walk(self, node: c_ast.Node) -> None:
        match node:
            case c_ast.Compound() | c_ast.For():
                self._in_scope(node)
            case c_ast.FuncDecl():
                self._in_scope(node)  # names of parameters mean nothing outside of it
            case c_ast.Decl() | c_ast.Typedef():
                self._declare(node)
            case c_ast.Struct() | c_ast.Union():
                for member in node.decls or ():
                    self._walk(member.type if isinstance(member, c_ast.Decl) else member)
            case c_ast.Enumerator():
                self._scopes[-1][node.name] = None
            case c_ast.ID():
                self._note(node, self.used)
            case c_ast.StructRef():
                self._walk(node.name)
            case c_ast.NamedInitializer():
                self._walk(node.expr)
            case _:
                self._expression(node)

    def _declare(self, node: c_ast.Decl | c_ast.Typedef) -> None:
        self._walk(node.type)
        if node.name is not None:
            variable = isinstance(node, c_ast.Decl) and not isinstance(node.type, c_ast.FuncDecl)
            self._scopes[-1][node.name] = id(node) if variable else None
        if isinstance(node, c_ast.Decl) and node.init is not None:
            self._walk(node.init)

    def _expression(self, node: c_ast.Node) -> None:
        if isinstance(node, c_ast.Assignment):
            self._note(node.lvalue, self.assigned)
        elif isinstance(node, c_ast.UnaryOp) and node.op in ("++", "--", "p++", "p--"):
            self._note(node.expr, self.assigned)
        elif isinstance(node, c_ast.UnaryOp) and node.op == "&":
            self._note(node.expr, self.addressed)
        for _, child in node.children():
            self._walk(child)

    def _in_scope(self, node: c_ast.Node) -> None:
        self._scopes.append({})
        for _, child in node.children():
            self._walk(child)
        self._scopes.pop()

    def _note(self, node: c_ast.Node, where: set[int]) -> None:
        if isinstance(node, c_ast.ID):
            found = next((scope[node.name] for scope in reversed(self._scopes) if node.name in scope), None)
            if found is not None:
                where.add(found)
