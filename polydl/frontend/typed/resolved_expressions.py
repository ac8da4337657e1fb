"""Expressions of C as values and effects in order."""

from __future__ import annotations

from collections.abc import Iterator

from pycparser import c_ast

from polydl.frontend.typed.core_values import (
    AddressOf,
    ArrayOf,
    Bin,
    Const,
    Obj,
    Origin,
    Place,
    Pointer,
    Read,
    Record,
    Signature,
    Type,
    Value,
    Var,
    Void,
    Why,
)
from polydl.frontend.typed.declared_types import member
from polydl.frontend.typed.emitter import NotUnderstood, Touched, is_variable
from polydl.frontend.typed.literals import CONSTANTS, characters, literal
from polydl.frontend.typed.nodes import Declare, Store
from polydl.frontend.typed.pure_values import (
    COMPARISONS,
    ONE,
    alignment,
    arithmetic,
    bytes_of,
    compared_with_zero,
    complemented,
    convert,
    decayed,
    dereferenced,
    distance,
    moved,
    negated,
    promoted_value,
    truth,
    unsigned_size,
)
from polydl.frontend.typed.resolved_choices import NOTHING, Choices
from polydl.frontend.typed.scopes import Named, Typedef
from polydl.model.types import C64, CHAR, I32, I64, U64, ElementType

_PLACES = c_ast.ID | c_ast.ArrayRef | c_ast.StructRef | c_ast.CompoundLiteral
_EFFECTS = c_ast.Assignment | c_ast.FuncCall | c_ast.UnaryOp
_STEPS = {"++": "+", "--": "-", "p++": "+", "p--": "-"}


