"""Values of expressions in the bodies of generated functions: numbers, addresses, vectors by their lanes, elements."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from pycparser import c_ast

from polydl.base.records import dataclass
from polydl.model.types import spelled
from polydl.prove.integers import ZERO, Affine, Unreadable, integer, number
from polydl.prove.printed_program import Pointer
from polydl.prove.symbolic_values import LANE_BY_LANE, Literal, Load, Operation, Symbol, conversion, of_lanes
from polydl.prove.syntax import line_of, subscripted
from polydl.prove.vector_lanes import (
    ALIGNED,
    GROUP_BYTES,
    NARROW,
    NEAR,
    PURE,
    VECTOR,
    WORD,
    Counters,
    Lane,
    Vector,
    fma,
    shuffled,
    stepped,
    value_of,
)
from polydl.target.isa import ROW_TYPES, lanes_name


@dataclass(frozen=True, slots=True)
class Read:
    """Neighbouring elements that are loaded, in each iteration of the loops around."""

    at: Pointer
    count: int
    around: Counters = ()


@dataclass(frozen=True, slots=True)
class LocalArray:
    """A local array; its elements are variables of their own, by name and subscripts."""

    name: str


_TABLE = re.compile(r"[ab]_table\d+")
"""Parameters that are tables of integers, by which addresses move."""
Value = Affine | Pointer | Vector | Load
Env = dict[Any, Any]
"""Variables by name; elements of local arrays by (name, subscripts)."""


@dataclass(slots=True)
class Evaluator:
    """Values of expressions in the functions of a parsed file, in an environment of variables."""

    functions: Mapping[str, Any]
    lanes: Mapping[str, int]
    """Lanes of a vector, per `f32`, `f64`."""
    bytes: Mapping[str, int]
    """Bytes of an element, likewise."""
    read: list[Read] = field(default_factory=list)
    answer: int = 0
    """Which of the possible answers is given to all that ask where memory lies."""
    answers: int = 1
    """How many there are, of those that have asked."""
    _around: list[tuple[str, Affine]] = field(default_factory=list)
    _steps: int = 0

    def _load(self, at: Pointer) -> Load:
        self.read.append(Read(at, 1, tuple(self._around)))
        return Load(at)

    def _element(self, at: Pointer) -> Load | Affine:
        """An element of memory; of a table an integer, by its place."""
        loaded = self._load(at)
        return Affine(((f"{at.base}[{at.offset}]", 1),)) if _TABLE.fullmatch(at.base) else loaded

    def _value(self, node: Any, env: Env) -> Any:
        self._steps += 1
        match node:
            case c_ast.Constant(type=kind) if (element := spelled(kind)) is not None and element.is_int:
                return number(integer(node.value))
            case c_ast.ID() if node.name in env:
                return env[node.name]
            case c_ast.Cast():
                return self._value(node.expr, env)
            case c_ast.UnaryOp():
                return self._unary(node, env)
            case c_ast.BinaryOp():
                return self._operation(node, env)
            case c_ast.TernaryOp():
                condition = self._value(node.cond, env)
                if isinstance(condition, Operation):
                    sides = (_operand(side, self._value(side, env)) for side in (node.iftrue, node.iffalse))
                    return Operation("?:", (condition, *sides))
                return self._value(node.iftrue if self._truth(node.cond, env) else node.iffalse, env)
            case c_ast.ArrayRef():
                base, subscripts = subscripted(node)
                if not isinstance(base, c_ast.ID) or not isinstance(env.get(base.name), LocalArray):
                    return self._element(self._address(node, env))
                key = base.name, tuple(self._number(s, env) for s in subscripts)
                if key in env:
                    return env[key]
                if isinstance(env.get((base.name, key[1][:-1])), Pointer):
                    return self._load(self._address(node, env))
            case c_ast.FuncCall(name=c_ast.ID(name=name)) if (vector := VECTOR.fullmatch(name)) is not None:
                return self._vector_value(vector.group(1), vector.group(2), node.args, env)
            case c_ast.FuncCall(name=c_ast.ID(name=name)) if _of_steps(name) and name in self.functions:
                return self._steps_of(name, node.args, env)
        return self._of_elements(node, env)

    def _of_elements(self, node: Any, env: Env) -> Any:
        """A literal, or an operation on elements."""
        match node:
            case c_ast.Constant():
                return Literal(node.value)
            case c_ast.FuncCall(name=c_ast.ID(name=name)):
                return self._called_value(name, node, env)
        raise Unreadable(f"line {line_of(node)}: a value in a generated function ({type(node).__name__})")

    def _called_value(self, name: str, node: Any, env: Env) -> Any:
        """What a function makes of elements, or says of an address. Raises Unreadable."""
        narrow = NARROW.fullmatch(name)
        if narrow is not None:
            does, first, second = narrow.group(1, 2, 4)
            return self._narrow_value(does, first, second, node.args, env)
        if ALIGNED.fullmatch(name):
            return self._where(name, node.args.exprs, env)
        made = self._followed(name)
        if made is None:
            raise Unreadable(f"line {line_of(node)}: a value in a generated function ({type(node).__name__})")
        return self._operation_of(made, node.args.exprs, env, call=name in PURE)

    def _where(self, name: str, arguments: Sequence[Any], env: Env) -> Affine:
        """Whether memory is aligned, or how many elements lie before that."""
        several = self._number(arguments[2], env) if name.endswith("_to_vector") else 2
        self.answers = max(self.answers, several)
        return number(self.answer % several)

    def _narrow_value(self, kind: str, action: str, more: str, given: Any, env: Env) -> Any:
        """Narrow elements in lanes of floats, as what they are, or conversions of lanes."""
        if action == "load":
            return self._vector_value(kind, "load_part" if more else "load", given, env)
        lanes = self._vector(given.exprs[0], env)
        return tuple(Operation(conversion(more), (value_of(lane),)) for lane in lanes)

    def _steps_of(self, name: str, given: Any, env: Env) -> Vector:
        """One step of a microkernel more, or what it starts from, which are read by themselves (`prove.contracts`)."""
        if name.endswith("_start"):
            kind = self.functions[name].decl.type.type.type.names[0].rpartition("_")[2]
            return (Operation(name, ()),) * self.lanes[kind]
        x, y, m = (self._vector(a, env) for a in given.exprs)
        return tuple(stepped(*lanes) for lanes in zip(x, y, m, strict=True))

    def _operation_of(self, made: str, arguments: Sequence[Any], env: Env, *, call: bool) -> Operation:
        if made.startswith(NEAR):
            return self._neighbours(self._pointer(arguments[0], env), int(made.removeprefix(NEAR)))
        return Operation(made, tuple(_operand(a, self._value(a, env)) for a in arguments), call=call)

    def _neighbours(self, first: Pointer, count: int) -> Operation:
        """A word of elements that are side by side in memory."""
        loads = [self._load(Pointer(first.base, first.offset.plus(number(k)))) for k in range(count)]
        return Operation(f"word_{count}", tuple(_operand(None, load) for load in loads))

    def _followed(self, name: str) -> str | None:
        """The operation that a function is followed as; None: it is none."""
        word = WORD.fullmatch(name)
        if word is not None:
            return word.group(1)
        return name if name in PURE and name not in self.functions else None

    def _unary(self, node: Any, env: Env) -> Any:
        match node:
            case c_ast.UnaryOp(op="-") if isinstance(value := self._value(node.expr, env), Affine):
                return value.times(-1)
            case c_ast.UnaryOp(op="-") if isinstance(value := self._value(node.expr, env), _ELEMENT):
                return Operation("-", (value,))
            case c_ast.UnaryOp(op="!"):
                return number(int(not self._truth(node.expr, env)))
            case c_ast.UnaryOp(op="*"):
                return self._load(self._pointer(node.expr, env))
            case c_ast.UnaryOp(op="&", expr=c_ast.ID(name=name)):
                return Pointer(f"&{name}", ZERO)
            case c_ast.UnaryOp(op="&"):
                return self._address(node.expr, env)
        raise Unreadable(f"line {line_of(node)}: the operator {node.op} in a generated function")

    def _operation(self, node: Any, env: Env) -> Any:
        if node.op == "&&":
            return number(int(self._truth(node.left, env) and self._truth(node.right, env)))
        if node.op == "||":
            return number(int(self._truth(node.left, env) or self._truth(node.right, env)))
        left, right = self._value(node.left, env), self._value(node.right, env)
        if isinstance(left, tuple) and isinstance(right, tuple):
            return tuple(Operation(node.op, (value_of(x), value_of(y))) for x, y in zip(left, right, strict=True))
        if isinstance(left, _ELEMENT) or isinstance(right, _ELEMENT):
            return Operation(node.op, (_operand(node.left, left), _operand(node.right, right)))
        if isinstance(right, Affine):
            if node.op == "+":
                return added(left, right)
            if isinstance(left, Affine):
                return _integer_operation(node, left, right)
        raise Unreadable(f"line {line_of(node)}: the operator {node.op} in a generated function")

    def _truth(self, node: Any, env: Env) -> bool:
        return self._number(node, env) != 0

    def _number(self, node: Any, env: Env) -> int:
        value = self._value(node, env)
        if not isinstance(value, Affine) or value.terms:
            raise Unreadable(f"line {line_of(node)}: a number that is not known before the program runs")
        return value.constant

    def _pointer(self, node: Any, env: Env) -> Pointer:
        value = self._value(node, env)
        if not isinstance(value, Pointer):
            raise Unreadable(f"line {line_of(node)}: an address in a generated function")
        return value

    def _address(self, node: Any, env: Env) -> Pointer:
        if not isinstance(node, c_ast.ArrayRef):
            raise Unreadable(f"line {line_of(node)}: an address in a generated function")
        at, offset = self._value(node.name, env), self._value(node.subscript, env)
        if not isinstance(at, Pointer) or not isinstance(offset, Affine):
            raise Unreadable(f"line {line_of(node)}: an address in a generated function")
        return Pointer(at.base, at.offset.plus(offset))

    def _vector(self, node: Any, env: Env) -> Vector:
        value = self._value(node, env)
        if not isinstance(value, tuple):
            raise Unreadable(f"line {line_of(node)}: a vector in a generated function")
        return value

    def _vector_value(self, kind: str, name: str, given: Any, env: Env) -> Any:
        """What a function of the vector prologue computes, lane by lane."""
        arguments = given.exprs if given is not None else []
        width = self.lanes[kind]
        if name == "zero":
            return ((),) * width
        if name == "first":
            return self._value(arguments[0], env)
        if name == "all":
            match arguments[0]:
                case c_ast.Constant(value=text):
                    return (Literal(text, vector=True),) * width
                case c_ast.UnaryOp(op="-", expr=c_ast.Constant(value=text)):
                    return (Operation("-", (Literal(text, vector=True),)),) * width
            lane = lane_of(self._value(arguments[0], env))
            return (lane,) * width
        if name in ("load", "load_part", "load_alternate", "load_alternate_part", "pair"):
            at = self._pointer(arguments[0], env)
            count = self._number(arguments[1], env) if name.endswith("_part") else width
            turns, apart = 2 if name == "pair" else width, 2 if "alternate" in name else 1
            self.read.append(Read(at, (min(turns, count) - 1) * apart + 1, tuple(self._around)))
            places = [number(k % turns * apart) for k in range(min(count, width))]
            loads = tuple(Load(Pointer(at.base, at.offset.plus(place))) for place in places)
            return loads + ((),) * (width - len(loads))
        if name == "pieces":
            counts = [self._number(a, env) for a in arguments[1:]]
            return self._pieces(self._pointer(arguments[0], env), width, GROUP_BYTES // self.bytes[kind], *counts)
        vectors = [self._vector(a, env) for a in arguments]
        if name == "fma":
            return tuple(fma(*lanes) for lanes in zip(*vectors, strict=True))
        group = GROUP_BYTES // self.bytes[kind]
        if name in ("unpack_low", "unpack_high", "fold"):
            return shuffled(name, vectors[0], vectors[1], group)
        if name in LANE_BY_LANE:
            suffix = next(t.suffix or "" for t in ROW_TYPES if lanes_name(t) == kind)
            return tuple(of_lanes(name, suffix, tuple(map(value_of, lanes))) for lanes in zip(*vectors, strict=True))
        raise Unreadable(f"the vector function {name}")

    def _pieces(self, at: Pointer, width: int, group: int, apart: int, rows: int, columns: int) -> Vector:
        """The first elements of each `group`-th row, side by side, zeros where there are no more rows or columns; rows
        are so far apart."""
        lanes: list[Lane] = []
        for row in range(0, width, group):
            first = Pointer(at.base, at.offset.plus(number(row * apart)))
            count = max(0, min(group, columns)) if row < rows else 0
            if count:
                self.read.append(Read(first, count, tuple(self._around)))
            lanes += [Load(Pointer(first.base, first.offset.plus(number(k)))) for k in range(count)]
            lanes += [()] * (group - count)
        return tuple(lanes)


def _of_steps(name: str) -> bool:
    return name.endswith(("_step", "_start"))


def added(left: Any, right: Any) -> Any:
    """The sum of an integer or an address and an integer. Raises Unreadable."""
    if isinstance(left, LocalArray):
        left = Pointer(left.name, ZERO)
    if isinstance(left, Pointer) and isinstance(right, Affine):
        return Pointer(left.base, left.offset.plus(right))
    if isinstance(left, Affine) and isinstance(right, Affine):
        return left.plus(right)
    raise Unreadable("a sum of another kind in a generated function")


_ELEMENT = (Load, Operation, Literal)


def _operand(node: Any, value: Any) -> Symbol:
    """An expression and its value as an operand of an operation on elements. Raises Unreadable."""
    if isinstance(value, _ELEMENT):
        return value
    if isinstance(node, c_ast.Constant):
        return Literal(node.value)
    raise Unreadable("an operation on something else than elements in a generated function")


def lane_of(value: Any) -> Lane:
    """An element as a lane of a vector. Raises Unreadable."""
    if isinstance(value, _ELEMENT):
        return value
    if value == ZERO:
        return ()
    raise Unreadable("an element of another kind in a generated function")


def _integer_operation(node: Any, left: Affine, right: Affine) -> Affine:
    if node.op == "-":
        return left.plus(right, -1)
    if node.op == "*" and not (left.terms and right.terms):
        return left.times(right.constant) if not right.terms else right.times(left.constant)
    if not left.terms and not right.terms:
        a, b = left.constant, right.constant
        if node.op in ("/", "%") and a >= 0 and b > 0:
            return number(a // b if node.op == "/" else a % b)
        tests = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}
        if node.op in tests:
            return number(int(tests[node.op]))
    raise Unreadable(f"line {line_of(node)}: the operator {node.op} on what is not known before the program runs")
