"""C integer expressions -> piecewise affine functions, with C's rules for division, sign and conversion.

Iterators and parameters alike are isl *parameters* of a zero-dimensional set space here, so that expressions of
different depths combine by name; `spaces.py` turns iterators into set dimensions at the end.

Overflow: signed overflow is undefined in C and taken not to happen. Unsigned sums, differences and products are kept
as the integers that they are modulo 2^bits (`Value.wrapped`); what observes the number itself asks whether it lies in
the range of its type (integer_ranges.py).
"""

from __future__ import annotations

import ast as python_ast
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import reduce

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.records import dataclass
from polydl.frontend.core.tree_parts import text_of
from polydl.frontend.meaning.affine_terms import constant_aff, poly_aff, symbol_aff, universe
from polydl.frontend.meaning.ctypes import CType, OtherType
from polydl.frontend.meaning.integer_ranges import Fit, counted, fit, least, outside
from polydl.frontend.meaning.symbols import Scope
from polydl.model import isl
from polydl.model.polynomials import (
    Poly,
    Rational,
    degree,
    is_integer_valued,
    poly_add,
    poly_mul,
    poly_number,
    rational,
    whole,
)
from polydl.model.types import BOOL, I32, U64, ElementType, common, integer_literal, promoted, spelled

_MAX_DIGITS = 40
_RELATIONS = {"<": "lt_set", "<=": "le_set", ">": "gt_set", ">=": "ge_set", "==": "eq_set", "!=": "ne_set"}


class NotAffine(Exception):
    """An expression is no affine function of iterators and parameters."""

    def __init__(
        self,
        why: str,
        node: Node,
        data: bool = False,
        hint: str | None = None,
        topic: str | None = None,
        wraps: bool = False,
        multiplied: Sequence[str] = (),
    ) -> None:
        super().__init__(why)
        self.why = why
        self.node = node
        self.data = data
        """It reads memory that the program writes or that is not an integer."""
        self.wraps = wraps
        """An integer in it may wrap around: C computes it all the same."""
        self.multiplied = multiplied
        """Variables that it multiplies with each other."""
        self.hint = hint
        self.topic = topic or ("depends-on-data" if data else "not-affine")


@dataclass(frozen=True, slots=True)
class Value:
    """An integer value. Affine ones have `pw`; products of symbols have `poly` only, or `rational`."""

    pw: isl.PwAff | None
    """{ [] -> [v] } over iterators and parameters as isl parameters."""
    poly: Poly | None
    """None when divisions, conditions or the like are in it, unless they are `parts`."""
    ctype: ElementType
    parts: Mapping[str, isl.PwAff] = field(default_factory=dict)
    """Names in `poly` that stand for functions with divisions or conditions, `clamp(i, 0, n - 1)` of
    `clamp(i, 0, n - 1) * n + j`. Equal names are equal functions."""
    wrapped: bool = False
    """Of an unsigned type: C's value is this one modulo 2^bits."""
    rational: Rational | None = None
    """Where the value is neither affine nor a polynomial of whole coefficients, that with fractions: a whole number all
    the same, as `i * (i + 1) / 2` is."""

    @property
    def constant(self) -> int | None:
        """The value when it is one number, else None."""
        if self.poly is not None:
            return self.poly.get((), 0) if all(monomial == () for monomial in self.poly) else None
        if self.pw is not None and self.pw.is_cst() and self.pw.n_piece() == 1:
            value = self.pw.max_val()
            return int(value.to_python()) if value.is_int() else None
        return None


