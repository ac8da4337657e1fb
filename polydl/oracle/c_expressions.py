"""Expressions of C, as Python."""

from __future__ import annotations

import re
from dataclasses import replace

from pycparser import c_ast

from polydl.oracle import c_arithmetic
from polydl.oracle.c_places import Places
from polydl.oracle.c_types import (
    BOOL,
    BRAIN,
    CHAR,
    DOUBLE,
    FLOAT,
    HALF,
    INT,
    LLONG,
    LONG,
    UINT,
    ULLONG,
    ULONG,
    Array,
    CType,
    Function,
    Integer,
    PointerTo,
    Real,
    Record,
    Vector,
    Void,
    alignment_of,
    common,
    is_scalar,
    unconstrained,
)
from polydl.oracle.c_values import NO_EFFECTS, Effects, Value

_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "a": 7, "b": 8, "f": 12, "v": 11, "\\": 92, "'": 39, '"': 34, "?": 63}
_CHARACTER = re.compile(r"\\x([0-9a-fA-F]+)|\\([0-7]{1,3})|\\(.)|(.)", re.DOTALL)
_REALS: dict[str, Real] = {"": DOUBLE, "f": FLOAT, "f16": HALF, "bf16": BRAIN, "f32": FLOAT, "f64": DOUBLE}


def _characters(text: str) -> bytes:
    """The bytes of what stands between quotes."""
    found = bytearray()
    for hexadecimal, octal, escape, plain in _CHARACTER.findall(text):
        if plain:
            found += plain.encode()
        else:
            found.append(int(hexadecimal, 16) & 255 if hexadecimal else int(octal, 8) if octal else _ESCAPES[escape])
    return bytes(found)


