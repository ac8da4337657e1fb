"""Right-hand sides: C expressions -> model.expr, collecting the reads."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.lower.raw import RawAccess
from polydl.frontend.meaning.affine import NotAffine, Value
from polydl.frontend.meaning.affine_terms import symbol_aff, universe
from polydl.frontend.meaning.data_subscripts import Chosen, Form, Subscript, form_of
from polydl.frontend.meaning.elements import Elements
from polydl.frontend.meaning.known_values import has_known_values, is_between_known
from polydl.frontend.meaning.library import LIBRARY_CONSTANTS
from polydl.frontend.meaning.lookup import Lookup, NeedsData
from polydl.frontend.meaning.narrow_types import check_argument, check_operands
from polydl.frontend.meaning.symbols import mentions, nodes
from polydl.frontend.text.chunks import STAND_INS
from polydl.model import isl
from polydl.model.conversions import conversion_of, converted
from polydl.model.expr import (
    AffineValue,
    Binary,
    Call,
    Conditional,
    Const,
    Convert,
    Expr,
    Gather,
    Load,
    Unary,
    on_operands,
)
from polydl.model.functions import result_of
from polydl.model.polynomials import Rational, whole
from polydl.model.types import (
    I32,
    I64,
    U32,
    ElementType,
    common,
    float_literal,
    promoted,
)

_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!=", "&&", "||"})


class Values(Elements):
    """Builds the value of one statement, and its list of reads."""

    def __init__(self, walk: Lookup) -> None:
        super().__init__(walk)
        self.accesses: list[RawAccess] = []
        self._exact = True

    def expression(self, node: Node, where: isl.Set) -> tuple[Expr, ElementType]:
        """The model of a value and its C type. Raises InputError."""
        affine = self._affine(node, where)
        if affine is not None:
            return affine
        match node:
            case c_ast.Constant():
                return self._constant(node)
            case c_ast.ID() | c_ast.ArrayRef():
                return self._load(node, where)
            case c_ast.UnaryOp(op="*"):
                return self._load(node, where)
            case c_ast.UnaryOp(op="+" | "-" | "!" | "~"):
                operand, ctype = self.expression(node.expr, where)
                check_operands(self.places, node, ctype)
                return Unary(node.op, operand), I32 if node.op == "!" else promoted(ctype)
            case c_ast.UnaryOp(op="&"):
                raise self.places.error(
                    "an address is taken",
                    node,
                    "statements of a scop work on array elements and scalars",
                    topic="pointers",
                )
            case c_ast.UnaryOp(op="p++" | "p--" | "++" | "--") | c_ast.Assignment() | c_ast.StructRef():
                raise self.refused(node)
            case c_ast.BinaryOp():
                return self._binary(node, where)
            case c_ast.TernaryOp():
                return self._conditional(node, where)
            case c_ast.Cast():
                target = self.walk.type_of(node.to_type)
                if not isinstance(target, ElementType):
                    raise self.places.error(
                        f"a cast to '{target.c}' is not arithmetic", node, "cast to arithmetic types", topic="types"
                    )
                operand, source = self.expression(node.expr, where)
                check_operands(self.places, node, source, target)
                return Convert(source, target, operand), target
            case c_ast.FuncCall():
                return self._call(node, where)
        raise self.places.error(
            "this expression is not supported in a scop",
            node,
            "use arithmetic on array elements and scalars",
            topic="types",
        )

    def _affine(self, node: Node, where: isl.Set) -> tuple[Expr, ElementType] | None:
        """The value as an affine integer expression of iterators and parameters, when it is one."""
        if isinstance(node, c_ast.Constant) or not self._integral(node):
            return None
        before, self.walk.in_value = self.walk.in_value, True
        try:
            value = self.evaluator.value(node, where)
        except NotAffine:
            return None
        finally:
            self.walk.in_value = before
        if value.pw is None:
            # A product of symbols is written as it stands; one that a variable holds, as what it holds.
            if isinstance(node, c_ast.ID) and value.rational is not None:
                return self._quotient(value.rational, value)
            return self._product(value) if isinstance(node, c_ast.ID) and value.poly else None
        if value.wrapped and not self.evaluator.is_counted(value, where):
            # the output's integers would overflow: C's own operators wrap as they should
            if isinstance(node, c_ast.ID) and not value.poly:
                raise NeedsData(node.name)
            return self._modulo(value) if value.poly and (isinstance(node, c_ast.ID) or not value.parts) else None
        expr: Expr = AffineValue(value.pw)
        return (expr if value.ctype is I32 else Convert(I64, value.ctype, expr)), value.ctype

    def _modulo(self, value: Value) -> tuple[Expr, ElementType]:
        """A polynomial of symbols as C computes it, modulo 2^bits."""
        if value.ctype.bits >= U32.bits:
            return self._product(value)
        return Convert(U32, value.ctype, self._product(replace(value, ctype=U32))[0]), value.ctype

    def _quotient(self, poly: Rational, value: Value) -> tuple[Expr, ElementType] | None:
        """A polynomial with fractions, as one of whole numbers that is divided: in `long`, which has room for what
        loops count to, and of which conversions keep what C keeps of narrower ones."""
        by = math.lcm(*(c.denominator for c in poly.values()))
        times = whole({monomial: c * by for monomial, c in poly.items()})
        if value.parts or times is None:
            return None

        def wide(one: Expr) -> Expr:
            return Convert(I32, I64, one) if isinstance(one, AffineValue) else on_operands(one, wide)

        dividend = wide(self._product(Value(None, times, I32))[0])
        return Convert(I64, value.ctype, Binary("/", dividend, Const(f"{by}l"))), value.ctype

    @staticmethod
    def _product(value: Value) -> tuple[Expr, ElementType]:
        """A polynomial of symbols, as C computes it."""

        def factor(name: str) -> Expr:
            named = value.parts.get(name)
            one: Expr = AffineValue(symbol_aff(name) if named is None else named)
            return one if value.ctype is I32 else Convert(I64, value.ctype, one)

        def number(size: int) -> Const:
            if size <= I32.maximum or not value.ctype.unsigned:
                return Const(str(size))
            return Const(f"{size % (value.ctype.maximum + 1)}{'u' if value.ctype.bits <= I32.bits else 'ul'}")

        whole: Expr | None = None
        for monomial, coefficient in sorted((value.poly or {}).items(), key=lambda term: (term[1] < 0, term[0])):
            parts = [factor(name) for name in monomial]
            if abs(coefficient) != 1 or not parts:
                parts.insert(0, number(abs(coefficient)))
            term = reduce(lambda left, right: Binary("*", left, right), parts)
            if whole is None:
                whole = term if coefficient > 0 else Unary("-", term)
            else:
                whole = Binary("+" if coefficient > 0 else "-", whole, term)
        assert whole is not None, "zero is affine"
        return whole, value.ctype

    def _integral(self, node: Node) -> bool:
        """Whether a subtree is made of integer identifiers and arithmetic alone, with at least one identifier."""
        if isinstance(node, c_ast.ID):
            return node.name not in LIBRARY_CONSTANTS and self.data(node) is None
        if isinstance(node, c_ast.BinaryOp) and node.op in _COMPARISONS:
            return False
        if isinstance(node, c_ast.Constant):
            return node.type != "string" and (node.type == "char" or float_literal(str(node.value)) is None)
        if isinstance(node, c_ast.Cast):
            return self.walk.type_of(node.to_type).is_int and self._integral(node.expr)
        if isinstance(node, c_ast.UnaryOp):
            return node.op == "sizeof" or (node.op in ("-", "+") and self._integral(node.expr))
        if isinstance(node, c_ast.BinaryOp):
            both = self._integral(node.left) and self._integral(node.right)
            return both and any(True for _ in mentions(node))
        if isinstance(node, c_ast.TernaryOp):
            return self._integral(node.iftrue) and self._integral(node.iffalse) and any(True for _ in mentions(node))
        return False

    def _constant(self, node: c_ast.Constant) -> tuple[Expr, ElementType]:
        if node.type == "string":
            raise self.places.error("a string is not a number", node, "use numbers", topic="types")
        if node.type == "char":
            return Const(node.value), I32
        text = str(node.value)
        found = float_literal(text)
        if found is not None:
            return Const(text), found
        try:
            return Const(text), self.evaluator.value(node, universe()).ctype
        except NotAffine as error:
            raise self.places.error(error.why, node, "use a smaller constant") from None

    def _load(self, node: Node, where: isl.Set) -> tuple[Expr, ElementType]:
        if isinstance(node, c_ast.ID) and node.name in LIBRARY_CONSTANTS and self.data(node) is None:
            return Const(node.name), LIBRARY_CONSTANTS[node.name]
        if isinstance(node, c_ast.ID) and node.name in self.walk.undecided:
            return Const(node.name), self.walk.undecided[node.name]
        with self._chosen_by_data():
            symbol, subscripts = self._element(node, where)
        assert isinstance(symbol.ctype, ElementType), "address() lets no others through"
        known, forms = self._known(subscripts, where)
        if not forms:
            self.accesses.append(RawAccess(symbol, False, known, where, node, self._exact))
            return Load(len(self.accesses) - 1), symbol.ctype
        values = tuple(self._of_subscript(one, node, where) for one in subscripts)
        self.accesses.append(RawAccess(symbol, False, known, where, node, self._exact, forms))
        return Gather(Load(len(self.accesses) - 1), values), symbol.ctype

    def form(self, value: Node | Subscript, where: isl.Set) -> Form:
        """What an integer is made of."""

        def named(name: str) -> str:
            return self.walk.pointers[name].place[0].name if name in self.walk.pointers else name

        return form_of(value, where, self.evaluator, named)

    def _of_subscript(self, subscript: Subscript, node: Node, where: isl.Set) -> Expr:
        """The value of a subscript of an element that data choose. Raises InputError."""
        parts = subscript.terms if isinstance(subscript, Chosen) else ((1, subscript),)
        whole: Expr | None = None
        for sign, part in parts:
            one = self._of_known(part, node) if isinstance(part, Value) else self.expression(part, where)[0]
            if whole is None:
                whole = one if sign == 1 else Unary("-", one)
            else:
                whole = Binary("+" if sign == 1 else "-", whole, one)
        assert whole is not None, "what data choose is written somewhere"
        return whole

    def _of_known(self, value: Value, node: Node) -> Expr:
        try:
            return AffineValue(self.evaluator.require(value, node))
        except NotAffine as error:
            raise self.not_affine("subscript", error, node) from None

    def written(self, node: Node, where: isl.Set) -> RawAccess:
        """The element that an assignment stores to; where data choose it, what they are is read. Raises InputError when
        it is none or its subscripts are not affine."""
        with self._chosen_by_data():
            symbol, subscripts = self._element(node, where)
        chosen = [one for one in subscripts if isinstance(one, Chosen)]
        if not all(self._from_arrays(term) for one in chosen for _, term in one.terms):
            self._hint = "give it what is chosen from an array in the statement, or leave this loop out of the region"
            self._element(node, where)  # raises
        for one in chosen:
            self._of_subscript(one, node, where)
        known, forms = self._known(subscripts, where)
        return RawAccess(symbol, True, known, where, node, self._exact, forms)

    def _from_arrays(self, term: Node | Value) -> bool:
        """Whether data choose with elements of arrays, with numbers of entries (`entries`), with integers whose values
        are known (`known_values`), or by arithmetic that wraps around on loop variables alone. Of others there is no
        telling which values they have when programs are measured."""
        if isinstance(term, Value):
            return True
        parts = [*nodes(term)]
        elements = any(isinstance(node, c_ast.ArrayRef) for node in parts)
        elements |= not any(isinstance(node, c_ast.FuncCall) for node in parts)
        for name in mentions(term):
            if name in self.walk.undecided:
                if name not in self.walk.entries and not is_between_known(name, self.walk):
                    return False
                elements = True
                continue
            symbol = self.data(c_ast.ID(name, term.coord))
            if symbol is not None and symbol.is_scalar:
                if not has_known_values(symbol.name, self.walk):
                    return False
                elements = True
        return elements

    def _known(
        self, subscripts: Iterable[Subscript], where: isl.Set
    ) -> tuple[tuple[Value | None, ...], tuple[tuple[int, Form], ...]]:
        """The subscripts, None for those that data choose, and what those are made of by their place."""
        several = tuple(subscripts)
        known = tuple(None if isinstance(one, Chosen) else one for one in several)
        return known, tuple((d, self.form(one, where)) for d, one in enumerate(several) if isinstance(one, Chosen))

    def _binary(self, node: c_ast.BinaryOp, where: isl.Set) -> tuple[Expr, ElementType]:
        left, left_type = self.expression(node.left, where)
        if node.op in ("&&", "||"):
            right, right_type = self._guarded(node.left, node.right, where, node.op == "&&")
            check_operands(self.places, node, left_type, right_type)
            return Binary(node.op, left, right), I32
        right, right_type = self.expression(node.right, where)
        check_operands(self.places, node, left_type, right_type)
        if node.op in _COMPARISONS:
            return Binary(node.op, left, right), I32
        ctype = promoted(left_type) if node.op in ("<<", ">>") else common(left_type, right_type)
        return Binary(node.op, left, right), ctype

    def _guarded(self, condition: Node, node: Node, where: isl.Set, holds: bool) -> tuple[Expr, ElementType]:
        """An operand evaluated only when a condition holds (or only when it does not)."""
        try:
            taken = self.evaluator.condition(condition, where)
            return self.expression(node, where.intersect(taken) if holds else where.subtract(taken))
        except NotAffine:
            before, self._exact = self._exact, False
            try:
                return self.expression(node, where)
            finally:
                self._exact = before

    def _conditional(self, node: c_ast.TernaryOp, where: isl.Set) -> tuple[Expr, ElementType]:
        condition, tested = self.expression(node.cond, where)
        then, then_type = self._guarded(node.cond, node.iftrue, where, True)
        otherwise, else_type = self._guarded(node.cond, node.iffalse, where, False)
        check_operands(self.places, node, tested, *(() if then_type is else_type else (then_type, else_type)))
        ctype = common(then_type, else_type)
        return Conditional(condition, then, otherwise, (then_type is ctype, else_type is ctype)), ctype

    def _call(self, node: c_ast.FuncCall, where: isl.Set) -> tuple[Expr, ElementType]:
        name = node.name.name if isinstance(node.name, c_ast.ID) else None
        result = None if name is None else self.walk.pure(name)
        if name is None or result is None:
            called = f"the call of '{name or 'a function pointer'}'"
            if name in STAND_INS and re.search(rf"\b{name}\b", self.places.source.text) is None:
                called = "a statement expression of GNU C, or of assembly,"
            raise self.places.error(
                f"the effects of {called} are unknown",
                node,
                "call functions of <math.h>, say that it is pure (--assume-pure, __attribute__((const))), or say what "
                "it computes with '#pragma polydl microkernel loops(...)'",
                topic="calls",
            )
        given: Iterable[Node] = node.args.exprs if node.args is not None else ()
        arguments = [self.expression(argument, where) for argument in given]
        conversion = conversion_of(name)
        if conversion is not None and len(arguments) == 1:
            ((operand, ctype),) = arguments
            source, target = conversion
            check_argument(self.places, node, source, ctype)
            return Convert(source, target, converted(operand, ctype, source)), target
        if result_of(name) is not None:
            check_operands(self.places, node, *(ctype for _, ctype in arguments))
        return Call(name, tuple(operand for operand, _ in arguments), result), result
