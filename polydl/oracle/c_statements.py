"""Statements of C as Python's, and whole functions.

`while`, `break` and what else Python has too stays what it is: loops are `while True`, a `switch` is a loop that runs
once, and `continue` does what its loop does between two iterations first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pycparser import c_ast

from polydl.oracle.c_initialisers import Initialisers
from polydl.oracle.c_types import (
    CType,
    Function,
    Integer,
    PointerTo,
    Vector,
    Void,
    is_scalar,
    promoted,
)
from polydl.oracle.c_values import NO_EFFECTS, Named, Place, Value, Variable
from polydl.oracle.c_verdicts import Unsupported, place_of


@dataclass(slots=True)
class _Round:
    """A loop or switch that is being translated."""

    switch: bool
    between: list[str] = field(default_factory=list)
    """Lines between two iterations, from the margin."""
    continued: str = ""
    """In a switch: the name that says that the loop around goes on; empty until one is needed."""


class _Names:
    """Names whose address is taken, and that are subscripted; what has neither may be kept by Python."""

    def __init__(self, node: c_ast.Node | None = None) -> None:
        self.addressed: set[str] = set()
        self.subscripted: set[str] = set()
        waiting = [] if node is None else [node]
        while waiting:
            one = waiting.pop()
            waiting += [child for _, child in one.children()]
            if isinstance(one, c_ast.UnaryOp) and one.op == "&":
                inner = one.expr
                while isinstance(inner, c_ast.ArrayRef | c_ast.StructRef):
                    inner = inner.name
                if isinstance(inner, c_ast.ID):
                    self.addressed.add(inner.name)
            elif isinstance(one, c_ast.ArrayRef) and isinstance(one.name, c_ast.ID):
                self.subscripted.add(one.name.name)


class Statements(Initialisers):
    """What statements are translated to."""

    returns: CType = Void()
    names = _Names()

    def prepare(self, node: c_ast.Node) -> None:
        self._rounds: list[_Round] = []
        self._automatic: list[str] = []
        self.names = _Names(node)

    def statement(self, node: c_ast.Node | None) -> None:
        """A statement or declaration. What is not known here is refused when it is reached."""
        if node is None:
            return
        method = getattr(self, f"_do_{type(node).__name__}", None)
        lines, indent, rounds, scope = len(self.lines), self._indent, len(self._rounds), self.scope
        try:
            if method is not None:
                method(node)
            else:
                self.discard(node)
        except Unsupported as error:
            del self.lines[lines:]
            del self._rounds[rounds:]
            self._indent, self.scope = indent, scope
            place = error.place if error.place.line else place_of(node)
            self.refused.append(Unsupported(error.reason, place))
            self.emit(f"refused({len(self.refused) - 1}, X)")

    @property
    def refused(self) -> list[Unsupported]:
        """What is raised where the program reaches it."""
        raise NotImplementedError

    def discard(self, node: c_ast.Node) -> None:
        """An expression for its effects."""
        if self.traced and not isinstance(node, c_ast.Constant):
            self.emit(f"T.statement({self.at(node)})")
        if isinstance(node, c_ast.FuncCall):
            self.called(node, used=False)
        elif isinstance(node, c_ast.Cast) and isinstance(node.expr, c_ast.ID):
            return  # `(void)x`
        else:
            self.value(node)

    # Declarations.

    def _do_Decl(self, node: c_ast.Decl) -> None:  # noqa: N802
        if isinstance(node.type, c_ast.FuncDecl):
            kind = self.type_of(node.type)
            assert isinstance(kind, Function)
            self.scope.names[node.name] = Named(node.name, kind)
            return
        if isinstance(node.type, c_ast.TypeDecl) and isinstance(node.type.type, c_ast.InferredType):
            assert node.init is not None
            kind = self.type_of_value(node.init)
        else:
            kind = self.type_of(node)
        if node.name is None:
            return
        if "static" in node.storage:
            self.static(node, self.completed(kind, node.init))
        elif "extern" in node.storage:
            self.external(node, kind)
        else:
            self._local(node, kind)

    def static(self, node: c_ast.Decl, kind: CType) -> None:
        raise NotImplementedError

    def external(self, node: c_ast.Decl, kind: CType) -> None:
        raise NotImplementedError

    def kept(self, name: str, kind: CType) -> bool:
        """Whether Python may keep a variable."""
        if self.traced or name in self.names.addressed:
            return False
        return is_scalar(kind) or (isinstance(kind, Vector) and name not in self.names.subscripted)

    def _local(self, node: c_ast.Decl, kind: CType) -> None:
        kind = self.completed(kind, node.init)
        code = f"{self.fresh('v')}_{node.name if node.name.isascii() and '$' not in node.name else ''}"
        variable = Variable(node.name, kind, code, not self.kept(node.name, kind), checked=node.init is None)
        if not variable.in_memory:
            # An initialiser sees the new name, as in `int i = i`.
            self.scope.names[node.name] = variable
            if node.init is None or self._sees(node.init, node.name):
                variable.checked = True
                self.emit(f"{code}{'o' if isinstance(kind, PointerTo) else ''} = None")
            if node.init is not None:
                self.keep(variable, self.first_value(kind, node.init))
                if self._in_switch():
                    variable.checked = True
                    self._early.append(f"{code}{'o' if isinstance(kind, PointerTo) else ''}")
            return
        size = self.bytes_of(kind)
        self._automatic.append(code)
        zeros = node.init is not None and self.by_list(node.init)
        self.emit(f"{code} = renewed({code}, M, {node.name!r}, {size}, {0 if zeros else None})")
        self.scope.names[node.name] = variable
        if node.init is not None:
            self.initialise(Place(kind, node, obj=code), node.init)

    def _in_switch(self) -> bool:
        return bool(self._rounds) and self._rounds[-1].switch

    def _sees(self, node: c_ast.Node, name: str) -> bool:
        if isinstance(node, c_ast.ID):
            return bool(node.name == name)
        return any(self._sees(child, name) for _, child in node.children())

    _early: list[str]

    def _do_Typedef(self, node: c_ast.Typedef) -> None:  # noqa: N802
        self.scope.names[node.name] = self.type_of(node)

    def _do_DeclList(self, node: c_ast.DeclList) -> None:  # noqa: N802
        for one in node.decls:
            self.statement(one)

    def _do_StaticAssert(self, node: c_ast.StaticAssert) -> None:  # noqa: N802
        if not self.constant(node.cond):
            raise self.refuse("a static assertion that does not hold", node)

    def _do_Pragma(self, node: c_ast.Pragma) -> None:  # noqa: N802
        return

    def _do_EmptyStatement(self, node: c_ast.EmptyStatement) -> None:  # noqa: N802
        return

    def _do_AttributeDeclaration(self, node: c_ast.AttributeDeclaration) -> None:  # noqa: N802
        return

    def _do_AttributedStatement(self, node: c_ast.AttributedStatement) -> None:  # noqa: N802
        self.statement(node.stmt)

    # Control.

    def _do_Compound(self, node: c_ast.Compound) -> None:  # noqa: N802
        with self.inner_scope():
            for one in node.block_items or ():
                self.statement(one)

    def block_value(self, node: c_ast.Compound) -> Value:
        items = list(node.block_items or ())
        with self.inner_scope():
            for one in items[:-1]:
                self.statement(one)
            if not items or isinstance(items[-1], c_ast.Decl | c_ast.For | c_ast.While | c_ast.If | c_ast.Pragma):
                self.statement(items[-1] if items else None)
                return self.nothing()
            value = self.value(items[-1])
            if isinstance(value.type, Void):
                return self.nothing()
            return self._apart(value).after(NO_EFFECTS)

    def _condition(self, node: c_ast.Node) -> str:
        return self.truth(self.value(node))

    def _do_If(self, node: c_ast.If) -> None:  # noqa: N802
        with self.block(f"if {self._condition(node.cond)}:"):
            self.statement(node.iftrue)
        if node.iffalse is not None:
            with self.block("else:"):
                self.statement(node.iffalse)

    def _step(self, node: c_ast.Node, body: c_ast.Node | None) -> None:
        """Count an iteration: its statements, both branches of an `if`."""
        self.emit(f"S[0] -= {1 + weight(body)}")
        self.emit(f"if S[0] < 0: out_of_steps({self.at(node)})")

    def _apart_lines(self, write: list[c_ast.Node | None]) -> list[str]:
        """Lines for expressions, from the margin."""
        kept, indent = self.lines, self._indent
        self.lines, self._indent = [], 0
        for one in write:
            if one is not None:
                self.discard(one)
        found, self.lines, self._indent = self.lines, kept, indent
        return found

    def _again(self, lines: list[str]) -> None:
        for line in lines:
            self.emit(line)

    def _do_For(self, node: c_ast.For) -> None:  # noqa: N802
        with self.inner_scope():
            if node.init is not None:
                self.statement(node.init)
            with self.block("while True:"):
                self._step(node, node.stmt)
                if node.cond is not None:
                    self.emit(f"if not ({self._condition(node.cond)}): break")
                around = _Round(False, self._apart_lines([node.next]))
                self._rounds.append(around)
                self.statement(node.stmt)
                self._rounds.pop()
                self._again(around.between)

    def _do_While(self, node: c_ast.While) -> None:  # noqa: N802
        with self.block("while True:"):
            self._step(node, node.stmt)
            self.emit(f"if not ({self._condition(node.cond)}): break")
            self._rounds.append(_Round(False))
            self.statement(node.stmt)
            self._rounds.pop()

    def _do_DoWhile(self, node: c_ast.DoWhile) -> None:  # noqa: N802
        kept, indent = self.lines, self._indent
        self.lines, self._indent = [], 0
        self.emit(f"if not ({self._condition(node.cond)}): break")
        between, self.lines, self._indent = self.lines, kept, indent
        with self.block("while True:"):
            self._step(node, node.stmt)
            self._rounds.append(_Round(False, between))
            self.statement(node.stmt)
            self._rounds.pop()
            self._again(between)

    def _do_Break(self, node: c_ast.Break) -> None:  # noqa: N802
        self.emit("break")

    def _do_Continue(self, node: c_ast.Continue) -> None:  # noqa: N802
        inner = self._rounds[-1]
        if inner.switch:
            inner.continued = inner.continued or self.fresh("c")
            self.emit(f"{inner.continued} = True")
            self.emit("break")
        else:
            self._again(inner.between)
            self.emit("continue")

    def _do_Return(self, node: c_ast.Return) -> None:  # noqa: N802
        if node.expr is None:
            self.emit("return None")
            return
        value = self.value(node.expr)
        if isinstance(self.returns, Void):
            self.emit("return None")
        else:
            self.emit(f"return {self.single(self.convert(value, self.returns, node))}")

    def _do_Switch(self, node: c_ast.Switch) -> None:  # noqa: N802
        value = self.value(node.cond)
        if not isinstance(value.type, Integer):
            raise self.refuse(f"a switch of type '{value.type}'", node)
        kind = promoted(value.type)
        items = (node.stmt.block_items or []) if isinstance(node.stmt, c_ast.Compound) else [node.stmt]
        labels = [item for item in items if isinstance(item, c_ast.Case | c_ast.Default)]
        chosen, code = self.fresh(), self.atom(self.convert(value, kind, node).code)
        numbers = {
            kind.wrapped(self.constant(label.expr)): number
            for number, label in enumerate(labels)
            if isinstance(label, c_ast.Case)
        }
        default = next((n for n, label in enumerate(labels) if isinstance(label, c_ast.Default)), len(labels))
        self.emit(f"{chosen} = {numbers!r}.get({code}, {default})")
        before = len(self.lines)
        early, self._early = self._early, []
        around = _Round(True)
        self._rounds.append(around)
        with self.inner_scope(), self.block("while True:"):
            for item in items:
                if isinstance(item, c_ast.Case | c_ast.Default):
                    with self.block(f"if {chosen} <= {labels.index(item)}:"):
                        for one in item.stmts or ():
                            self.statement(one)
                elif isinstance(item, c_ast.Decl):  # never executed, but in scope
                    item_init, item.init = item.init, None
                    self.statement(item)
                    item.init = item_init
            self.emit("break")
        self._rounds.pop()
        for name in self._early:
            self.lines.insert(before, "    " * self._indent + f"{name} = None")
        self._early = early
        if around.continued:
            self.lines.insert(before, "    " * self._indent + f"{around.continued} = False")
            with self.block(f"if {around.continued}:"):
                self._do_Continue(c_ast.Continue(node.coord))

    def _do_Goto(self, node: c_ast.Goto) -> None:  # noqa: N802
        raise self.refuse("goto", node)

    def _do_Label(self, node: c_ast.Label) -> None:  # noqa: N802
        self.statement(node.stmt)

    def _do_Case(self, node: c_ast.Case) -> None:  # noqa: N802
        raise self.refuse("a case within a statement of its switch", node)

    # Functions.

    def parameters(self, node: c_ast.Node) -> list[tuple[str, c_ast.Node]]:
        """Names and declarations of a definition's parameters."""
        found: list[tuple[str, c_ast.Node]] = []
        assert isinstance(node, c_ast.FuncDecl)
        for one in node.args.params if node.args is not None else ():
            if isinstance(one, c_ast.EllipsisParam | c_ast.ID):
                raise self.refuse("a function with `...` or without types of parameters", one)
            if isinstance(one, c_ast.Decl) and one.name is not None:
                found.append((one.name, one))
            elif not isinstance(self.adjusted(one), Void):
                found.append((f"unnamed{len(found)}", one))
        return found

    def function(self, node: c_ast.FuncDef) -> None:
        """The Python function of a definition, called `f`."""
        self.prepare(node.body)
        self._early = []
        named = self.parameters(node.decl.type)
        codes = [f"p{number}" for number in range(len(named))]
        with self.inner_scope(), self.block(f"def f({', '.join(codes)}):"):
            start = len(self.lines)
            self.emit(f"S[0] -= {1 + weight(node.body)}")
            self.emit(f"if S[0] < 0: out_of_steps({self.at(node)})")
            for code, (name, one) in zip(codes, named, strict=True):
                self._parameter(name, self.adjusted(one), code, one)
            with_ends = len(self.lines)
            for one in node.body.block_items or ():
                self.statement(one)
            if self._automatic:
                self._guarded(start, with_ends)

    def _guarded(self, start: int, body: int) -> None:
        """End the lives of automatic objects when the function is left."""
        margin = "    " * self._indent
        names = ", ".join(dict.fromkeys(self._automatic))
        inside = ["    " + line for line in self.lines[start:]] or [margin + "    pass"]
        first = margin + " = ".join([*dict.fromkeys(self._automatic), "None"])
        self.lines[start:] = [first, margin + "try:", *inside, margin + f"finally: ended({names})"]

    def _parameter(self, name: str, kind: CType, code: str, node: c_ast.Node) -> None:
        variable = Variable(name, kind, f"{code}_", not self.kept(name, kind))
        self.scope.names[name] = variable
        value = Value(kind, code)
        if isinstance(kind, PointerTo):
            self.emit(f"{code}_o, {code}_f = {code}")
            value = Value(kind, f"{code}_o", f"{code}_f")
        if not variable.in_memory:
            if not isinstance(kind, PointerTo):
                self.emit(f"{code}_ = {code}")
            return
        variable.code = f"{code}_m"
        self._automatic.append(variable.code)
        self.emit(f"{variable.code} = renewed(None, M, {name!r}, {self.bytes_of(kind)}, None)")
        self._write(Place(kind, node, obj=variable.code), value, node)


def weight(node: c_ast.Node | None) -> int:
    """Statements of a body, those of loops within it left out."""
    if node is None or isinstance(node, c_ast.For | c_ast.While | c_ast.DoWhile):
        return 1
    if isinstance(node, c_ast.Compound):
        return sum(weight(one) for one in node.block_items or ())
    if isinstance(node, c_ast.If):
        return 1 + weight(node.iftrue) + (weight(node.iffalse) if node.iffalse is not None else 0)
    if isinstance(node, c_ast.Switch):
        return 1 + weight(node.stmt)
    if isinstance(node, c_ast.Case | c_ast.Default):
        return sum(weight(one) for one in node.stmts or ())
    return 1
