"""Calls: those of functions of the table are values, `memcpy` and its like effects on places, all others calls."""

from __future__ import annotations

from pycparser import c_ast

from polydl.frontend.text.chunks import STAND_INS
from polydl.frontend.typed.core_values import Const, Pointer, Pure, Record, Ref, Signature, Type, Value, Void, Why
from polydl.frontend.typed.declared_types import member
from polydl.frontend.typed.emitter import NotUnderstood, is_variable
from polydl.frontend.typed.nodes import Call, Copy, Fill
from polydl.frontend.typed.pure_values import convert, dereferenced, promoted_value
from polydl.frontend.typed.resolved_choices import NOTHING
from polydl.frontend.typed.resolved_expressions import Expressions
from polydl.frontend.typed.scopes import Named
from polydl.model.conversions import conversion_of
from polydl.model.functions import parameters_of, result_of
from polydl.model.types import F32, F64, I32, U64, ElementType

_BUILTIN = "__builtin_"
_COPIES = frozenset({"memcpy", "memmove"})
_HIDDEN = frozenset({"setjmp", "_setjmp", "longjmp", "alloca"})
"""What does more than a call of C can."""
_UNKNOWN_POINTER = Pointer(Void())


class Calls(Expressions):
    """Resolves calls."""

    def call(self, node: c_ast.FuncCall, wanted: bool) -> Value:
        callee = node.name
        if not isinstance(callee, c_ast.ID):
            return self._through_pointer(node, wanted)
        name = str(callee.name)
        short = name.removeprefix(_BUILTIN)
        found = self.scope.find(name)
        if found is not None and not isinstance(found, Named):
            return self._through_pointer(node, wanted)
        given = list(node.args.exprs) if node.args is not None else []
        defined = name in self.unit.chunks
        if not defined and name == "offsetof" and len(given) == 2:
            return self._offset(given)
        if not defined:
            self._check_known(name, found)
            if short in _COPIES and len(given) == 3:
                return self._copy(node, given, may_overlap=short == "memmove")
            if short == "memset" and len(given) == 3:
                return self._fill(node, given)
            if short == "assume_aligned" and given:
                return self.value(given[0])
            if conversion_of(name) is not None and len(given) == 1:
                source, target = conversion_of(name)  # type: ignore[misc]  # it was asked for above
                value = convert(self.value(given[0]), source, Why.ARGUMENT, self.span(node))
                return Pure(name, (value,), target, self.span(node))
            result = result_of(name)
            if result is not None and len(given) == len(parameters_of(name)):
                return self._pure(node, name, given, result)
        signature = found.type if isinstance(found, Named) else Signature(I32, None)
        return self._called(node, name, self._arguments(node, given, signature), signature.returns, wanted)

    def _check_known(self, name: str, found: object) -> None:
        if name in _HIDDEN:
            raise NotUnderstood(f"'{name}'")
        if name.startswith(f"{_BUILTIN}va_"):
            raise NotUnderstood("arguments without number")
        if name in STAND_INS and found is None:
            raise NotUnderstood("assembly, or a statement within an expression")

    def _pure(self, node: c_ast.FuncCall, name: str, given: list[c_ast.Node], result: ElementType) -> Value:
        values = self._values(node, given)
        span = self.span(node)
        kinds = parameters_of(name)
        converted = tuple(
            value if kind is None else convert(value, kind, Why.ARGUMENT, span)
            for value, kind in zip(values, kinds, strict=True)
        )
        return Pure(name, converted, result, span)

    def _values(self, node: c_ast.Node, given: list[c_ast.Node]) -> list[Value]:
        """Operands that C evaluates in no order, and then a sequence point."""
        values = []
        with self.unsequenced(node) as operands:
            for one in given:
                operands.next()
                values.append(self.value(one))
        self.touched.sequence_point()
        return values

    def _arguments(self, node: c_ast.Node, given: list[c_ast.Node], signature: Signature) -> tuple[Value, ...]:
        kinds = signature.parameters or ()
        if signature.parameters is not None:
            if len(given) < len(kinds) or (len(given) > len(kinds) and not signature.variadic):
                raise NotUnderstood("a call with another number of arguments than parameters")
        converted = []
        for number, value in enumerate(self._values(node, given)):
            kind: Type = kinds[number] if number < len(kinds) else _by_default(value)
            converted.append(convert(value, kind, Why.ARGUMENT, self.span(node)))
        return tuple(converted)

    def _through_pointer(self, node: c_ast.FuncCall, wanted: bool) -> Value:
        with self.unsequenced(node) as operands:
            operands.next()
            pointer = self.value(node.name)
            kind = pointer.type.target if isinstance(pointer.type, Pointer) else None
            if not isinstance(kind, Signature):
                raise NotUnderstood("a call of what is no function")
            operands.next()
            arguments = self._arguments(node, list(node.args.exprs) if node.args is not None else [], kind)
        return self._called(node, pointer, arguments, kind.returns, wanted)

    def _called(
        self, node: c_ast.Node, function: str | Value, arguments: tuple[Value, ...], returns: Type, wanted: bool
    ) -> Value:
        if is_variable(returns):
            raise NotUnderstood("a function that returns an array")
        result = None if isinstance(returns, Void) else Ref(self.fresh(), returns)
        self.items.append(Call(function, arguments, result, self.span(node)))
        return NOTHING if result is None else result

    def _copy(self, node: c_ast.Node, given: list[c_ast.Node], *, may_overlap: bool) -> Value:
        span = self.span(node)
        to, source, size = self._values(node, given)
        to, source = _as_pointer(to), _as_pointer(source)
        size = convert(size, U64, Why.ARGUMENT, span)
        self.items.append(Copy(dereferenced(to), dereferenced(source), size, may_overlap, span))
        return convert(to, _UNKNOWN_POINTER, Why.USUAL, span)

    def _fill(self, node: c_ast.Node, given: list[c_ast.Node]) -> Value:
        span = self.span(node)
        to, byte, size = self._values(node, given)
        to = _as_pointer(to)
        byte, size = convert(byte, I32, Why.ARGUMENT, span), convert(size, U64, Why.ARGUMENT, span)
        self.items.append(Fill(dereferenced(to), byte, size, span))
        return convert(to, _UNKNOWN_POINTER, Why.USUAL, span)

    def _offset(self, given: list[c_ast.Node]) -> Value:
        kind = self.type_of(given[0])
        names = []
        at = given[1]
        while isinstance(at, c_ast.StructRef):
            names.append(str(at.field.name))
            at = at.name
        if not isinstance(at, c_ast.ID):
            raise NotUnderstood("the offset of an element")
        offset = 0
        for name in (str(at.name), *reversed(names)):
            if not isinstance(kind, Record):
                raise NotUnderstood("the offset of what is no member")
            way, found = member(kind, name)
            offset, kind = offset + sum(one.offset for one in way), found.type
        return Const(offset, U64)


def _by_default(value: Value) -> Type:
    """The type to which C converts an argument of which the function says nothing."""
    if isinstance(value.type, ElementType):
        return F64 if value.type is F32 else promoted_value(value).type
    return value.type


def _as_pointer(value: Value) -> Value:
    if not isinstance(value.type, Pointer):
        raise NotUnderstood("memory that no pointer points to")
    return value
