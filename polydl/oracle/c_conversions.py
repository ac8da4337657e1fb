"""Conversions and arithmetic of C values, written as Python with the checks that C's rules ask for."""

from __future__ import annotations

from dataclasses import replace

from pycparser import c_ast

from polydl.oracle import c_arithmetic
from polydl.oracle.c_declarations import Declarations
from polydl.oracle.c_types import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    ULONG,
    Arithmetic,
    Array,
    CType,
    Function,
    Integer,
    PointerTo,
    Real,
    Record,
    Vector,
    Void,
    common,
    promoted,
)
from polydl.oracle.c_values import NO_EFFECTS, Value, times, total

COMPARISONS = {"<": "<", ">": ">", "<=": "<=", ">=": ">=", "==": "==", "!=": "!="}


class Conversions(Declarations):
    """Values of one type from values of others."""

    def convert(self, value: Value, to: CType, node: c_ast.Node) -> Value:
        """As by assignment or by a cast; keeps the effects."""
        kind = value.type
        if isinstance(to, Void):
            return self.nothing(value.effects)
        if isinstance(kind, Vector) or isinstance(to, Vector):
            return self.convert_vector(value, to, node)
        if isinstance(to, Record):
            if kind is not to:
                raise self.refuse(f"'{kind}' converted to '{to}'", node)
            return value
        if isinstance(to, PointerTo):
            return self._to_pointer(value, to, node)
        if isinstance(to, Integer | Real) and isinstance(kind, Integer | Real | PointerTo):
            if isinstance(to, Integer):
                return self._to_integer(value, to, node)
            if isinstance(kind, Integer | Real):
                return self._to_real(value, to)
        raise self.refuse(f"'{kind}' converted to '{to}'", node)

    def convert_vector(self, value: Value, to: CType, node: c_ast.Node) -> Value:
        raise NotImplementedError

    def vector_operation(self, op: str, one: Value, other: Value, node: c_ast.Node) -> Value:
        raise NotImplementedError

    def _to_pointer(self, value: Value, to: PointerTo, node: c_ast.Node) -> Value:
        if isinstance(value.type, PointerTo):
            return replace(value, type=to)
        if not isinstance(value.type, Integer):
            raise self.refuse(f"'{value.type}' converted to '{to}'", node)
        if value.constant == 0:
            return Value(to, "NULL", effects=value.effects)
        number = self._to_integer(value, ULONG, node)
        return self.spread(f"M.at({number.code})", to, value.effects)

    def _to_integer(self, value: Value, to: Integer, node: c_ast.Node) -> Value:
        kind = value.type
        if isinstance(kind, PointerTo):
            if to == BOOL:
                return Value(BOOL, self.truth(value), effects=value.effects)
            value = self.settled(value)
            number = Value(ULONG, f"({value.code}.address + {value.offset})", effects=value.effects)
            return number if to == ULONG else self._to_integer(number, to, node)
        if isinstance(kind, Integer):
            if isinstance(value.constant, int):
                return self.number(to.wrapped(value.constant), to).after(value.effects)
            least, most = value.range
            if to.least <= least and most <= to.most:
                return Value(to, value.code, bounds=(least, most), effects=value.effects)
            if to == BOOL:
                return Value(to, f"({value.code} != 0)", effects=value.effects)
            if not to.signed:
                return Value(to, f"({value.code} & {to.most})", effects=value.effects)
            half = to.most + 1
            return Value(to, f"(({value.code} + {half} & {2 * half - 1}) - {half})", effects=value.effects)
        if to == BOOL:
            return Value(to, f"({value.code} != 0)", effects=value.effects)
        if isinstance(value.constant, float) and to.least - 1 < value.constant < to.most + 1:
            return self.number(int(value.constant), to).after(value.effects)
        value = self.settled(value)
        self.emit(f"if not {to.least - 1} < {value.code} < {to.most + 1}: no_integer({value.code}, {self.at(node)})")
        name = self.fresh()
        self.emit(f"{name} = int({value.code})")
        return Value(to, name, effects=value.effects)

    def _to_real(self, value: Value, to: Real) -> Value:
        kind = value.type
        if isinstance(kind, Integer):
            if isinstance(value.constant, int):
                return self.number(c_arithmetic.to_real(value.constant, to.code), to).after(value.effects)
            least, most = value.range
            exact = {"f4": 1 << 24, "f2": 1 << 11, "b2": 1 << 8}.get(to.code, 1 << 53)
            if -exact <= least and most <= exact:
                return Value(to, f"({value.code} + 0.0)", effects=value.effects)
            if to.code == "f4" and least >= -(1 << 53) and most <= 1 << 53:
                return Value(to, f"({value.code} + 0.0)", raw=True, effects=value.effects)
            return Value(to, f"to_real({value.code}, {to.code!r})", effects=value.effects)
        if value.excess:
            value = replace(value, type=FLOAT, excess=False)
        if value.type == to:
            return value
        if isinstance(value.constant, float):
            return self.number(c_arithmetic.ROUND[to.code](value.constant), to).after(value.effects)
        assert isinstance(value.type, Real)
        if to.rank >= 2 and value.type.rank < to.rank:  # float and double hold all of a smaller type
            return replace(self.settled(value), type=to)
        if to == FLOAT:
            return Value(FLOAT, value.code, raw=True, effects=value.effects)
        value = self.settled(value)
        return Value(to, f"{'to_half' if to.code == 'f2' else 'to_brain'}({value.code})", effects=value.effects)

    # Arithmetic.

    def binary(self, op: str, one: Value, other: Value, node: c_ast.Node) -> Value:
        """A binary operator but `&&`, `||` and `,` on values; the effects are those of both, whose order is open."""
        effects = NO_EFFECTS
        if one.effects is not NO_EFFECTS or other.effects is not NO_EFFECTS:
            effects = self.together(node, one.effects, other.effects)
        return self._binary(op, one, other, node).after(effects)

    def _binary(self, op: str, one: Value, other: Value, node: c_ast.Node) -> Value:
        if isinstance(one.type, Vector) or isinstance(other.type, Vector):
            return self.vector_operation(op, one, other, node)
        if isinstance(one.type, PointerTo) or isinstance(other.type, PointerTo):
            return self._pointers(op, one, other, node)
        if not isinstance(one.type, Integer | Real) or not isinstance(other.type, Integer | Real):
            raise self.refuse(f"'{op}' of '{one.type}' and '{other.type}'", node)
        if op in ("<<", ">>"):
            return self._shift(op, one, other, node)
        kind = common(one.type, other.type)
        if isinstance(kind, Real):
            return self._real(op, one, other, kind, node)
        one, other = self.convert(one, kind, node), self.convert(other, kind, node)
        if op in COMPARISONS:
            if isinstance(one.constant, int) and isinstance(other.constant, int):
                return self.number(int(_compared(op, one.constant, other.constant)), INT)
            return Value(INT, f"({one.code} {op} {other.code})", bounds=(0, 1))
        if op in ("+", "-", "*"):
            return self._sum(op, one, other, kind, node)
        if op in ("/", "%"):
            return self._quotient(op, one, other, kind, node)
        if op in ("&", "|", "^"):
            if isinstance(one.constant, int) and isinstance(other.constant, int):
                a, b = one.constant, other.constant
                return self.number(a & b if op == "&" else a | b if op == "|" else a ^ b, kind)
            bounds = None
            (low, high), (low2, high2) = one.range, other.range
            if low >= 0 and low2 >= 0:
                bounds = (0, min(high, high2) if op == "&" else (1 << max(high, high2).bit_length()) - 1)
            elif op == "&" and (low >= 0 or low2 >= 0):
                bounds = (0, high if low >= 0 else high2)
            return Value(kind, f"({one.code} {op} {other.code})", bounds=bounds)
        raise self.refuse(f"the operator '{op}'", node)

    def _real(self, op: str, one: Value, other: Value, kind: Real, node: c_ast.Node) -> Value:
        """Rounded after each operation; the two small types are computed as float, as gcc does by default."""
        small = kind.rank < FLOAT.rank
        used = FLOAT if small else kind
        one, other = self.settled(self._to_real(one, used)), self.settled(self._to_real(other, used))
        if op in COMPARISONS:
            return Value(INT, f"({one.code} {op} {other.code})", bounds=(0, 1))
        raw = used == FLOAT
        if op in ("+", "-", "*"):
            if isinstance(one.constant, float) and isinstance(other.constant, float):
                a, b = one.constant, other.constant
                found = a + b if op == "+" else a - b if op == "-" else a * b
                return replace(self.number(c_arithmetic.ROUND[used.code](found), kind), excess=small)
            return Value(kind, f"({one.code} {op} {other.code})", raw=raw, excess=small)
        if op == "/":
            if isinstance(one.constant, float) and isinstance(other.constant, float):
                found = c_arithmetic.divided(one.constant, other.constant)
                return replace(self.number(c_arithmetic.ROUND[used.code](found), kind), excess=small)
            code = f"({one.code} / {other.code})"
            if not other.constant:
                code = f"({one.code} / {other.code} if {other.code} else divided({one.code}, {other.code}))"
            return Value(kind, code, raw=raw, excess=small)
        raise self.refuse(f"'{op}' of '{kind}'", node)

    def _sum(self, op: str, one: Value, other: Value, kind: Integer, node: c_ast.Node) -> Value:
        (low, high), (low2, high2) = one.range, other.range
        if op == "*":
            corners = (low * low2, low * high2, high * low2, high * high2)
            bounds = (min(corners), max(corners))
        else:
            bounds = (low + low2, high + high2) if op == "+" else (low - high2, high - low2)
        code = f"({one.code} {op} {other.code})"
        if kind.least <= bounds[0] and bounds[1] <= kind.most:
            if bounds[0] == bounds[1] and one.constant is not None and other.constant is not None:
                return self.number(bounds[0], kind)
            return Value(kind, code, bounds=bounds)
        if not kind.signed:
            if one.constant is not None and other.constant is not None:
                return self.number(kind.wrapped(bounds[0]), kind)
            return Value(kind, f"({code} & {kind.most})")
        return self._in_range(code, kind, node)

    def _in_range(self, code: str, kind: Integer, node: c_ast.Node) -> Value:
        """A signed result that C defines only where it is in the type's range."""
        name = self.fresh()
        self.emit(f"{name} = {code}")
        self.emit(f"if not {kind.least} <= {name} <= {kind.most}: overflow({name}, {str(kind)!r}, {self.at(node)})")
        return Value(kind, name)

    def _quotient(self, op: str, one: Value, other: Value, kind: Integer, node: c_ast.Node) -> Value:
        (low, high), (low2, high2) = one.range, other.range
        a, b = self.atom(one.code), self.atom(other.code)
        if low2 <= 0 <= high2:
            self.emit(f"if {b} == 0: by_zero({self.at(node)})")
        if kind.signed and low == kind.least and low2 <= -1 <= high2:
            self.emit(f"if {b} == -1 and {a} == {kind.least}: overflow({-kind.least}, {str(kind)!r}, {self.at(node)})")
        if isinstance(one.constant, int) and isinstance(other.constant, int) and other.constant:
            x, y = one.constant, other.constant
            return self.number(c_arithmetic.quotient(x, y) if op == "/" else c_arithmetic.remainder(x, y), kind)
        python, helper = ("//", "quotient") if op == "/" else ("%", "remainder")
        if low >= 0 and low2 >= 0:
            bounds = (0, high if op == "/" else min(high, max(0, high2 - 1)))
            # A name, since the divisor is checked only now.
            name = self.fresh()
            self.emit(f"{name} = {a} {python} {b}")
            return Value(kind, name, bounds=bounds)
        name = self.fresh()
        self.emit(f"{name} = {a} {python} {b} if {a} >= 0 and {b} > 0 else {helper}({a}, {b})")
        return Value(kind, name)

    def _shift(self, op: str, one: Value, other: Value, node: c_ast.Node) -> Value:
        if not isinstance(one.type, Integer) or not isinstance(other.type, Integer):
            raise self.refuse(f"'{op}' of '{one.type}' and '{other.type}'", node)
        kind = promoted(one.type)
        one, other = self.convert(one, kind, node), self.convert(other, promoted(other.type), node)
        low, high = other.range
        count = self.atom(other.code)
        if low < 0 or high >= kind.bits:
            self.emit(f"if not 0 <= {count} < {kind.bits}: shift_count({count}, {str(kind)!r}, {self.at(node)})")
        if isinstance(one.constant, int) and isinstance(other.constant, int) and 0 <= other.constant < kind.bits:
            found = one.constant << other.constant if op == "<<" else one.constant >> other.constant
            if not kind.signed:
                return self.number(kind.wrapped(found), kind)
            if op == ">>" or (one.constant >= 0 and found <= kind.most):
                return self.number(found, kind)
        if op == ">>":
            bounds = None
            if isinstance(other.constant, int) and 0 <= other.constant < kind.bits:
                bounds = (one.range[0] >> other.constant, one.range[1] >> other.constant)
            return Value(kind, f"({one.code} >> {count})", bounds=bounds)
        if not kind.signed:
            return Value(kind, f"({one.code} << {count} & {kind.most})")
        operand, name = self.atom(one.code), self.fresh()
        self.emit(f"{name} = {operand} << {count}")
        if one.range[0] < 0 or low < 0 or one.range[1] << min(high, kind.bits) > kind.most:
            self.emit(f"if {operand} < 0 or {name} > {kind.most}: shifted({operand}, {count}, {self.at(node)})")
        return Value(kind, name)

    def moved(self, pointer: Value, number: Value, sign: int, node: c_ast.Node) -> Value:
        """A pointer plus or minus elements; effects are the caller's."""
        assert isinstance(pointer.type, PointerTo) and isinstance(number.type, Integer)
        width = self.bytes_of(pointer.type.target)
        step = times(number.code, width if isinstance(width, int) else f"({width})")
        if sign < 0:
            step = str(-int(step)) if step.lstrip("-").isdigit() else f"-({step})"
        return Value(pointer.type, pointer.code, total(pointer.offset, step))

    def _pointers(self, op: str, one: Value, other: Value, node: c_ast.Node) -> Value:
        if op in ("+", "-") and isinstance(other.type, Integer):
            return self.moved(one, other, 1 if op == "+" else -1, node)
        if op == "+" and isinstance(one.type, Integer):
            return self.moved(other, one, 1, node)
        pointer = one.type if isinstance(one.type, PointerTo) else other.type
        one = self.settled(self.convert(one, pointer, node))
        other = self.settled(self.convert(other, pointer, node))
        if op in ("==", "!="):
            same = f"({one.code} is {other.code} and {one.offset} == {other.offset})"
            return Value(INT, same if op == "==" else f"(not {same})", bounds=(0, 1))
        if op == "-" or op in COMPARISONS:
            self.emit(f"if {one.code} is not {other.code}: two_objects({one.code}, {other.code}, {self.at(node)})")
            if op != "-":
                return Value(INT, f"({one.offset} {op} {other.offset})", bounds=(0, 1))
            assert isinstance(pointer, PointerTo)
            width = self.bytes_of(pointer.target)
            return Value(LONG, f"(({one.offset} - {other.offset}) // ({width}))")
        raise self.refuse(f"'{op}' of '{one.type}' and '{other.type}'", node)

    def unary(self, op: str, value: Value, node: c_ast.Node) -> Value:
        """`-`, `+`, `~` and `!` of a value."""
        if op == "!":
            if isinstance(value.constant, int | float):
                return self.number(int(not value.constant), INT).after(value.effects)
            return Value(INT, f"(not {self.truth(value)})", bounds=(0, 1), effects=value.effects)
        if isinstance(value.type, Vector):
            return self.vector_unary(op, value, node)
        if isinstance(value.type, Real) and op in ("-", "+"):
            if op == "+":
                return value
            if isinstance(value.constant, float):
                return replace(self.number(-value.constant, value.type), excess=value.excess, effects=value.effects)
            return replace(value, code=f"(-{value.code})", constant=None)  # before or after rounding is the same
        if not isinstance(value.type, Integer):
            raise self.refuse(f"'{op}' of '{value.type}'", node)
        kind = promoted(value.type)
        effects = value.effects
        value = self.convert(value, kind, node)
        if op == "-":
            return self._sum("-", self.number(0, kind), value, kind, node).after(effects)
        if op == "~":
            if isinstance(value.constant, int):
                return self.number(kind.wrapped(~value.constant), kind).after(effects)
            return Value(kind, f"(~{value.code})" if kind.signed else f"({value.code} ^ {kind.most})", effects=effects)
        return value

    def vector_unary(self, op: str, value: Value, node: c_ast.Node) -> Value:
        raise NotImplementedError

    def decayed(self, kind: CType) -> CType:
        """The type of a value: arrays and functions become pointers."""
        if isinstance(kind, Array):
            return PointerTo(kind.element)
        return PointerTo(kind) if isinstance(kind, Function) else kind

    def default_promoted(self, value: Value, node: c_ast.Node) -> Value:
        """An argument for `...`."""
        if isinstance(value.type, Integer):
            return self.convert(value, promoted(value.type), node)
        if isinstance(value.type, Real):
            return self.convert(value, DOUBLE, node)
        return value

    def arithmetic(self, kind: CType, node: c_ast.Node) -> Arithmetic:
        if isinstance(kind, Integer | Real):
            return kind
        raise self.refuse(f"'{kind}' where a number is wanted", node)


def _compared(op: str, one: int, other: int) -> bool:
    return {
        "<": one < other,
        ">": one > other,
        "<=": one <= other,
        ">=": one >= other,
        "==": one == other,
        "!=": one != other,
    }[op]
