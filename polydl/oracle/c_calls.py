"""Calls: of the program's functions, of the library's, and of builtins that are no functions."""

from __future__ import annotations

from pycparser import c_ast

from polydl.oracle.c_expressions import Expressions
from polydl.oracle.c_library import LIBRARY, Known, library_name
from polydl.oracle.c_types import (
    INT,
    LONG,
    ULONG,
    VOID,
    CType,
    Function,
    Integer,
    PointerTo,
    Vector,
    Void,
)
from polydl.oracle.c_values import NO_EFFECTS, Named, Value

_QUESTIONS = {
    "isnan": "({x} != {x})",
    "isinf": "(abs({x}) == INF)",
    "isinf_sign": "(({x} == INF) - ({x} == -INF))",
    "isfinite": "(abs({x}) < INF)",
    "isnormal": "is_normal({x}, {code!r})",
    "signbit": "(copysign(1.0, {x}) < 0)",
}
_ORDERS = {
    "isgreater": "({x} > {y})",
    "isgreaterequal": "({x} >= {y})",
    "isless": "({x} < {y})",
    "islessequal": "({x} <= {y})",
    "islessgreater": "({x} < {y} or {x} > {y})",
    "isunordered": "({x} != {x} or {y} != {y})",
}
_OVERFLOWS = {"add_overflow": "+", "sub_overflow": "-", "mul_overflow": "*"}


