"""Statements and declarations of C as structured control and effects."""

from __future__ import annotations

from collections.abc import Sequence

from pycparser import c_ast

from polydl.base.errors import Span
from polydl.frontend.text.chunks import DEDUCED
from polydl.frontend.typed.core_values import (
    ArrayOf,
    Obj,
    Origin,
    Place,
    Pointer,
    Read,
    Record,
    Ref,
    Signature,
    Storage,
    Type,
    Value,
    Var,
    Void,
    Why,
)
from polydl.frontend.typed.emitter import NotUnderstood, Touched, as_block
from polydl.frontend.typed.initialisers import Initialisers
from polydl.frontend.typed.kept_text import leaves, names, runs, targets
from polydl.frontend.typed.nodes import (
    Assign,
    Break,
    Continue,
    Declare,
    Function,
    If,
    Loop,
    Node,
    Opaque,
    Return,
    Store,
)
from polydl.frontend.typed.pure_values import ONE, ZERO, arithmetic, bytes_of, chosen, convert, promoted_value
from polydl.frontend.typed.scopes import Facts, Named
from polydl.frontend.typed.switch_cases import cases_of
from polydl.model.types import I32, I64, ElementType


class Statements(Initialisers):
    """Resolves the body of one function."""

    facts: Facts
    returns: Type
    _targets: set[str]
    """Labels that a goto of the function names."""
    objects: dict[str, Obj]
    """With static storage, by name or by a name of their own."""

    def static(self, node: c_ast.Decl) -> Obj:
        """An object of a function that outlives its calls."""
        raise NotImplementedError

    # --- statements

    def statement(self, node: c_ast.Node) -> None:
        """One statement; what is not understood is kept as text."""
        mark = len(self.items)
        self.touched = Touched()
        try:
            self._understood(node)
        except NotUnderstood as error:
            del self.items[mark:]
            self._keep([node], error.why)

    def _understood(self, node: c_ast.Node) -> None:
        match node:
            case c_ast.Compound():
                with self.names():
                    self.statements(node.block_items or ())
            case c_ast.If():
                condition = self.condition(node.cond)
                then, other = self._branch(node.iftrue), self._branch(node.iffalse)
                self.items.append(If(condition, as_block(then), as_block(other), (), self.span(node)))
            case c_ast.For() | c_ast.While() | c_ast.DoWhile():
                self._loop(node)
            case c_ast.Decl() | c_ast.DeclList():
                for one in node.decls if isinstance(node, c_ast.DeclList) else [node]:
                    self.declaration(one)
            case c_ast.Typedef():
                self.typedef(node)
            case c_ast.Return():
                self._return(node)
            case c_ast.Break():
                self.items.append(Break(self.span(node)))
            case c_ast.Continue():
                self.items.append(Continue(self.span(node)))
            case c_ast.Label() if node.name not in self._targets:
                self.statement(node.stmt)
            case c_ast.EmptyStatement() | c_ast.Pragma() | c_ast.StaticAssert():
                pass
            case c_ast.Switch():
                self._switch(node)
            case c_ast.Goto() | c_ast.Label() | c_ast.Case() | c_ast.Default():
                raise NotUnderstood(f"'{type(node).__name__.lower()}'")
            case _:
                self.effects(node)

    def statements(self, items: Sequence[c_ast.Node]) -> None:
        """The statements of a block, in its scope."""
        for first, last in runs(items):
            if first == last:
                self.statement(items[first])
                continue
            for one in items[first : last + 1]:
                self._enter_unread(one)
            self._keep(items[first : last + 1], "'goto'")

    def _branch(self, node: c_ast.Node | None) -> list[Node]:
        with self.block() as items, self.names():
            if node is not None:
                self.statement(node)
        return items

    def _switch(self, node: c_ast.Switch) -> None:
        """Choices, one in the other branch of another."""
        cases = cases_of(node)
        if cases is None:
            raise NotUnderstood("'switch'")
        value = promoted_value(self.value(node.cond), self.span(node))
        value = value if isinstance(value, Read) else self.let(value, node)
        chosen_by: list[tuple[Value, list[Node], Span]] = []
        other: list[Node] = []
        for case in cases:
            condition: Value = ZERO
            for label in case.labels:
                known = convert(self.value(label), value.type, Why.USUAL, self.span(label))
                condition = chosen(condition, ONE, arithmetic("==", value, known, self.span(label)), I32)
            with self.block() as items, self.names():
                self.statements(case.statements)
            if case.default:
                other = items
            else:
                chosen_by.append((condition, items, self.span(case.labels[0])))
        for condition, items, span in reversed(chosen_by):
            other = [If(condition, as_block(items), as_block(other), (), span)]
        self.items += other

    def _loop(self, node: c_ast.For | c_ast.While | c_ast.DoWhile) -> None:
        with self.names():
            if isinstance(node, c_ast.For) and node.init is not None:
                if isinstance(node.init, c_ast.DeclList):
                    self._understood(node.init)
                else:
                    self.effects(node.init)
            with self.block() as test:
                condition = self.condition(node.cond) if node.cond is not None else ONE
            body = self._branch(node.stmt)
            with self.block() as step:
                if isinstance(node, c_ast.For) and node.next is not None:
                    self.touched = Touched()
                    self.effects(node.next)
            bottom = isinstance(node, c_ast.DoWhile)
            blocks = as_block(test, condition), as_block(body), as_block(step)
            self.items.append(Loop(*blocks, bottom, self.span(node)))

    def _return(self, node: c_ast.Return) -> None:
        value: Value | None = None
        if node.expr is not None and isinstance(self.returns, Void):
            self.effects(node.expr)
        elif node.expr is not None:
            value = convert(self.value(node.expr), self.returns, Why.ASSIGN, self.span(node))
        self.items.append(Return(value, self.span(node)))

    # --- text that is kept

    def _keep(self, nodes: Sequence[c_ast.Node], why: str) -> None:
        named: dict[Var | Obj, None] = {}
        for name in (name for node in nodes for name in names(node)):
            found = self.scope.find(name)
            if isinstance(found, Var | Obj):
                named[found] = None
        jumps = any(leaves(node) for node in nodes)
        first, last = (self.unit.places.statement(node) for node in (nodes[0], nodes[-1]))
        text = None
        if first is not None and last is not None:
            text = self.unit.source.text[first[0].offset : last[1].offset + len(last[1].text)]
        self.items.append(Opaque(why, tuple(named), jumps, text, self.span(nodes[0])))

    def _enter_unread(self, node: c_ast.Node) -> None:
        """What text that is kept declares for statements behind it."""
        if isinstance(node, c_ast.Decl) and node.name is not None:
            try:
                self._enter(node, self.type_of(node))
            except NotUnderstood:
                self.scope.names[node.name] = None

    # --- declarations

    def declaration(self, node: c_ast.Decl) -> None:
        """A declaration in a function."""
        if node.name is None:
            self.type_of(node)
            return
        self.scope.names[node.name] = None  # what follows hides an outer one, understood or not
        kind = self._deduced(node) or self.type_of(node)
        if isinstance(kind, Signature):
            self.scope.names[node.name] = Named(node.name, kind)
        elif "extern" in node.storage:
            self.scope.names[node.name] = self.objects.get(node.name) or self._external(node, kind)
        elif "static" in node.storage:
            self.scope.names[node.name] = self.static(node)
        else:
            self._local(node, self.completed(kind, node.init))

    def _deduced(self, node: c_ast.Decl) -> Type | None:
        """The type of what is declared with that of its first value; None of what says its type."""
        plain = node.type.type if isinstance(node.type, c_ast.TypeDecl) else None
        if not isinstance(plain, c_ast.IdentifierType) or plain.names != [DEDUCED] or node.init is None:
            return None
        return self.type_in(c_ast.ExprList([node.init], node.coord))

    def _external(self, node: c_ast.Decl, kind: Type) -> Obj:
        obj = Obj(self.fresh(), node.name, kind, Origin.GLOBAL, self.span(node), volatile=self.is_volatile(node))
        self.objects[node.name] = obj
        return obj

    def _enter(self, node: c_ast.Decl, kind: Type) -> Var | Obj:
        """The variable or object of a local declaration, from here on visible."""
        volatile = self.is_volatile(node)
        span = self.span(node)
        made: Var | Obj
        if isinstance(kind, ArrayOf | Record) or volatile or id(node) in self.facts.addressed:
            bytes_of(kind)
            made = Obj(self.fresh(), node.name, kind, Origin.LOCAL, span, volatile=volatile)
        elif isinstance(kind, Void | Signature):
            raise NotUnderstood("a variable of type void")
        else:
            made = Var(self.fresh(), node.name, kind, Storage.LOCAL, span)
            if id(node) not in self.facts.assigned and node.init is not None:
                self.steady.add(made)
        self.scope.names[node.name] = made
        return made

    def _local(self, node: c_ast.Decl, kind: Type) -> None:
        made = self._enter(node, kind)
        unused = id(node) not in self.facts.used
        if isinstance(made, Obj):
            if unused and node.init is None:
                return
            self.items.append(Declare(made, self.span(node)))
            if node.init is not None:
                self.initialise(Place(made, (), kind, made.volatile), node.init)
        elif node.init is not None:
            init = node.init
            while isinstance(init, c_ast.InitList) and len(init.exprs) == 1:
                init = init.exprs[0]
            value = convert(self.value(init), made.type, Why.ASSIGN, self.span(node))
            self.items.append(Assign(made, value, self.span(node)))
        elif not unused:
            self.items.append(Declare(made, self.span(node)))

    def compound_literal(self, node: c_ast.CompoundLiteral) -> Obj:
        kind = self.completed(self.type_of(node.type), node.init)
        obj = Obj(self.fresh(), "literal", kind, Origin.LOCAL, self.span(node))
        self.items.append(Declare(obj, self.span(node)))
        self.initialise(Place(obj, (), kind), node.init)
        return obj

    # --- functions

    def function(self, node: c_ast.FuncDef) -> Function:
        """A whole function. Raises NotUnderstood for one whose parameters are not, InputError."""
        assert isinstance(node.decl.type, c_ast.FuncDecl), "the parser has checked it"
        self.facts = Facts(node)
        self._targets = targets(node.body)
        self.returns = self.type_of(node.decl.type.type)
        span = self.span(node)
        with self.names(), self.block() as items:
            given = tuple(self._parameter(one) for one in self.parameters(node.decl.type))
            self.statements(node.body.block_items or ())
        return Function(node.decl.name, given, self.returns, as_block(items), span)

    def _parameter(self, node: c_ast.Node) -> Var | Ref:
        kind = self.adjusted(node)
        span = self.span(node)
        if not isinstance(node, c_ast.Decl) or node.name is None:
            return self._given(kind, "", node)
        given = self._given(kind, node.name, node)
        whole = node.type
        addressed = id(node) in self.facts.addressed or (isinstance(whole, c_ast.TypeDecl) and self.is_volatile(node))
        if isinstance(given, Ref) or addressed:
            obj = Obj(self.fresh(), node.name, kind, Origin.LOCAL, span, volatile=self.is_volatile(node))
            value = Read(given) if isinstance(given, Var) else given
            self.items += [Declare(obj, span), Store(Place(obj, (), kind, obj.volatile), value, span)]
            self.scope.names[node.name] = obj
            return given
        self.scope.names[node.name] = given
        if id(node) not in self.facts.assigned:
            self.steady.add(given)
            if isinstance(kind, Pointer) and not isinstance(kind.target, Void | Signature):
                self.scope.names[node.name] = Obj(
                    self.fresh(), node.name, kind.target, Origin.POINTEE, span, kind.restrict, given,
                    self._rows(whole), kind.volatile,
                )  # fmt: skip
        return given

    def _given(self, kind: Type, name: str, node: c_ast.Node) -> Var | Ref:
        if isinstance(kind, Record):
            bytes_of(kind)
            return Ref(self.fresh(), kind)
        if isinstance(kind, ArrayOf | Signature | Void):
            raise NotUnderstood(f"a parameter of type '{kind}'")
        return Var(self.fresh(), name, kind, Storage.PARAMETER, self.span(node))

    def _rows(self, node: c_ast.Node) -> Value | None:
        """The first dimension of a parameter, which C does not need: None where it has effects, too."""
        if not isinstance(node, c_ast.ArrayDecl) or node.dim is None:
            return None
        try:
            items, value, _ = self.branch(lambda: self.value(node.dim or node))
        except NotUnderstood:
            return None
        if items or not isinstance(value.type, ElementType) or not value.type.is_int:
            return None
        return self.kept(convert(value, I64, Why.USUAL), node)
