"""Vectors of GNU C: a value is a tuple of its lanes. Integer lanes wrap around, as gcc's sanitizer lets them."""

from __future__ import annotations

from pycparser import c_ast

from polydl.oracle.c_conversions import COMPARISONS
from polydl.oracle.c_statements import Statements
from polydl.oracle.c_types import INT, LONG, SCHAR, SHORT, CType, Integer, Real, Vector
from polydl.oracle.c_values import Value

_MASKS = {1: SCHAR, 2: SHORT, 4: INT, 8: LONG}
"""Elements of what a comparison gives, by their bytes."""


def _wrapped(code: str, kind: Integer) -> str:
    if not kind.signed:
        return f"({code}) & {kind.most}"
    return f"(({code}) + {kind.most + 1} & {2 * kind.most + 1}) - {kind.most + 1}"


class Vectors(Statements):
    """Operations on vectors."""

    def convert_vector(self, value: Value, to: CType, node: c_ast.Node) -> Value:
        """The same bytes as another type; a number only where an operand is spread to all lanes."""
        kind = value.type
        if isinstance(kind, Vector) and kind == to:
            return Value(to, value.code, effects=value.effects)
        if isinstance(kind, Vector) and isinstance(to, Vector | Integer) and kind.size == to.size:
            code = to.element.code if isinstance(to, Vector) else to.code
            found = f"lanes_of(bytes_of({value.code}, {kind.element.code!r}), {code!r}, {self.at(node)})"
            return self.spread(found if isinstance(to, Vector) else f"{found}[0]", to, value.effects)
        if isinstance(to, Vector) and isinstance(kind, Integer) and kind.size == to.size:
            found = f"lanes_of(bytes_of(({value.code},), {kind.code!r}), {to.element.code!r}, {self.at(node)})"
            return self.spread(found, to, value.effects)
        raise self.refuse(f"'{kind}' converted to '{to}'", node)

    def lanes_converted(self, value: Value, to: Vector, node: c_ast.Node) -> Value:
        """`__builtin_convertvector`."""
        assert isinstance(value.type, Vector)
        source, target = value.type.element, to.element
        if isinstance(target, Real):
            convert = f"to_real(x, {target.code!r})" if isinstance(source, Integer) else f"ROUND[{target.code!r}](x)"
        elif isinstance(source, Integer):
            convert = _wrapped("x", target)
        else:
            convert = f"lane_to_integer(x, {target.least}, {target.most}, {self.at(node)})"
        return self.spread(f"tuple([{convert} for x in {value.code}])", to, value.effects)

    def _lanes(self, value: Value, kind: Vector, node: c_ast.Node) -> Value:
        """An operand of a vector's operator: a number goes to all lanes."""
        if isinstance(value.type, Vector):
            if value.type.size != kind.size or value.type.lanes != kind.lanes:
                raise self.refuse(f"an operator of '{value.type}' and '{kind}'", node)
            return value
        number = self.settled(self.convert(value, kind.element, node))
        return Value(kind, f"(({number.code},) * {kind.lanes})", effects=value.effects)

    def vector_operation(self, op: str, one: Value, other: Value, node: c_ast.Node) -> Value:
        kind = one.type if isinstance(one.type, Vector) else other.type
        assert isinstance(kind, Vector)
        one, other = self._lanes(one, kind, node), self._lanes(other, kind, node)
        element = kind.element
        at = self.at(node)
        if op in COMPARISONS:
            code, kind = f"-(x {op} y)", Vector(_MASKS[element.size], kind.lanes)
        elif isinstance(element, Real):
            if element.size < 4 or op not in ("+", "-", "*", "/"):
                raise self.refuse(f"'{op}' of '{kind}'", node)
            code = "divided(x, y)" if op == "/" else f"x {op} y"
            code = f"to_float({code})" if element.code == "f4" else code
        elif op in ("+", "-", "*"):
            code = _wrapped(f"x {op} y", element)
        elif op in ("&", "|", "^"):
            code = f"x {op} y"
        elif op == "<<":
            code = _wrapped(f"x << lane_count(y, {element.bits}, {at})", element)
        elif op == ">>":
            code = f"x >> lane_count(y, {element.bits}, {at})"
        else:
            code = _wrapped(f"lane_{'quotient' if op == '/' else 'remainder'}(x, y, {at})", element)
        return self.spread(f"tuple([{code} for x, y in zip({one.code}, {other.code})])", kind)

    def vector_unary(self, op: str, value: Value, node: c_ast.Node) -> Value:
        kind = value.type
        assert isinstance(kind, Vector)
        element = kind.element
        code = f"{op}x" if isinstance(element, Real) else _wrapped(f"{op}x", element)
        return self.spread(f"tuple([{code} for x in {value.code}])", kind, value.effects)