class Symbols:
    """What identifiers mean in expressions: here, what is constant in a scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.evaluator = Evaluator(self)

    def integer(self, node: c_ast.ID) -> Value:
        """Value of the identifier `node`. Raises NotAffine."""
        found = self.scope.find(node.name)
        if found is None or found.integer is None or found.value is None:
            raise NotAffine(f"'{node.name}' is not constant", node)
        return number(found.value, found.integer)

    def address(self, node: c_ast.ID) -> Value:
        """Its value modulo 2^64 (`Evaluator.address`). Raises NotAffine."""
        return self.integer(node)

    @property
    def strict(self) -> bool:
        """Whether what may wrap around is computed as C does it: nothing has to be taken for granted."""
        return False

    def variable(self, name: str) -> tuple[ElementType, bool] | None:
        """The type of an integer variable, and whether it is a size, which no loop counts; None for other symbols."""
        found = self.scope.find(name)
        return None if found is None or found.integer is None else (found.integer, True)

    def ahead(self) -> bool:
        """Whether values are asked for that may never be reached: what wraps around is noted, and taken not to."""
        return False

    def grant(self, what: str, outside: isl.Set | None) -> None:
        """Note what is taken for granted, for people. `outside`: the values of symbols for which it does not hold, for
        which the output asks; None: those are not known."""

    def size_of(self, node: Node) -> int | None:
        """sizeof of an arithmetic type, scalar or element, or of an array of so many of them, in bytes; None of what is
        something else, or not known."""
        below = 0
        while isinstance(node, c_ast.ArrayRef) or (isinstance(node, c_ast.UnaryOp) and node.op == "*"):
            node = node.name if isinstance(node, c_ast.ArrayRef) else node.expr
            below += 1
        pointer = False
        if isinstance(node, c_ast.Typename):
            ctype, levels, _, _ = self.scope.resolve(node)
        elif isinstance(node, c_ast.ID) and (found := self.scope.find(node.name)) is not None:
            ctype, levels, pointer = found.ctype, found.levels, found.decays and not below
        else:
            return None
        size = 0 if pointer or len(levels) < below else ctype.bytes
        for level in levels[below:]:
            try:
                extent = None if level.extent is None else self.evaluator.number(level.extent)
            except NotAffine:
                extent = None
            size *= extent or 0
        return size or None

    def type_of(self, node: Node) -> CType:
        """The type that a Typename names."""
        ctype, levels, _, _ = self.scope.resolve(node)
        return ctype if not levels else OtherType("pointer")

    def call(self, node: c_ast.FuncCall, arguments: list[Value], where: isl.Set) -> Value:
        """What a call of a function of the file returns where `where` holds. Raises NotAffine."""
        raise NotAffine("it calls a function", node, data=True)


def symbol(name: str, ctype: ElementType) -> Value:
    """An identifier left symbolic."""
    return Value(symbol_aff(name), {(name,): 1}, ctype)


def number(value: int, ctype: ElementType = I32) -> Value:
    """A constant."""
    return Value(constant_aff(value), poly_number(value), ctype)


def tidy(of: isl.Set) -> isl.Set:
    """The same set in fewer pieces, convex when it is."""
    if of.n_basic_set() <= 1:
        return of
    of = of.coalesce()
    if of.n_basic_set() > 1:
        hull = isl.Set.from_basic_set(of.simple_hull())
        if hull.is_subset(of):
            return hull
    return of


def integer_constant(node: c_ast.Constant) -> Value:
    """Value of an integer or character literal. Raises NotAffine for others and for absurdly long ones."""
    text = str(node.value)
    if node.type == "char" or text.startswith("'"):
        try:
            character = python_ast.literal_eval(text)
        except (ValueError, SyntaxError) as error:
            raise NotAffine(f"the character constant {text} is not understood", node) from error
        return number(ord(character), I32)
    found = integer_literal(text) if len(text) <= _MAX_DIGITS else None
    if found is None:
        raise NotAffine("the integer constant does not fit any type", node)
    return number(*found)


def constant(node: Node, scope: Scope) -> int | None:
    """Value of a constant expression, of enumerators, constants with such values and literals; None when it is not
    constant."""
    try:
        return Symbols(scope).evaluator.number(node)
    except NotAffine:
        return None


class Evaluator:
    """Evaluates integer expressions and conditions where a set of symbol values holds."""

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols
        self.wraps: list[tuple[isl.Set, isl.Set]] = []
        """Where values would wrap around below zero, and where they are evaluated: what was refused for that."""

    def affine(self, node: Node, where: isl.Set) -> isl.PwAff:
        """The affine value of an expression. Raises NotAffine."""
        return self.require(self.observed(self.value(node, where), node, where), node)

    def number(self, node: Node) -> int | None:
        """The value of an expression where it is one number, else None. Raises NotAffine."""
        return self.observed(self.value(node, universe()), node, universe()).constant

    def require(self, value: Value, node: Node) -> isl.PwAff:
        """The affine function of a value. Raises NotAffine on a product of symbols."""
        if value.pw is None:
            poly = value.poly if value.rational is None else value.rational
            names = sorted({name for monomial in poly or {} if len(monomial) > 1 for name in monomial})
            names = [name for name in names if name not in value.parts]
            what = " and ".join(f"'{name}'" for name in names) or "variables"
            hint = "give sizes to parameters with -D or --size, or use a 2-D array"
            raise NotAffine(f"it multiplies {what}", node, hint=hint, multiplied=names)
        return value.pw

    def value(self, node: Node, where: isl.Set) -> Value:
        """The integer value of an expression, evaluated only where `where` holds, perhaps `wrapped`. Raises
        NotAffine."""
        if isinstance(node, c_ast.Constant):
            literal = spelled(node.type)
            if node.type == "string" or (literal is not None and not literal.is_int):
                raise NotAffine(f"'{node.value}' is not an integer", node)
            return integer_constant(node)
        if isinstance(node, c_ast.ID):
            return self.symbols.integer(node)
        if isinstance(node, c_ast.UnaryOp):
            return self._unary(node, where)
        if isinstance(node, c_ast.BinaryOp):
            if node.op in _RELATIONS or node.op in ("&&", "||"):
                return self._truth(self.condition(node, where))
            return self._arithmetic(node, self.value(node.left, where), self.value(node.right, where), where)
        if isinstance(node, c_ast.TernaryOp):
            return self._ternary(node, where)
        if isinstance(node, c_ast.Cast):
            return self.convert(self.value(node.expr, where), self.symbols.type_of(node.to_type), node, where)
        if isinstance(node, c_ast.ArrayRef):
            raise NotAffine("it reads an array", node, data=True)
        if isinstance(node, c_ast.FuncCall):
            arguments = [self.value(one, where) for one in (node.args.exprs if node.args is not None else ())]
            return self.symbols.call(node, arguments, where)
        if isinstance(node, c_ast.StructRef):
            raise NotAffine("it reads a struct member", node, data=True, hint="copy the member to a local variable")
        raise NotAffine("it has side effects or is no integer expression", node)

    def address(self, node: Node, where: isl.Set) -> Value:
        """The value of an expression that moves an address, evaluated only where `where` holds. Raises NotAffine.

        An address keeps of it what is left modulo 2^64: sums and products of unsigned numbers of 64 bits may wrap
        around on their way, and numbers that become such may be negative (`p + (size_t)i * k` where no `k` is
        known to be positive).
        """
        found = self._moving(node, where)
        return found if found.ctype == U64 else self.observed(found, node, where, subscript=True)

    def _moving(self, node: Node, where: isl.Set) -> Value:
        match node:
            case c_ast.ID():
                return self.symbols.address(node)
            case c_ast.BinaryOp(op="+" | "-" | "*"):
                left, right = self._moving(node.left, where), self._moving(node.right, where)
                return self._arithmetic(node, left, right, where)
            case c_ast.UnaryOp(op="-"):
                return self._minus(node, self._moving(node.expr, where), where)
            case c_ast.Cast():
                ctype = self.symbols.type_of(node.to_type)
                if isinstance(ctype, ElementType) and ctype.is_int and ctype.bits == U64.bits:
                    made = self.convert(self._moving(node.expr, where), U64, node.expr, where)
                    return replace(made, ctype=ctype, wrapped=made.wrapped and ctype.unsigned)
        return self.value(node, where)

    def condition(self, node: Node, where: isl.Set) -> isl.Set:
        """The symbol values for which a condition holds (meaningful inside `where`). Raises NotAffine."""
        if isinstance(node, c_ast.BinaryOp) and node.op in ("&&", "||"):
            left = self.condition(node.left, where)
            if node.op == "&&":
                return tidy(left.intersect(self.condition(node.right, where.intersect(left))))
            return tidy(left.union(self.condition(node.right, where.subtract(left))))
        if isinstance(node, c_ast.UnaryOp) and node.op == "!":
            return tidy(self.condition(node.expr, where).complement())
        if isinstance(node, c_ast.BinaryOp) and node.op in _RELATIONS:
            left_value, right_value = self.value(node.left, where), self.value(node.right, where)
            ctype = common(left_value.ctype, right_value.ctype)
            left_value = self.observed(self.convert(left_value, ctype, node.left, where), node.left, where)
            right_value = self.observed(self.convert(right_value, ctype, node.right, where), node.right, where)
            left_pw, right_pw = self.require(left_value, node.left), self.require(right_value, node.right)
            holds: isl.Set = getattr(left_pw, _RELATIONS[node.op])(right_pw)
            return tidy(holds) if node.op != "!=" else holds
        return self.affine(node, where).non_zero_set()

    def convert(self, value: Value, ctype: CType, node: Node, where: isl.Set) -> Value:
        """Integer conversion. Raises NotAffine when it may change the value, and not to that modulo 2^bits."""
        if not isinstance(ctype, ElementType) or not ctype.is_int:
            raise NotAffine(f"it is converted to '{ctype.c}'", node)
        own, constant = value.ctype, value.constant
        if constant is not None and value.wrapped:
            constant = self.observed(value, node, where).constant  # -1u is 2^32 - 1 in wider types, too
        if constant is not None and ctype == BOOL:
            return number(int(bool(constant)), BOOL)
        if constant is not None and (ctype.unsigned or least(ctype) <= constant <= ctype.maximum):
            return _modulo(number(constant, ctype))
        if ctype.bits > own.bits and own.unsigned and ctype != BOOL:
            return replace(self.observed(value, node, where), ctype=ctype)
        if ctype.unsigned and ctype != BOOL:
            same = own.unsigned and own.bits == ctype.bits
            return replace(value, ctype=ctype, wrapped=value.wrapped or not same)
        value = self.observed(value, node, where)
        if ctype.bits >= own.bits and not own.unsigned and ctype != BOOL:
            return replace(value, ctype=ctype)
        self.require(value, node)
        return self._in_range(replace(value, ctype=ctype), node, where)

    def observed(self, value: Value, node: Node, where: isl.Set, *, subscript: bool = False) -> Value:
        """A value as the integer that it is in C. Raises NotAffine where it may wrap around."""
        if not value.wrapped:
            return value
        constant = value.constant
        if constant is not None:
            return number(constant % (value.ctype.maximum + 1), value.ctype)
        return self._in_range(value, node, where, subscript=subscript)

    def _in_range(self, value: Value, node: Node, where: isl.Set, *, subscript: bool = False) -> Value:
        """A value that lies in the range of its type where `where` holds. Raises NotAffine."""
        ctype, kept = value.ctype, replace(value, wrapped=False)
        wide = ctype.bits >= I32.bits
        if value.pw is None:
            if self.symbols.ahead():
                return kept
            if self.symbols.strict or not wide:
                raise self._wraps(Fit.BEYOND, ctype, node)
            self._take(ctype, node, None)
            return kept
        names = {*isl.involved_parameters(value.pw), *isl.involved_parameters(where)}
        known = {name: own for name in names if (own := self.symbols.variable(name)) is not None}
        types = {name: type_ for name, (type_, _) in known.items()}
        sizes = frozenset(name for name, (_, size) in known.items() if size)
        found = fit(value.pw, ctype, where, types, sizes, subscript=subscript)
        if found is not Fit.SURE and self.symbols.ahead():
            return kept
        if found is Fit.BELOW and ctype.unsigned:
            self.wraps.append((where.intersect(value.pw.lt_set(constant_aff(0))), where))
        if found is Fit.TAKEN and not self.symbols.strict:
            counters = {name: own for name, own in types.items() if name not in sizes}
            self._take(ctype, node, outside(value.pw, ctype, where, counters))
        elif found is not Fit.SURE:
            raise self._wraps(found, ctype, node)
        return kept

    def _take(self, ctype: ElementType, node: Node, outside: isl.Set | None) -> None:
        if ctype.bits <= I32.bits:  # no size is near 2^63
            self.symbols.grant(f"'{text_of(node)}' does not leave the range of '{ctype.c}'", outside)

    def _wraps(self, found: Fit, ctype: ElementType, node: Node) -> NotAffine:
        """That a value is none of its type."""
        computed = isinstance(node, c_ast.BinaryOp | c_ast.UnaryOp)
        hint = "use int, or state what is known with '#pragma polydl assume(...)'"
        if not ctype.unsigned or ctype.bits < I32.bits:
            why = f"the value may not fit '{ctype.c}'"
        elif found is Fit.BELOW and computed:
            why = f"this '{ctype.c}' may go below zero and would wrap around"
        elif found is Fit.BELOW:
            why = f"the value may be negative where '{ctype.c}' is expected and would wrap around"
        else:
            why = f"this '{ctype.c}' may exceed {ctype.maximum} and would wrap around"
            hint = "use a wider type, or state what is known with '#pragma polydl assume(...)'"
        return NotAffine(why, node, hint=hint, topic="integers", wraps=found is Fit.BEYOND)

    def is_counted(self, value: Value, where: isl.Set) -> bool:
        """Whether integers with which the output counts hold a value before it is taken modulo 2^bits."""
        if value.pw is None:
            return False
        names = {*isl.involved_parameters(value.pw), *isl.involved_parameters(where)}
        known = {name: self.symbols.variable(name) for name in names}
        sizes = frozenset(name for name, found in known.items() if found is None or found[1])
        return counted(value.pw, value.ctype, where, sizes)

    def _truth(self, holds: isl.Set) -> Value:
        one = constant_aff(1).intersect_domain(holds)
        zero = constant_aff(0).intersect_domain(holds.complement())
        return Value(one.union_add(zero), None, I32)

    def _unary(self, node: c_ast.UnaryOp, where: isl.Set) -> Value:
        if node.op == "!":
            return self._truth(self.condition(node, where))
        if node.op == "sizeof":
            size = self.symbols.size_of(node.expr)
            if size is None:
                raise NotAffine("the size of this type is not known", node)
            return number(size, U64)
        if node.op == "*":
            raise NotAffine("it reads through a pointer", node, data=True)
        if node.op not in ("-", "+", "~"):
            raise NotAffine("it has side effects" if node.op != "&" else "it takes an address", node)
        operand = self.value(node.expr, where)
        if node.op == "+":
            return self.convert(operand, promoted(operand.ctype), node.expr, where)
        minus = self._minus(node, operand, where)
        return minus if node.op == "-" else self.combine(minus, number(1, minus.ctype), -1, minus.ctype)

    def _minus(self, node: c_ast.UnaryOp, operand: Value, where: isl.Set) -> Value:
        operand = self.convert(operand, promoted(operand.ctype), node.expr, where)
        return self.combine(number(0, operand.ctype), operand, -1, operand.ctype)

    def combine(self, left: Value, right: Value, factor: int, ctype: ElementType) -> Value:
        """left + factor * right, factor 1 or -1."""
        if left.rational is not None or right.rational is not None:
            sum_ = poly_add(as_rational(left), as_rational(right), factor)
            return polynomial_value(sum_, ctype, {**left.parts, **right.parts})
        if left.pw is None or right.pw is None:
            left, right = _polynomial(left), _polynomial(right)
        parts = {**left.parts, **right.parts}
        poly = None if left.poly is None or right.poly is None else poly_add(left.poly, right.poly, factor)
        pw = None
        if left.pw is not None and right.pw is not None:
            pw = left.pw.add(right.pw) if factor == 1 else left.pw.sub(right.pw)
        if pw is None and poly is not None and all(len(monomial) <= 1 for monomial in poly):
            pw = poly_aff(poly, parts)
        return _modulo(Value(pw, poly, ctype, parts))

    def _arithmetic(self, node: c_ast.BinaryOp, left: Value, right: Value, where: isl.Set) -> Value:
        if node.op in ("<<", ">>"):
            ctype = promoted(left.ctype)
            left = self.convert(left, ctype, node.left, where)
            right = self.observed(right, node.right, where)
        else:
            ctype = common(left.ctype, right.ctype)
            left = self.convert(left, ctype, node.left, where)
            right = self.convert(right, ctype, node.right, where)
        if node.op in "&|^":
            right = self.observed(right, node.right, where)
            left = left if left.constant is None else self.observed(left, node.left, where)
        a, b = left.constant, right.constant
        match node.op:
            case "+" | "-":
                return self.combine(left, right, 1 if node.op == "+" else -1, ctype)
            case "*":
                return self.product(left, right, ctype)
            case "/" | "%":
                return self._division(left, right, ctype, node, where)
            case "<<" | ">>" if b is not None and 0 <= b < ctype.bits:
                if node.op == "<<":
                    return self.product(left, number(1 << b, ctype), ctype)
                exact = self._exact_quotient(left, 1 << b, ctype, node, where)
                if exact is not None:
                    return exact
                left = self.observed(left, node.left, where)
                shifted = self.require(left, node.left).scale_down_val(isl.value(1 << b)).floor()
                return Value(shifted, None, ctype)
            case "&" if b is not None and b >= 0 and b & (b + 1) == 0:
                # the low digits, which in two's complement are those of the remainder
                pw = self.require(left, node.left).mod_val(isl.value(b + 1))
                return Value(pw, None, ctype, wrapped=left.wrapped and b > ctype.maximum)
            case "&" | "|" | "^" if a is not None and b is not None:
                return number({"&": a & b, "|": a | b, "^": a ^ b}[node.op], ctype)
        raise NotAffine(f"'{node.op}' of values that are not constant", node)

    def product(self, left: Value, right: Value, ctype: ElementType) -> Value:
        """left * right."""
        if left.rational is not None or right.rational is not None:
            both = poly_mul(as_rational(left), as_rational(right))
            return polynomial_value(both, ctype, {**left.parts, **right.parts})
        for one, other in ((left, right), (right, left)):
            factor = one.constant
            if factor is not None:
                pw = None if other.pw is None else other.pw.scale_val(isl.value(factor))
                poly = None if other.poly is None else poly_mul(other.poly, poly_number(factor))
                return _modulo(Value(pw, poly, ctype, other.parts))
        left, right = _polynomial(left), _polynomial(right)
        assert left.poly is not None and right.poly is not None
        return _modulo(Value(None, poly_mul(left.poly, right.poly), ctype, {**left.parts, **right.parts}))

    def _division(self, left: Value, right: Value, ctype: ElementType, node: c_ast.BinaryOp, where: isl.Set) -> Value:
        right = self.observed(right, node.right, where)
        divisor = right.constant
        if node.op == "%" and divisor and ctype.unsigned and divisor & (divisor - 1) == 0 and left.constant is None:
            return Value(self.require(left, node.left).mod_val(isl.value(divisor)), None, ctype)
        exact = self._exact_quotient(left, divisor, ctype, node, where) if node.op == "/" and divisor else None
        if exact is not None:
            return exact
        left = self.observed(left, node.left, where)
        if divisor is None:
            return self._near_division(left, right, ctype, node, where)
        if divisor == 0:
            raise NotAffine("division by zero", node.right)
        a = left.constant
        if a is not None:
            quotient = abs(a) // abs(divisor) * (1 if (a < 0) == (divisor < 0) else -1)
            return number(quotient if node.op == "/" else a - quotient * divisor, ctype)
        pw = self.require(left, node.left)
        size = constant_aff(abs(divisor))
        if node.op == "%":
            result = pw.tdiv_r(size)
        else:
            result = pw.tdiv_q(size)
            if divisor < 0:
                result = result.neg()
        # C truncates towards zero: two pieces, of which usually one survives where the expression is evaluated
        return Value(result.gist(where).coalesce() if result.n_piece() > 1 else result, None, ctype)

    def _exact_quotient(
        self, left: Value, divisor: int, ctype: ElementType, node: c_ast.BinaryOp, where: isl.Set
    ) -> Value | None:
        """The quotient of a polynomial whose values are all multiples of the divisor, `i * (i + 1) / 2`; None of
        others. Raises NotAffine for an unsigned one that may be below zero, or is not known not to be."""
        if left.pw is not None or left.parts:
            return None
        quotient = {monomial: coefficient / divisor for monomial, coefficient in as_rational(left).items()}
        if not is_integer_valued(quotient):
            return None
        if left.wrapped:
            if not self._has_factors_of_one_sign(node.left, where):
                raise self._wraps(Fit.BELOW, left.ctype, node.left)
            self.observed(left, node.left, where)
        return polynomial_value(quotient, ctype, {})

    def _has_factors_of_one_sign(self, node: Node, where: isl.Set) -> bool:
        """Whether an expression is a product of affine values, neither of which is below zero where the other is above
        it."""
        while isinstance(node, c_ast.Cast):
            node = node.expr
        if not isinstance(node, c_ast.BinaryOp) or node.op != "*":
            return False
        one, other = self.value(node.left, where).pw, self.value(node.right, where).pw
        if one is None or other is None:
            return False
        zero = constant_aff(0)
        apart = one.lt_set(zero).intersect(other.gt_set(zero)).union(one.gt_set(zero).intersect(other.lt_set(zero)))
        return bool(where.is_disjoint(apart))

    def _near_division(
        self, left: Value, right: Value, ctype: ElementType, node: c_ast.BinaryOp, where: isl.Set
    ) -> Value:
        """Quotient or remainder by a positive value that is not constant, as in `(i + 1 + n) % n`, where the quotient
        is from -3 to 3: a piece for each that occurs. Raises NotAffine for others."""
        dividend, divisor = self.require(left, node.left), right.pw
        why = f"'{node.op}' by a value that is not constant"
        hint = "give sizes to parameters with -D or --size, or divide what lies within four times the divisor"
        if divisor is None or not where.is_disjoint(divisor.le_set(constant_aff(0))):
            raise NotAffine(why, node.right, hint=hint)
        pieces: list[isl.PwAff] = []
        left_out = where
        for quotient in (0, 1, -1, 2, -2, 3, -3):
            # C truncates towards zero: quotient * divisor is the nearest multiple on the way there.
            rest = dividend.sub(divisor.scale_val(isl.value(quotient)))
            inside = rest.lt_set(divisor).intersect(rest.neg().lt_set(divisor))
            if quotient:
                inside = inside.intersect(rest.scale_val(isl.value(quotient)).ge_set(constant_aff(0)))
            value = rest if node.op == "%" else constant_aff(quotient)
            pieces.append(value.intersect_domain(inside.intersect(left_out)))
            left_out = left_out.subtract(inside)
            if left_out.is_empty():
                break
        else:
            raise NotAffine(why, node.right, hint=hint)
        result = reduce(isl.PwAff.union_add, pieces)
        return Value(result.gist(where).coalesce(), None, ctype)

    def _ternary(self, node: c_ast.TernaryOp, where: isl.Set) -> Value:
        holds = self.condition(node.cond, where)
        otherwise = holds.complement()
        then_value = self.value(node.iftrue, where.intersect(holds))
        else_value = self.value(node.iffalse, where.intersect(otherwise))
        ctype = common(then_value.ctype, else_value.ctype)
        then_value = self.convert(then_value, ctype, node.iftrue, where.intersect(holds))
        else_value = self.convert(else_value, ctype, node.iffalse, where.intersect(otherwise))
        if where.is_subset(holds):
            return then_value
        if where.is_disjoint(holds):
            return else_value
        then_pw, else_pw = self.require(then_value, node.iftrue), self.require(else_value, node.iffalse)
        merged = then_pw.intersect_domain(holds).union_add(else_pw.intersect_domain(otherwise))
        return Value(merged.coalesce(), None, ctype, wrapped=then_value.wrapped or else_value.wrapped)


def _modulo(value: Value) -> Value:
    """A number, a sum or a product: of an unsigned type it is known modulo 2^bits alone."""
    constant = value.constant
    known = not value.ctype.unsigned or (constant is not None and 0 <= constant <= value.ctype.maximum)
    return value if known else replace(value, wrapped=True)


def as_rational(value: Value) -> Rational:
    """The value as a polynomial with fractions, perhaps of one part."""
    return value.rational if value.rational is not None else rational(_polynomial(value).poly or {})


def polynomial_value(poly: Rational, ctype: ElementType, parts: Mapping[str, isl.PwAff]) -> Value:
    """A polynomial that is a whole number wherever it is asked for. `parts`: as in Value."""
    plain = whole(poly)
    if plain is None:
        return _modulo(Value(None, None, ctype, parts, rational=poly))
    pw = poly_aff(plain, parts) if degree(plain) <= 1 else None
    return _modulo(Value(pw, plain, ctype, parts))


def _polynomial(value: Value) -> Value:
    """The value as a polynomial, perhaps of one part."""
    if value.poly is not None:
        return value
    assert value.pw is not None, "values have one of the two"
    name = f"({value.pw})"
    return replace(value, poly={(name,): 1}, parts={name: value.pw})