class Expressions(Places):
    """What expressions are translated to; each operand is translated once."""

    def value(self, node: c_ast.Node) -> Value:
        method = getattr(self, f"_of_{type(node).__name__}", None)
        if method is None:
            raise self.refuse(f"an expression of the kind {type(node).__name__}", node)
        found: Value = method(node)
        return found

    def call(self, node: c_ast.FuncCall) -> Value:
        raise NotImplementedError

    def block_value(self, node: c_ast.Compound) -> Value:
        raise NotImplementedError

    def _of_FuncCall(self, node: c_ast.FuncCall) -> Value:  # noqa: N802  # after the class of the node, as all below
        return self.call(node)

    def _of_Compound(self, node: c_ast.Compound) -> Value:  # noqa: N802
        return self.block_value(node)

    def _of_ID(self, node: c_ast.ID) -> Value:  # noqa: N802
        constant = self.enumerated(node)
        return constant if constant is not None else self.load(self.place(node))

    def _of_ArrayRef(self, node: c_ast.ArrayRef) -> Value:  # noqa: N802
        return self.load(self.place(node))

    def _of_StructRef(self, node: c_ast.StructRef) -> Value:  # noqa: N802
        return self.load(self.place(node))

    def _of_CompoundLiteral(self, node: c_ast.CompoundLiteral) -> Value:  # noqa: N802
        kind = self.type_of(node.type)
        if isinstance(kind, Vector):
            return self.vector_literal(node, kind)
        return self.load(self.literal(node))

    def vector_literal(self, node: c_ast.CompoundLiteral, kind: Vector) -> Value:
        raise NotImplementedError

    # Constants.

    def _of_Constant(self, node: c_ast.Constant) -> Value:  # noqa: N802
        text = node.value.replace("'", "") if node.value[:1].isdigit() or node.value[:1] == "." else node.value
        if "string" in node.type:
            return self.load(self.place(node))
        if node.type == "char":
            data = _characters(node.value[1:-1])
            return self.number(CHAR.wrapped(data[-1]) if len(data) == 1 else int.from_bytes(data, "big"), INT)
        if text in ("true", "false"):
            return self.number(int(text == "true"), BOOL)
        lowered = text.lower()
        hexadecimal = lowered.startswith("0x")
        if ("p" in lowered) if hexadecimal else ("." in lowered or "e" in lowered) and not lowered.startswith("0b"):
            return self._real_constant(node, lowered, hexadecimal)
        return self._integer_constant(node, lowered)

    def _real_constant(self, node: c_ast.Constant, text: str, hexadecimal: bool) -> Value:
        found = re.fullmatch(r"(0x[0-9a-f.]*p[+-]?[0-9]+|[0-9.]+(?:e[+-]?[0-9]+)?)(.*)", text)
        kind = _REALS.get(found[2]) if found else None
        if found is None or kind is None:
            raise self.refuse(f"the constant '{node.value}'", node)
        return self.number(c_arithmetic.real_constant(found[1], kind.code), kind)

    def _integer_constant(self, node: c_ast.Constant, text: str) -> Value:
        digits = text.rstrip("ul")
        suffix = text[len(digits) :]
        if suffix not in ("", "u", "l", "ul", "lu", "ll", "ull", "llu"):
            raise self.refuse(f"the constant '{node.value}'", node)
        decimal = digits[0] != "0" or digits == "0"
        base = 16 if digits[:2] == "0x" else 2 if digits[:2] == "0b" else 10 if decimal else 8
        number = int(digits[2:] if base in (16, 2) else digits, base)
        order = [INT, UINT, LONG, ULONG, LLONG, ULLONG]
        if "u" in suffix:
            order = [UINT, ULONG, ULLONG]
        elif decimal:
            order = [INT, LONG, LLONG]
        lengths = suffix.count("l")
        for kind in order:
            if kind.rank >= INT.rank + lengths and number <= kind.most:
                return self.number(number, kind)
        raise self.refuse(f"the constant '{node.value}' is too large", node)

    def string_bytes(self, node: c_ast.Constant) -> bytes:
        if not node.value.startswith('"'):
            raise self.refuse("a string of wide characters", node)
        parts = re.findall(r'"((?:[^"\\]|\\.)*)"', node.value, re.DOTALL)
        return b"".join(_characters(part) for part in parts) + b"\0"

    @property
    def kinds(self) -> dict[int, CType]:
        """Types that were found, by node."""
        raise NotImplementedError

    # Operators.

    def _of_UnaryOp(self, node: c_ast.UnaryOp) -> Value:  # noqa: N802
        op = node.op
        if op == "&":
            if isinstance(node.expr, c_ast.UnaryOp) and node.expr.op == "*":
                return self.value(node.expr.expr)
            return self.address(node.expr)
        if op == "*":
            return self.load(self.place(node))
        if op in ("++", "--", "p++", "p--"):
            return self._stepped(node)
        if op == "sizeof":
            return self._sizeof(node)
        if op in ("_Alignof", "alignof"):
            return self.number(alignment_of(self.type_of(node.expr)), ULONG)
        if op in ("-", "+", "~", "!"):
            return self.unary(op, self.value(node.expr), node)
        raise self.refuse(f"the operator '{op}'", node)

    def _sizeof(self, node: c_ast.UnaryOp) -> Value:
        if isinstance(node.expr, c_ast.Typename):
            kind = self.type_of(node.expr)
        elif isinstance(node.expr, c_ast.Constant) and "string" in node.expr.type:
            return self.number(len(self.string_bytes(node.expr)), ULONG)
        else:
            kind = self.type_in(node.expr)
        size = self.bytes_of(kind)
        return self.number(size, ULONG) if isinstance(size, int) else Value(ULONG, f"({size})")

    def _stepped(self, node: c_ast.UnaryOp) -> Value:
        place = self.fixed(self.place(node.expr))
        old = self.load(place)
        if "p" in node.op:  # the value that there was
            old = self._apart(old)
        op = node.op[-1]
        if isinstance(old.type, PointerTo):
            new = self.moved(old, self.number(1, INT), 1 if op == "+" else -1, node)
        else:
            new = self.convert(self._without(self.binary(op, old, self.number(1, INT), node)), old.type, node)
        stored = self.store(place, self._without(new), node, again=True)
        return old.after(stored.effects) if "p" in node.op else stored

    def _apart(self, value: Value) -> Value:
        """The value in names of its own, which no later assignment changes."""
        kind = value.type
        if isinstance(kind, PointerTo):
            return self.spread(f"({value.code}, {value.offset})", kind, value.effects)
        return self.spread(self.settled(value).code, kind, value.effects)

    def _without(self, value: Value) -> Value:
        return value.after(NO_EFFECTS)

    def _of_Assignment(self, node: c_ast.Assignment) -> Value:  # noqa: N802
        place = self.place(node.lvalue)
        if isinstance(place.type, Array | Function):
            raise self.refuse(f"an assignment to '{place.type}'", node)
        if node.op == "=":
            value = self.convert(self.value(node.rvalue), place.type, node)
            return self.store(place, value, node)
        place = self.fixed(place)
        right = self.value(node.rvalue)
        old = self.load(place)
        effects = self.together(node, place.effects, right.effects)
        new = self.binary(node.op[:-1], self._without(old), self._without(right), node)
        new = self.convert(new, place.type, node)
        # The read of the place comes with the write: only pending effects of the right side are in conflict with it.
        for one in right.effects.writes:
            self.conflict(place.touched(self.width(place)), one, node)
        return self.store(replace(place, effects=NO_EFFECTS), new.after(effects), node, again=True)

    def _of_BinaryOp(self, node: c_ast.BinaryOp) -> Value:  # noqa: N802
        if node.op in ("&&", "||"):
            return self._logical(node)
        one = self.value(node.left)
        return self.binary(node.op, one, self.value(node.right), node)

    def _logical(self, node: c_ast.BinaryOp) -> Value:
        left = self.value(node.left)
        if left.constant is not None and bool(left.constant) == (node.op == "||"):
            return self.number(int(node.op == "||"), INT).after(left.effects.ended())
        name = self.fresh()
        self.emit(f"{name} = {self.truth(left)}")
        effects, taken = left.effects.ended(), self.fresh()
        kept = len(self.lines)
        with self.block(f"if {name if node.op == '&&' else f'not {name}'}:"):
            right = self.value(node.right)
            self.emit(f"{name} = {self.truth(right)}")
            if right.effects.writes:
                self.emit(f"{taken} = True")
        if right.effects.writes:
            self._before(kept, [taken], "False")
        inner = right.effects.ended().under(taken) if right.effects.writes else right.effects
        self._before(kept, self._offsets(inner), "None")
        return Value(INT, f"({name} != 0)", bounds=(0, 1), effects=effects + inner)

    def _before(self, line: int, names: list[str], code: str) -> None:
        """Give names a value in front of a branch that may not give them one."""
        for name in dict.fromkeys(names):
            self.lines.insert(line, "    " * self._indent + f"{name} = {code}")

    def _offsets(self, effects: Effects) -> list[str]:
        """Names that stand for places of memory within a branch."""
        found = []
        if effects.writes:
            for one in (*effects.reads, *effects.writes):
                found += [
                    part for part in (one.obj, one.offset) if part is not None and re.fullmatch(r"t\d+[of]?", part)
                ]
        return found

    def _of_TernaryOp(self, node: c_ast.TernaryOp) -> Value:  # noqa: N802
        condition = self.value(node.cond)
        if condition.constant is not None:
            return self._chosen(node, condition)
        kind = self._arms_type(node)
        name, taken = self.fresh(), self.fresh()
        test = self.truth(condition)
        effects = condition.effects.ended()
        kept = len(self.lines)
        added: list[str] = []
        for opening, arm, truth in ((f"if {test}:", node.iftrue, "True"), ("else:", node.iffalse, "False")):
            with self.block(opening):
                value = self.convert(self.value(arm), kind, arm)
                if isinstance(kind, PointerTo):
                    self.emit(f"{name}o, {name}f = {value.code}, {value.offset}")
                elif not isinstance(kind, Void):
                    self.emit(f"{name} = {self.settled(value).code}")
                if value.effects.writes:
                    mark = f"{taken}{truth}"
                    self.emit(f"{mark} = True")
                    inner = value.effects.under(mark)
                    added += [mark, *self._offsets(inner)]
                else:
                    inner = value.effects
                effects = effects + inner
        self._before(kept, [one for one in added if not one.startswith(taken)], "None")
        self._before(kept, [one for one in added if one.startswith(taken)], "False")
        if isinstance(kind, Void):
            return self.nothing(effects)
        if isinstance(kind, PointerTo):
            return Value(kind, f"{name}o", f"{name}f", effects=effects)
        return Value(kind, name, effects=effects)

    def _chosen(self, node: c_ast.TernaryOp, condition: Value) -> Value:
        """`?:` whose condition is constant."""
        arm = node.iftrue if condition.constant else node.iffalse
        kind = self._arms_type(node)
        return self.convert(self.value(arm), kind, arm)

    def _arms_type(self, node: c_ast.TernaryOp) -> CType:
        one, other = self.type_of_value(node.iftrue), self.type_of_value(node.iffalse)
        if isinstance(one, Integer | Real) and isinstance(other, Integer | Real):
            return common(one, other)
        if isinstance(one, PointerTo) and isinstance(other, PointerTo):
            if isinstance(one.target, Void) != isinstance(other.target, Void):
                # A null pointer constant takes the other's type, any other `void *` gives `void *`.
                void, typed = (one, other) if isinstance(one.target, Void) else (other, one)
                arm = node.iftrue if isinstance(one.target, Void) else node.iffalse
                null = isinstance(arm, c_ast.Cast) and isinstance(arm.expr, c_ast.Constant) and arm.expr.value == "0"
                return typed if null else void
            return one
        for pointer, number in ((one, other), (other, one)):
            if isinstance(pointer, PointerTo) and isinstance(number, Integer):
                return pointer
        if isinstance(one, Void) or isinstance(other, Void):
            return Void()
        return one

    def type_of_value(self, node: c_ast.Node) -> CType:
        """The type that an expression's value has, arrays as pointers."""
        known = self.kinds.get(id(node))
        if known is None:
            kept, names = list(self.lines), dict(self.links)
            known = self.kinds[id(node)] = self.decayed(self.value(node).type)
            self.lines[:], self.links = kept, names
        return known

    def _of_ExprList(self, node: c_ast.ExprList) -> Value:  # noqa: N802
        effects = NO_EFFECTS
        for one in node.exprs[:-1]:
            effects = effects + self.value(one).effects.ended()
        last = self.value(node.exprs[-1])
        return replace(
            last,
            effects=Effects(effects.reads + last.effects.reads, effects.done + last.effects.done, last.effects.pending),
            constant=None if effects.writes else last.constant,
        )

    def _of_Cast(self, node: c_ast.Cast) -> Value:  # noqa: N802
        kind = self.type_of(node.to_type)
        if isinstance(kind, Void) and isinstance(node.expr, c_ast.ID):
            return self.nothing()  # `(void)x` keeps compilers silent: no compiler reads x for it
        value = self.value(node.expr)
        if isinstance(kind, PointerTo) and isinstance(value.type, PointerTo):
            return replace(value, type=unconstrained(kind, kind.target))
        if not is_scalar(kind) and not isinstance(kind, Void | Vector | Record):
            raise self.refuse(f"a cast to '{kind}'", node)
        return self.convert(value, kind, node)

    def _of_GenericSelection(self, node: c_ast.GenericSelection) -> Value:  # noqa: N802
        kind = self.type_of_value(node.expr)
        otherwise = None
        for one in node.associations:
            assert isinstance(one, c_ast.GenericAssociation)
            if one.type is None:
                otherwise = one.expr
            elif self.type_of(one.type) == kind:
                return self.value(one.expr)
        if otherwise is None:
            raise self.refuse(f"no association for '{kind}'", node)
        return self.value(otherwise)