class Expressions(Choices):
    """Resolves expressions; calls and initialisers are others' work."""

    def call(self, node: c_ast.FuncCall, wanted: bool) -> Value:
        raise NotImplementedError

    def compound_literal(self, node: c_ast.CompoundLiteral) -> Obj:
        raise NotImplementedError

    def text(self, data: bytes, node: c_ast.Node) -> Obj:
        """The object of a string literal."""
        raise NotImplementedError

    # --- values

    def value(self, node: c_ast.Node) -> Value:
        """The value of an expression: arrays are pointers to their first element. Raises NotUnderstood, and InputError
        for effects in no order."""
        match node:
            case c_ast.Constant():
                return self._constant(node)
            case c_ast.ID() | c_ast.ArrayRef() | c_ast.StructRef() | c_ast.CompoundLiteral():
                return self._read(node)
            case c_ast.UnaryOp():
                return self._unary(node)
            case c_ast.BinaryOp(op="&&" | "||"):
                return self.short_circuit(node)
            case c_ast.BinaryOp():
                with self.unsequenced(node) as operands:
                    operands.next()
                    a = self.value(node.left)
                    operands.next()
                    b = self.value(node.right)
                return self.operation(node.op, a, b, node)
            case c_ast.Assignment():
                return self._assigned(node, wanted=True)
            case c_ast.TernaryOp():
                return self.conditional(node)
            case c_ast.Cast():
                return self._cast(node)
            case c_ast.ExprList():
                for one in node.exprs[:-1]:
                    self.effects(one)
                return self.value(node.exprs[-1])
            case c_ast.FuncCall():
                return self.call(node, True)
            case c_ast.GenericSelection():
                return self.value(self._selected(node))
        raise NotUnderstood(f"an expression of the kind {type(node).__name__}")

    def effects(self, node: c_ast.Node) -> None:
        """An expression whose value nobody asks for, to its sequence point."""
        match node:
            case c_ast.Assignment():
                self._assigned(node, wanted=False)
            case c_ast.UnaryOp(op="++" | "--" | "p++" | "p--"):
                self._stepped(node, wanted=False)
            case c_ast.FuncCall():
                self.call(node, False)
            case c_ast.ExprList():
                for one in node.exprs:
                    self.effects(one)
            case c_ast.Cast() if self.type_of(node.to_type) == Void():
                self.effects(node.expr)
            case _:
                self.value(node)
        self.touched.sequence_point()

    def condition(self, node: c_ast.Node) -> Value:
        """A full expression as an int that is zero or not."""
        self.touched = Touched()
        return truth(self.value(node))

    def _constant(self, node: c_ast.Constant) -> Value:
        if node.type == "char":
            found = characters(node.value)
            if len(found) != 1:
                raise NotUnderstood("a character of several bytes")
            return Const(found[0] - 256 * (found[0] > CHAR.maximum), I32)
        if node.type == "string":
            obj = self.text(characters(node.value) + b"\0", node)
            return decayed(Place(obj, (), obj.type))
        return literal(node.value)

    def _read(self, node: c_ast.Node) -> Value:
        if isinstance(node, c_ast.ID):
            found = self._symbol(node.name)
            if isinstance(found, Const):
                return found
            if isinstance(found, Var):
                self.touched.reads.add(found)
                return Read(found)
            if isinstance(found, Named):
                return AddressOf(self._code(found, node))
            if found.origin is Origin.POINTEE:
                return AddressOf(Place(found, (), found.type, found.volatile))
        place = self.place(node)
        assert isinstance(place, Place), "variables were read before"
        return self.loaded(place, node)

    def loaded(self, place: Place, node: c_ast.Node) -> Value:
        """What a place holds; the address of arrays and functions."""
        if isinstance(place.type, ArrayOf):
            return decayed(place)
        if isinstance(place.type, Signature):
            return AddressOf(place)
        if isinstance(place.type, Void):
            raise NotUnderstood("a value of type void")
        if isinstance(place.type, Record):
            bytes_of(place.type)
        return self.load(place, node)

    def _symbol(self, name: str) -> Var | Obj | Named | Const:
        found = self.scope.find(name)
        if found is None and name in CONSTANTS:
            return CONSTANTS[name]
        if found is None and name in ("I", "_Complex_I"):
            return Const(1j, C64)
        if found is None or isinstance(found, Typedef):
            raise NotUnderstood(f"'{name}', which is not declared here")
        return found

    def _code(self, function: Named, node: c_ast.Node) -> Place:
        obj = Obj(-1, function.name, function.type, Origin.FUNCTION, self.span(node))
        return Place(obj, (), function.type)

    # --- places

    def place(self, node: c_ast.Node) -> Var | Place:
        """What an lvalue designates. Raises NotUnderstood."""
        match node:
            case c_ast.ID():
                found = self._symbol(node.name)
                if isinstance(found, Var):
                    return found
                if isinstance(found, Obj) and found.origin is not Origin.POINTEE:
                    return Place(found, (), found.type, found.volatile)
                if isinstance(found, Named):
                    return self._code(found, node)
            case c_ast.ArrayRef():
                with self.unsequenced(node) as operands:
                    operands.next()
                    a = self.value(node.name)
                    operands.next()
                    b = self.value(node.subscript)
                pointer, index = (a, b) if isinstance(a.type, Pointer) else (b, a)
                return dereferenced(moved(pointer, self._index(index, node)))
            case c_ast.UnaryOp(op="*"):
                return dereferenced(self.value(node.expr))
            case c_ast.StructRef():
                inner = dereferenced(self.value(node.name)) if node.type == "->" else self._whole(node.name)
                if not isinstance(inner.type, Record):
                    raise NotUnderstood(f"a member of '{inner.type}'")
                way, found_member = member(inner.type, str(node.field.name))
                volatile = inner.volatile or found_member.volatile
                return Place(inner.base, (*inner.path, *way), found_member.type, volatile)
            case c_ast.CompoundLiteral():
                obj = self.compound_literal(node)
                return Place(obj, (), obj.type)
        raise NotUnderstood(f"no place: {type(node).__name__}")

    def _whole(self, node: c_ast.Node) -> Place:
        """The place of a structure; of one that is a value, of a copy."""
        if isinstance(node, _PLACES | c_ast.UnaryOp):
            found = self.place(node)
            if isinstance(found, Place):
                return found
        value = self.value(node)
        obj = Obj(self.fresh(), "value", value.type, Origin.LOCAL, self.span(node))
        self.items.append(Declare(obj, self.span(node)))
        self.items.append(Store(Place(obj, (), value.type), value, self.span(node)))
        return Place(obj, (), value.type)

    def _index(self, value: Value, node: c_ast.Node) -> Value:
        kind = value.type
        if not isinstance(kind, ElementType) or not kind.is_int:
            raise NotUnderstood(f"an index of type '{kind}'")
        return promoted_value(value, self.span(node))

    # --- operators

    def operation(self, op: str, a: Value, b: Value, node: c_ast.Node) -> Value:
        """A binary operator, on numbers or pointers."""
        span = self.span(node)
        pointers = [one for one in (a, b) if isinstance(one.type, Pointer)]
        if not pointers:
            return arithmetic(op, a, b, span)
        if op in COMPARISONS:
            kind = pointers[0].type
            return Bin(op, convert(a, kind, Why.USUAL, span), convert(b, kind, Why.USUAL, span), I32, span=span)
        if len(pointers) == 2 and op == "-":
            return distance(a, convert(b, a.type, Why.USUAL, span))
        if len(pointers) == 1 and op == "+":
            pointer, index = (a, b) if isinstance(a.type, Pointer) else (b, a)
            return moved(pointer, self._index(index, node))
        if len(pointers) == 1 and op == "-" and isinstance(a.type, Pointer):
            return moved(a, negated(convert(self._index(b, node), I64, Why.USUAL, span), span))
        raise NotUnderstood(f"'{op}' of pointers")

    def _unary(self, node: c_ast.UnaryOp) -> Value:
        span = self.span(node)
        match node.op:
            case "*":
                place = self.place(node)
                assert isinstance(place, Place), "it is behind a pointer"
                return self.loaded(place, node)
            case "&":
                place = self.place(node.expr)
                if isinstance(place, Var):
                    raise NotUnderstood("the address of a variable")
                return AddressOf(place)
            case "++" | "--" | "p++" | "p--":
                return self._stepped(node, wanted=True)
            case "+":
                return promoted_value(self.value(node.expr), span)
            case "-":
                return negated(promoted_value(self.value(node.expr), span), span)
            case "~":
                return complemented(promoted_value(self.value(node.expr), span), span)
            case "!":
                return compared_with_zero("==", self.value(node.expr), span)
            case "sizeof":
                return self._size(node.expr)
            case "_Alignof":
                return Const(alignment(self._named_type(node.expr)), U64)
        raise NotUnderstood(f"the operator '{node.op}'")

    def _selected(self, node: c_ast.GenericSelection) -> c_ast.Node:
        """What `_Generic` stands for."""
        kind = self.type_in(c_ast.ExprList([node.expr], node.coord))
        found = None
        for one in node.associations:
            assert isinstance(one, c_ast.GenericAssociation), "pycparser has nothing else there"
            if one.type is None:
                found = found or one.expr
            elif self.type_of(one.type) == kind:
                return one.expr
        if found is None:
            raise NotUnderstood("a selection without the type")
        return found

    def _named_type(self, node: c_ast.Node) -> Type:
        return self.type_of(node) if isinstance(node, c_ast.Typename) else self.type_in(node)

    def _size(self, node: c_ast.Node) -> Value:
        kind = self._named_type(node)
        if is_variable(kind) and any(isinstance(one, _EFFECTS) for one in _every(node)):
            raise NotUnderstood("the size of an expression that is computed")
        return unsigned_size(bytes_of(kind))

    def type_in(self, node: c_ast.Node) -> Type:
        touched, self.touched = self.touched, Touched()
        try:
            with self.block():
                if isinstance(node, c_ast.Constant) and node.type == "string":
                    return ArrayOf(CHAR, Const(len(characters(node.value)) + 1, I64))
                designates = isinstance(node, _PLACES) or (isinstance(node, c_ast.UnaryOp) and node.op == "*")
                if designates and not isinstance(node, c_ast.ID):
                    return self.place(node).type
                found = self._symbol(node.name) if isinstance(node, c_ast.ID) else None
                if isinstance(found, Obj) and found.origin is not Origin.POINTEE:
                    return found.type
                return self.value(node).type
        finally:
            self.touched = touched

    def _cast(self, node: c_ast.Cast) -> Value:
        kind = self.type_of(node.to_type)
        if kind == Void():
            self.effects(node.expr)
            return NOTHING
        return convert(self.value(node.expr), kind, Why.EXPLICIT, self.span(node))

    # --- assignments

    def _assigned(self, node: c_ast.Assignment, *, wanted: bool) -> Value:
        span = self.span(node)
        with self.unsequenced(node) as operands:
            operands.next()
            to = self.place(node.lvalue)
            operands.next()
            value = self.value(node.rvalue)
        if node.op != "=":
            value = self.operation(node.op[:-1], self._held(to, node), value, node)
        return self._stored(to, convert(value, to.type, Why.ASSIGN, span), node, wanted)

    def _stepped(self, node: c_ast.UnaryOp, *, wanted: bool) -> Value:
        """`x++`, `--x` and the like."""
        to = self.place(node.expr)
        before = self._held(to, node)
        old = node.op.startswith("p") and wanted
        if old:
            before = self.let(before, node)
        after = self.operation(_STEPS[node.op], before, ONE, node)
        value = self._stored(to, convert(after, to.type, Why.ASSIGN, self.span(node)), node, wanted and not old)
        return before if old else value

    def _held(self, to: Var | Place, node: c_ast.Node) -> Value:
        """The value in front of a compound assignment: that it is read is no conflict with the write."""
        known = to in self.touched.reads
        value = Read(to) if isinstance(to, Var) else self.load(to, node)
        if not known:
            self.touched.reads.discard(to)
        return value

    def _stored(self, to: Var | Place, value: Value, node: c_ast.Node, wanted: bool) -> Value:
        """Assign; the value of the assignment is what was stored, the place is not read again."""
        if isinstance(to, Place) and wanted:
            value = self.let(value, node)
        self.assign(to, value, node)
        if not wanted:
            return NOTHING
        return Read(to) if isinstance(to, Var) else value


def _every(node: c_ast.Node) -> Iterator[c_ast.Node]:
    yield node
    for _, child in node.children():
        yield from _every(child)