class Calls(Expressions):
    """What calls are translated to."""

    def defined(self, name: str) -> bool:
        """Whether the program has the body of a function."""
        raise NotImplementedError

    def call(self, node: c_ast.FuncCall) -> Value:
        return self.called(node, used=True)

    def called(self, node: c_ast.FuncCall, *, used: bool) -> Value:
        """A call; `used`: its value is, so that there must be one."""
        arguments = list(node.args.exprs) if node.args is not None else []
        if isinstance(node.name, c_ast.ID):
            name = node.name.name
            found = self.scope.symbol(name)
            if found is None or isinstance(found, Named):
                if self.defined(name):
                    if found is None:
                        raise self.refuse(f"a call of '{name}', whose declaration is not understood", node)
                    values = self._arguments(found.type, arguments, node)
                    return self._result(f"F[{name!r}]({self._listed(values)})", found.type, values, node, used)
                special = self._special(name.removeprefix("__builtin_"), arguments, node)
                return special if special is not None else self._of_library(name, arguments, node)
        pointer = self.settled(self.value(node.name))
        if not isinstance(pointer.type, PointerTo) or not isinstance(pointer.type.target, Function):
            raise self.refuse(f"a call of '{pointer.type}'", node)
        values = self._arguments(pointer.type.target, arguments, node)
        target = f"F[function_of({pointer.code}, {pointer.offset}, {self.at(node)})]"
        return self._result(f"{target}({self._listed(values)})", pointer.type.target, [pointer, *values], node, used)

    def _listed(self, values: list[Value]) -> str:
        return ", ".join(self.single(value) for value in values)

    def _arguments(self, kind: Function, nodes: list[c_ast.Node], node: c_ast.Node) -> list[Value]:
        if kind.prototype and (
            len(nodes) < len(kind.parameters) or (len(nodes) > len(kind.parameters) and not kind.variadic)
        ):
            raise self.refuse(f"{len(nodes)} arguments for {len(kind.parameters)} parameters", node)
        found = []
        for number, one in enumerate(nodes):
            value = self.value(one)
            if number < len(kind.parameters):
                value = self.convert(value, kind.parameters[number], one)
            else:
                value = self.default_promoted(value, one)
            found.append(self.settled(value) if value.raw else value)
        return found

    def _result(self, code: str, kind: Function, values: list[Value], node: c_ast.Node, used: bool) -> Value:
        effects = self.together(node, *(value.effects for value in values)).ended()
        returns = kind.returns
        if isinstance(returns, Void) or not used:
            self.emit(code)
            return Value(returns if isinstance(returns, Void) else VOID, "None", effects=effects)
        name = self.fresh()
        self.emit(f"{name} = {code}")
        self.emit(f"if {name} is None: no_result({self.at(node)})")
        return (
            self.spread(name, returns, effects)
            if isinstance(returns, PointerTo)
            else Value(returns, name, effects=effects)
        )

    def _of_library(self, name: str, arguments: list[c_ast.Node], node: c_ast.Node) -> Value:
        short = library_name(name)
        if short is None:
            raise self.refuse(f"the function '{name}', which has no body here", node)
        known: Known = LIBRARY[short]
        values = self._arguments(known.type, arguments, node)
        effects = self.together(node, *(value.effects for value in values)).ended()
        code = self.linked(f"l_{short}", f"E.library({short!r})")
        listed = self._listed(values)
        if known.placed:
            listed = f"{self.at(node)}, {listed}" if listed else self.at(node)
        if isinstance(known.type.returns, Void):
            self.emit(f"{code}({listed})")
            return self.nothing(effects)
        return self.spread(f"{code}({listed})", known.type.returns, effects)

    # Builtins whose operands have any type.

    def _special(self, name: str, arguments: list[c_ast.Node], node: c_ast.Node) -> Value | None:
        if name in _QUESTIONS and len(arguments) == 1:
            value = self.settled(self.value(arguments[0]))
            kind = self.arithmetic(value.type, node)
            code = _QUESTIONS[name].format(x=value.code, code=kind.code)
            return Value(INT, code, effects=value.effects)
        if name in _ORDERS and len(arguments) == 2:
            one, other = (self.settled(self.value(argument)) for argument in arguments)
            code = _ORDERS[name].format(x=one.code, y=other.code)
            return Value(INT, code, effects=self.together(node, one.effects, other.effects))
        if name == "expect" and len(arguments) == 2:
            return self.convert(self.value(arguments[0]), LONG, node)
        if name == "constant_p":
            return self.number(0, INT)
        if name == "choose_expr" and len(arguments) == 3:
            return self.value(arguments[1] if self.constant(arguments[0]) else arguments[2])
        if name == "types_compatible_p" and len(arguments) == 2:
            one_type, other_type = (self._type_argument(argument) for argument in arguments)
            return self.number(int(one_type == other_type), INT)
        if name in _OVERFLOWS and len(arguments) == 3:
            return self._with_overflow(_OVERFLOWS[name], arguments, node)
        if name in ("shuffle", "shufflevector", "convertvector"):
            return self._vectors(name, arguments, node)
        if name in ("offsetof", "__offsetof__") and len(arguments) == 2:
            return self.number(self._designated(self._type_argument(arguments[0]), arguments[1])[0], ULONG)
        return None

    def _type_argument(self, node: c_ast.Node) -> CType:
        """A type as an argument: as it is, or within `sizeof` where the text was changed for the parser."""
        if isinstance(node, c_ast.UnaryOp) and node.op == "sizeof":
            node = node.expr
        return self.type_of(node) if isinstance(node, c_ast.Typename) else self.type_in(node)

    def _designated(self, kind: CType, node: c_ast.Node) -> tuple[int, CType]:
        """Offset and type of what a designator of `offsetof` names."""
        if isinstance(node, c_ast.ID):
            return self.member_type(kind, node.name, node)
        if isinstance(node, c_ast.StructRef):
            offset, inner = self._designated(kind, node.name)
            further, found = self.member_type(inner, node.field.name, node)
            return offset + further, found
        if isinstance(node, c_ast.ArrayRef):
            offset, inner = self._designated(kind, node.name)
            element = getattr(inner, "element", None)
            width = self.bytes_of(element) if element is not None else ""
            if isinstance(width, int) and element is not None:
                return offset + width * self.constant(node.subscript), element
        raise self.refuse("such an offsetof", node)

    def _with_overflow(self, op: str, arguments: list[c_ast.Node], node: c_ast.Node) -> Value:
        one, other, pointer = (self.value(argument) for argument in arguments)
        if (
            not isinstance(one.type, Integer)
            or not isinstance(other.type, Integer)
            or not isinstance(pointer.type, PointerTo)
            or not isinstance(pointer.type.target, Integer)
        ):
            raise self.refuse("such operands of a builtin for overflow", node)
        kind, name = pointer.type.target, self.fresh()
        effects = self.together(node, one.effects, other.effects, pointer.effects).ended()
        self.emit(f"{name} = {one.code} {op} {other.code}")
        wide = Integer("result", 64, True, 9)
        wrapped = self.convert(Value(wide, name), kind, node)
        self.store(self.pointed(pointer.after(NO_EFFECTS), node), wrapped, node)
        return Value(INT, f"(not {kind.least} <= {name} <= {kind.most})", effects=effects)

    def _vectors(self, name: str, arguments: list[c_ast.Node], node: c_ast.Node) -> Value:
        first = self.value(arguments[0])
        if not isinstance(first.type, Vector):
            raise self.refuse(f"'{name}' of '{first.type}'", node)
        if name == "convertvector":
            to = self._type_argument(arguments[1])
            if not isinstance(to, Vector):
                raise self.refuse(f"'{name}' to '{to}'", node)
            return self.lanes_converted(first, to, node)
        others = [self.value(argument) for argument in arguments[1:]]
        effects = self.together(node, first.effects, *(value.effects for value in others))
        lanes = first.type.lanes
        if name == "shuffle":
            both = f"{first.code} + {others[0].code}" if len(others) == 2 else first.code
            count = lanes * len(others)
            found = f"tuple([({both})[i % {count}] for i in {others[-1].code}])"
            return self.spread(found, first.type, effects)
        numbers = [value.constant for value in others[1:]]
        if not all(isinstance(number, int) for number in numbers):
            raise self.refuse("lanes of a shuffle that are not constant", node)
        both = f"({first.code} + {others[0].code})"
        listed = ", ".join(str(max(0, number)) for number in numbers if isinstance(number, int))
        kind = Vector(first.type.element, len(numbers))
        return self.spread(f"tuple([{both}[i] for i in ({listed},)])", kind, effects)

    def lanes_converted(self, value: Value, to: Vector, node: c_ast.Node) -> Value:
        raise NotImplementedError
