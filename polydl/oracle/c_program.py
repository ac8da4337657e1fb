"""A C program as it was parsed: its functions and objects with their types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from pycparser import c_ast

from polydl.base.records import dataclass
from polydl.oracle.c_text import parsed
from polydl.oracle.c_types import CType, Function, Record
from polydl.oracle.c_values import Named, Scope, Variable
from polydl.oracle.c_vectors import Vectors
from polydl.oracle.c_verdicts import Unsupported, place_of


@dataclass(frozen=True, slots=True)
class CFunction:
    """A function that the program defines."""

    name: str
    parameters: tuple[tuple[str, CType], ...]
    """Names and types; arrays are pointers. Sizes that are not constant are C's text."""
    returns: CType
    node: c_ast.FuncDef


@dataclass(frozen=True, slots=True)
class CGlobal:
    """An object with static storage."""

    name: str
    type: CType
    """An array without a size grows to where it is touched."""
    node: c_ast.Decl
    external: bool
    """The program only declares it."""


@dataclass(eq=False, slots=True)
class CProgram:
    """Everything at the outermost level of a file."""

    functions: Mapping[str, CFunction]
    globals: Mapping[str, CGlobal]
    scope: Scope
    records: dict[int, Record]
    unknown: Mapping[str, Unsupported]
    """Functions that cannot be parsed or declared, and why."""
    nodes: list[c_ast.Node] = field(default_factory=list)
    refused: list[Unsupported] = field(default_factory=list)
    kinds: dict[int, CType] = field(default_factory=dict)
    makers: dict[tuple[str, str, bool], Any] = field(default_factory=dict)
    """What makes translated functions and initialisers, by kind, name and whether they are traced."""


class Translator(Vectors):
    """Translates within a program."""

    def __init__(self, program: CProgram, scope: Scope, *, traced: bool = False) -> None:
        super().__init__(scope, program.nodes, traced)
        self.program = program

    def defined(self, name: str) -> bool:
        return name in self.program.functions or name in self.program.unknown

    @property
    def records(self) -> dict[int, Record]:
        return self.program.records

    @property
    def kinds(self) -> dict[int, CType]:
        return self.program.kinds

    @property
    def refused(self) -> list[Unsupported]:
        return self.program.refused

    def static(self, node: c_ast.Decl, kind: CType) -> None:
        """An object of a function that outlives its calls."""
        key = f"{node.name}.{node.coord}"
        self.program.globals = {**self.program.globals, key: CGlobal(key, kind, node, external=False)}
        code = f"{self.fresh('g')}_static"
        self.scope.names[node.name] = Variable(node.name, kind, code, in_memory=True, link=f"E.object({key!r})")

    def external(self, node: c_ast.Decl, kind: CType) -> None:
        found = self.program.globals.get(node.name)
        if found is None:
            self.program.globals = {**self.program.globals, node.name: CGlobal(node.name, kind, node, external=True)}
        self.scope.names[node.name] = global_variable(node.name, found.type if found else kind)


def global_variable(name: str, kind: CType) -> Variable:
    return Variable(name, kind, f"g_{name}", in_memory=True, link=f"E.object({name!r})")


def parse(text: str) -> CProgram:
    """A program from what `cc -E` prints; line markers say where things are.

    Raises Unsupported for what is no C here; functions with a body that is not understood are refused when called.
    """
    tree, unknown = parsed(text)
    scope = Scope()
    program = CProgram({}, {}, scope, {}, unknown)
    translator = Translator(program, scope)
    translator.prepare(tree)
    functions: dict[str, CFunction] = {}
    globals_: dict[str, CGlobal] = {}
    refused: dict[str, Unsupported] = dict(unknown)
    for one in tree.ext:
        translator.signature = True
        if isinstance(one, c_ast.FuncDef):
            try:
                _define(one, translator, functions)
            except Unsupported as error:
                refused[one.decl.name] = error
        elif isinstance(one, c_ast.Decl | c_ast.Typedef) and one.name is not None:
            try:
                _declare(one, translator, globals_)
            except Unsupported as error:
                scope.names.pop(one.name, None)  # whoever uses it is refused
                refused.setdefault(one.name, error)
        elif isinstance(one, c_ast.Decl):
            translator.type_of(one)
    program.functions, program.globals, program.unknown = functions, globals_, refused
    return program


def _define(node: c_ast.FuncDef, translator: Translator, functions: dict[str, CFunction]) -> None:
    kind = translator.type_of(node.decl)
    if not isinstance(kind, Function):
        raise Unsupported("a function of a type that is a name", place_of(node))
    translator.scope.names[node.decl.name] = Named(node.decl.name, kind)
    if node.param_decls:
        raise Unsupported("a definition in the style of K&R", place_of(node))
    names = [name for name, _ in translator.parameters(node.decl.type)]
    functions[node.decl.name] = CFunction(
        node.decl.name, tuple(zip(names, kind.parameters, strict=True)), kind.returns, node
    )


def _declare(node: c_ast.Decl | c_ast.Typedef, translator: Translator, found: dict[str, CGlobal]) -> None:
    kind = translator.type_of(node)
    names = translator.scope.names
    if isinstance(node, c_ast.Typedef):
        names[node.name] = kind
    elif isinstance(kind, Function):
        if not isinstance(names.get(node.name), Named):
            names[node.name] = Named(node.name, kind)
    else:
        before = found.get(node.name)
        if before is not None and node.init is None and not before.external:
            return
        kind = translator.completed(kind, node.init)
        external = "extern" in node.storage and node.init is None
        found[node.name] = CGlobal(node.name, kind, node, external)
        names[node.name] = global_variable(node.name, kind)
