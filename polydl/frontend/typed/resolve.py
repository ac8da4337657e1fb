"""A parsed file -> its core. pycparser's classes are known to the files that this one imports, and to none behind."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from pycparser import c_ast

from polydl.base.errors import InputError, Span
from polydl.frontend.text.parse import Unit
from polydl.frontend.typed.core_values import ArrayOf, Const, Obj, Origin, Place, Record, Signature, Type, Why
from polydl.frontend.typed.emitter import NotUnderstood, as_block
from polydl.frontend.typed.initialisers import element_of
from polydl.frontend.typed.layout_attributes import LayoutAttributes
from polydl.frontend.typed.nodes import Function, Node, Program
from polydl.frontend.typed.pure_values import convert
from polydl.frontend.typed.resolved_statements import Statements
from polydl.frontend.typed.scopes import Named, Scope
from polydl.model.types import CHAR, I32, I64


class Resolver(Statements):
    """One function, or what stands at file scope."""

    def __init__(self, file: File) -> None:
        super().__init__(file.unit, file.scope, file.numbers, file.spans)
        self._file = file
        self._records, self._attributes = file.records, file.attributes
        self.objects = file.objects
        self.first = file.first

    def static(self, node: c_ast.Decl) -> Obj:
        return self._file.object(self, node, f"{node.name}.{self.fresh()}")

    def text(self, data: bytes, node: c_ast.Node) -> Obj:
        kind = ArrayOf(CHAR, Const(len(data), I64))
        obj = Obj(self.fresh(), "text", kind, Origin.GLOBAL, self.span(node))
        self.objects[f"text.{obj.number}"] = obj
        with self.block() as items:
            for number, byte in enumerate(data):
                value = convert(Const(byte, I32), CHAR, Why.ASSIGN)
                self.assign(element_of(Place(obj, (), kind), number), value, node)
        self.first += items
        return obj


class File:
    """What the functions of a file share."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.scope = Scope()
        self.numbers = count()
        self.spans: dict[tuple[str, int, int], Span] = {}
        self.records: dict[int, Record] = {}
        self.attributes = LayoutAttributes(unit.preprocessed.text)
        self.objects: dict[str, Obj] = {}
        self.first: list[Node] = []
        self.functions: dict[str, Function] = {}
        self.refused: dict[str, Exception] = {}

    def read(self) -> Program:
        self.refused.update(self.unit.unread)
        for external in self.unit.externals:
            resolver = Resolver(self)
            try:
                self._external(resolver, external)
            except (NotUnderstood, InputError) as error:
                if isinstance(external, c_ast.FuncDef):
                    self.refused[external.decl.name] = error
                elif isinstance(external, c_ast.Decl | c_ast.Typedef) and external.name is not None:
                    self.scope.names[external.name] = None  # whoever uses it is not understood
        return Program(self.functions, tuple(self.objects.values()), as_block(self.first), self.refused)

    def _external(self, resolver: Resolver, node: c_ast.Node) -> None:
        match node:
            case c_ast.FuncDef():
                kind = resolver.type_of(node.decl)
                assert isinstance(kind, Signature), "it is a function"
                self.scope.names[node.decl.name] = Named(node.decl.name, kind)
                self.functions[node.decl.name] = resolver.function(node)
            case c_ast.Typedef():
                resolver.typedef(node)
            case c_ast.Decl(name=None):
                resolver.type_of(node)
            case c_ast.Decl():
                kind = resolver.type_of(node)
                if isinstance(kind, Signature):
                    if not isinstance(self.scope.names.get(node.name), Named):
                        self.scope.names[node.name] = Named(node.name, kind)
                else:
                    self.object(resolver, node, node.name)

    def object(self, resolver: Resolver, node: c_ast.Decl, key: str) -> Obj:
        """An object with static storage, and the stores of its first value."""
        kind = resolver.completed(resolver.type_of(node), node.init)
        known = self.objects.get(key)
        obj = Obj(
            resolver.fresh(), node.name, kind, Origin.GLOBAL, resolver.span(node), volatile=resolver.is_volatile(node)
        )
        if known is not None:  # declared before: it is one object
            obj = replace(known, type=_more_complete(known.type, kind))
        self.objects[key] = obj
        resolver.scope.names[node.name] = obj
        if node.init is not None:
            with resolver.block() as items:
                resolver.initialise(Place(obj, (), kind), node.init)
            self.first += items
        return obj


def _more_complete(one: Type, other: Type) -> Type:
    return other if isinstance(one, ArrayOf) and one.count is None else one


def resolve(unit: Unit) -> Program:
    """The core of a file. Functions that have effects without an order, or parameters that are not understood, are in
    `refused`."""
    return File(unit).read()
