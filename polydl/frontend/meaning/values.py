"""Right-hand sides: C expressions -> model.expr, collecting the reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pycparser import c_ast

from polydl.base.errors import InputError
from polydl.frontend.lower.raw import RawAccess
from polydl.frontend.meaning.affine import Evaluator, NotAffine, Value, number, symbol_aff, universe
from polydl.frontend.meaning.chosen import Chosen, Form, Subscript, added, form_of
from polydl.frontend.meaning.ctypes import CType
from polydl.frontend.meaning.library import LIBRARY_CONSTANTS, PURE
from polydl.frontend.meaning.narrow import check_argument, check_operands
from polydl.frontend.meaning.symbols import Symbol, mentions, nodes
from polydl.frontend.text.places import Places
from polydl.model import isl
from polydl.model.conversions import conversion_of, converted
from polydl.model.expr import AffineValue, Binary, Call, Conditional, Const, Convert, Expr, Gather, Load, Unary
from polydl.model.scop import Storage
from polydl.model.types import (
    I32,
    I64,
    ElementType,
    common,
    float_literal,
    promoted,
)

PINNED_HINT = "accesses to it cannot be reordered, nor made by other threads"
_SIDE_EFFECT = "an expression has a side effect"
_OWN_STATEMENT = "write the update as its own statement"
_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!=", "&&", "||"})


Place = tuple[Symbol, list[Subscript], Subscript | None]
"""A place in an array: the array, the subscripts of a row or element, and how far from its first element on."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer that the region declares and does not change: another name for a part of an array."""

    symbol: Symbol
    place: Place
    """What `Values.pointed_at` says of what it was given."""
    known: Mapping[str, tuple[Value, Any] | None]
    """What was known, where it was declared, of the integers that say where it points."""


class Values:
    """Builds the value of one statement, and its list of reads."""

    def __init__(
        self,
        evaluator: Evaluator,
        places: Places,
        data: Callable[[Any], Symbol | None],
        type_of: Callable[[Any], CType],
        pure: Callable[[str], ElementType | None],
        pointers: Mapping[str, Pointer],
        undecided: Mapping[str, ElementType],
        changed: frozenset[str],
    ) -> None:
        self.evaluator = evaluator
        self.places = places
        self.data = data
        """The array or data scalar that an identifier names; None for an integer known to the polyhedral model."""
        self.type_of = type_of
        self.pure = pure
        self.pointers = pointers
        """By name, the pointers that the region declares."""
        self.undecided = undecided
        """The types of the loop variables around whose bounds data decide."""
        self.changed = changed
        """Names that the function assigns to anywhere, initialisers apart."""
        self.accesses: list[RawAccess] = []
        self._exact = True
        self._choosing = False
        """Data may choose a subscript."""
        self._hint: str | None = None
        """The way out of a subscript that data choose where they may not."""

    def expression(self, node: Any, where: isl.Set) -> tuple[Expr, ElementType]:
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
            case c_ast.UnaryOp(op="p++" | "p--" | "++" | "--") | c_ast.Assignment():
                raise self.places.error(_SIDE_EFFECT, node, _OWN_STATEMENT, topic="side-effects")
            case c_ast.BinaryOp():
                return self._binary(node, where)
            case c_ast.TernaryOp():
                return self._conditional(node, where)
            case c_ast.Cast():
                target = self.type_of(node.to_type)
                if not isinstance(target, ElementType):
                    raise self.places.error(
                        f"a cast to '{target.c}' is not arithmetic", node, "cast to arithmetic types", topic="types"
                    )
                operand, source = self.expression(node.expr, where)
                check_operands(self.places, node, source, target)
                return Convert(source, target, operand), target
            case c_ast.FuncCall():
                return self._call(node, where)
            case c_ast.StructRef():
                raise self.places.error(
                    "struct members are not supported",
                    node,
                    "copy the member to a local variable before the region",
                    topic="struct-members",
                )
        raise self.places.error(
            "this expression is not supported in a scop",
            node,
            "use arithmetic on array elements and scalars",
            topic="types",
        )

    def _affine(self, node: Any, where: isl.Set) -> tuple[Expr, ElementType] | None:
        """The value as an affine integer expression of iterators and parameters, when it is one."""
        if isinstance(node, c_ast.Constant) or not self._integral(node):
            return None
        symbols = self.evaluator.symbols
        before, symbols.in_value = symbols.in_value, True
        try:
            value = self.evaluator.value(node, where)
        except NotAffine:
            return None
        finally:
            symbols.in_value = before
        if value.pw is None:
            # A product of symbols is written as it stands; one that a variable holds, as what it holds.
            return self._product(value) if isinstance(node, c_ast.ID) and value.poly else None
        expr: Expr = AffineValue(value.pw)
        return (expr if value.ctype is I32 else Convert(I64, value.ctype, expr)), value.ctype

    @staticmethod
    def _product(value: Value) -> tuple[Expr, ElementType]:
        """A polynomial of symbols, as C computes it."""

        def factor(name: str) -> Expr:
            named = value.parts.get(name)
            one: Expr = AffineValue(symbol_aff(name) if named is None else named)
            return one if value.ctype is I32 else Convert(I64, value.ctype, one)

        whole: Expr | None = None
        for monomial, coefficient in sorted((value.poly or {}).items(), key=lambda term: (term[1] < 0, term[0])):
            parts = [factor(name) for name in monomial]
            if abs(coefficient) != 1 or not parts:
                parts.insert(0, Const(str(abs(coefficient))))
            term = reduce(lambda left, right: Binary("*", left, right), parts)
            if whole is None:
                whole = term if coefficient > 0 else Unary("-", term)
            else:
                whole = Binary("+" if coefficient > 0 else "-", whole, term)
        assert whole is not None, "zero is affine"
        return whole, value.ctype

    def _integral(self, node: Any) -> bool:
        """Whether a subtree is made of integer identifiers and arithmetic alone, with at least one identifier."""
        if isinstance(node, c_ast.ID):
            return node.name not in LIBRARY_CONSTANTS and self.data(node) is None
        if isinstance(node, c_ast.BinaryOp) and node.op in _COMPARISONS:
            return False
        if isinstance(node, c_ast.Constant):
            return node.type != "string" and (node.type == "char" or float_literal(str(node.value)) is None)
        if isinstance(node, c_ast.Cast):
            return self.type_of(node.to_type).is_int and self._integral(node.expr)
        if isinstance(node, c_ast.UnaryOp):
            return node.op == "sizeof" or (node.op in ("-", "+") and self._integral(node.expr))
        if isinstance(node, c_ast.BinaryOp):
            both = self._integral(node.left) and self._integral(node.right)
            return both and any(True for _ in mentions(node))
        if isinstance(node, c_ast.TernaryOp):
            return self._integral(node.iftrue) and self._integral(node.iffalse) and any(True for _ in mentions(node))
        return False

    def _constant(self, node: Any) -> tuple[Expr, ElementType]:
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

    def _load(self, node: Any, where: isl.Set) -> tuple[Expr, ElementType]:
        if isinstance(node, c_ast.ID) and node.name in LIBRARY_CONSTANTS and self.data(node) is None:
            return Const(node.name), LIBRARY_CONSTANTS[node.name]
        if isinstance(node, c_ast.ID) and node.name in self.undecided:
            return Const(node.name), self.undecided[node.name]
        before, self._choosing = self._choosing, True
        try:
            symbol, subscripts = self._element(node, where)
        finally:
            self._choosing = before
        assert isinstance(symbol.ctype, ElementType), "address() lets no others through"
        known, forms = self._known(subscripts, where)
        if not forms:
            self.accesses.append(RawAccess(symbol, False, known, where, node, self._exact))
            return Load(len(self.accesses) - 1), symbol.ctype
        values = tuple(self._of_subscript(one, node, where) for one in subscripts)
        self.accesses.append(RawAccess(symbol, False, known, where, node, self._exact, forms))
        return Gather(Load(len(self.accesses) - 1), values), symbol.ctype

    def form(self, value: Any, where: isl.Set) -> Form:
        """What an integer is made of."""

        def named(name: str) -> str:
            return self.pointers[name].place[0].name if name in self.pointers else name

        return form_of(value, where, self.evaluator, named)

    def _of_subscript(self, subscript: Subscript, node: Any, where: isl.Set) -> Expr:
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

    def _of_known(self, value: Value, node: Any) -> Expr:
        try:
            return AffineValue(self.evaluator.require(value, node))
        except NotAffine as error:
            raise self.not_affine("subscript", error, node) from None

    def written(self, node: Any, where: isl.Set) -> RawAccess:
        """The element that an assignment stores to; where data choose it, what they are is read. Raises InputError when
        it is none or its subscripts are not affine."""
        before, self._choosing = self._choosing, True
        try:
            symbol, subscripts = self._element(node, where)
        finally:
            self._choosing = before
        chosen = [one for one in subscripts if isinstance(one, Chosen)]
        if not all(self._from_arrays(term) for one in chosen for _, term in one.terms):
            self._hint = "give it what is chosen from an array in the statement, or leave this loop out of the region"
            self._element(node, where)  # raises
        for one in chosen:
            self._of_subscript(one, node, where)
        known, forms = self._known(subscripts, where)
        return RawAccess(symbol, True, known, where, node, self._exact, forms)

    def _from_arrays(self, term: Any) -> bool:
        """Whether data choose with elements of arrays, or with integers that the region declares and never changes. Of
        others, such as counters, there is no telling which values they have when programs are measured."""
        if isinstance(term, Value):
            return True
        elements = any(isinstance(node, c_ast.ArrayRef) for node in nodes(term))
        for name in mentions(term):
            if name in self.undecided:
                return False
            symbol = self.data(c_ast.ID(name, term.coord))
            if symbol is not None and symbol.is_scalar:
                if symbol.storage is not Storage.REGION or name in self.changed:
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

    def _element(self, node: Any, where: isl.Set) -> tuple[Symbol, list[Subscript]]:
        """Array and subscripts of the element that an lvalue names. Raises InputError."""
        symbol, subscripts, offset = self._place(node, where)
        if offset is not None:
            raise self.places.error(
                f"'{symbol.name}' is used as a pointer",
                node,
                "statements of a scop work on elements: subscript it",
                topic="pointers",
            )
        expected = len(symbol.levels)
        if symbol.members is not None and len(subscripts) == expected - 1:
            raise self.places.error(
                f"a structure of '{symbol.shown}' is used as a whole", node, "name its members", topic="struct-members"
            )
        if len(subscripts) != expected:
            raise self.places.error(
                f"'{symbol.name}' has {expected} dimension{'s' * (expected != 1)} but {len(subscripts)} "
                f"subscript{'s' * (len(subscripts) != 1)}",
                node,
                "subscript every dimension",
                topic="pointers",
            )
        return symbol, subscripts

    def address(self, node: Any, where: isl.Set) -> tuple[Symbol, list[Value], Value | None]:
        """(array, complete subscripts, offset in the next dimension or None) of an lvalue or pointer expression.

        `A[i] + j` is (A, [i], j); `*(p + e)` is (p, [e], None); `&A[i][j]` is (A, [i], j). Raises InputError.
        """
        symbol, subscripts, offset = self._place(node, where)
        assert not self._choosing and not isinstance(offset, Chosen)
        return symbol, [one for one in subscripts if not isinstance(one, Chosen)], offset

    def pointed_at(self, node: Any, where: isl.Set) -> Place:
        """As `address`, where data may choose the element: what a pointer is given that elements are only read through.
        Raises InputError."""
        before, self._choosing = self._choosing, True
        try:
            return self._place(node, where)
        finally:
            self._choosing = before

    def _place(self, node: Any, where: isl.Set) -> Place:
        """As `address`; data may choose subscripts where `_choosing` is set."""
        offset: Subscript | None
        match node:
            case c_ast.ID():
                symbol = self.data(node)
                if symbol is None:
                    raise self.places.error(
                        f"'{node.name}' is not an array or a scalar read as data",
                        node,
                        "use an array",
                        topic="declarations",
                    )
                if symbol.is_function:
                    raise self.places.error(
                        f"'{node.name}' is a function", node, "call it, or rename it", topic="declarations"
                    )
                self._supported(symbol, node)
                known = self.pointers.get(node.name)
                if known is None or known.symbol is not symbol:
                    return symbol, [], None
                array, before, moved = known.place
                if not self._choosing and any(isinstance(one, Chosen) for one in (*before, moved)):
                    raise self.places.error(
                        f"data choose where '{node.name}' points, and more is done with it than reading elements",
                        node,
                        self._hint or "use the array it points into",
                        topic="depends-on-data",
                    )
                return array, [*before], moved
            case c_ast.ArrayRef():
                symbol, subscripts, offset = self._pointer(node.name, where)
                index = self._subscript(node.subscript, where)
                return symbol, [*subscripts, index if offset is None else self._sum(offset, index, 1)], None
            case c_ast.UnaryOp(op="*"):
                symbol, subscripts, offset = self._pointer(node.expr, where)
                return symbol, [*subscripts, number(0, I64) if offset is None else offset], None
            case c_ast.UnaryOp(op="&"):
                symbol, subscripts, offset = self._place(node.expr, where)
                if offset is not None:
                    raise self.places.error(
                        "an address of an address is taken", node, "take one address", topic="pointers"
                    )
                return (symbol, subscripts[:-1], subscripts[-1]) if subscripts else (symbol, [], None)
            case c_ast.BinaryOp(op="+" | "-"):
                sides = (
                    [(node.left, node.right), (node.right, node.left)] if node.op == "+" else [(node.left, node.right)]
                )
                for pointer, index_node in sides:
                    if not self.is_pointer(pointer):
                        continue
                    symbol, subscripts, offset = self._pointer(pointer, where)
                    index = self._subscript(index_node, where)
                    base = number(0, I64) if offset is None else offset
                    return symbol, subscripts, self._sum(base, index, 1 if node.op == "+" else -1)
            case c_ast.UnaryOp(op="p++" | "p--" | "++" | "--"):
                raise self.places.error(_SIDE_EFFECT, node, _OWN_STATEMENT, topic="side-effects")
            case c_ast.StructRef():
                raise self.places.error(
                    "struct members are not supported",
                    node,
                    "copy the member to a local variable before the region",
                    topic="struct-members",
                )
        raise self.places.error(
            "this is not an element of an array", node, "write it as a subscripted array: A[i][j]", topic="pointers"
        )

    def _pointer(self, node: Any, where: isl.Set) -> Place:
        """Like `address`, for something that is subscripted: it must have a dimension left."""
        symbol, subscripts, offset = self._place(node, where)
        if len(subscripts) >= len(symbol.levels):
            raise self.places.error(
                f"'{symbol.name}' has {len(symbol.levels)} dimension{'s' * (len(symbol.levels) != 1)} but is "
                "subscripted further",
                node,
                "leave out a subscript",
                topic="pointers",
            )
        return symbol, subscripts, offset

    def is_pointer(self, node: Any) -> bool:
        """Whether an expression is a pointer into an array."""
        match node:
            case c_ast.ID():
                symbol = self.data(node)
                return symbol is not None and bool(symbol.levels)
            case c_ast.ArrayRef():
                depth, base = 0, node
                while isinstance(base, c_ast.ArrayRef):
                    depth, base = depth + 1, base.name
                symbol = self.data(base) if isinstance(base, c_ast.ID) else None
                return symbol is not None and len(symbol.levels) > depth
            case c_ast.UnaryOp(op="&"):
                return True
            case c_ast.UnaryOp(op="*"):
                return self.is_pointer(node.expr)
            case c_ast.BinaryOp(op="+" | "-"):
                return self.is_pointer(node.left) or self.is_pointer(node.right)
        return False

    def _sum(self, left: Subscript, right: Subscript, factor: int) -> Subscript:
        if isinstance(left, Chosen) or isinstance(right, Chosen):
            return added(left, right, factor)
        return self.evaluator.combine(left, right, factor, I64)

    def _subscript(self, node: Any, where: isl.Set) -> Subscript:
        try:
            return self.evaluator.value(node, where)
        except NotAffine as error:
            if error.data and self._choosing:
                return Chosen(((1, node),))
            if error.data and error.hint is None:
                error.hint = self._hint
            raise self.not_affine("subscript", error, node) from None

    def not_affine(self, what: str, error: NotAffine, node: Any) -> InputError:
        """The message for a subscript, bound or condition that is not affine."""
        kind = "depends on data" if error.data else "is not affine"
        return self.places.error(
            f"the {what} {kind}: {error.why}",
            error.node if getattr(error.node, "coord", None) is not None else node,
            error.hint or f"a {what} may use loop variables, parameters, constants, + - and * / % by constants",
            topic=error.topic,
        )

    def _supported(self, symbol: Symbol, node: Any) -> None:
        if any(level.pointer for level in symbol.levels[1:]) and not symbol.of_rows:
            raise self.places.error(
                f"'{symbol.shown}' is an array of pointers: what it points at is data",
                node,
                f"use one block of memory, such as '{symbol.ctype.c} (*{symbol.name})[N]'",
                topic="pointers",
            )
        if not isinstance(symbol.ctype, ElementType):
            raise self.places.error(
                f"elements of type '{symbol.ctype.c}' are not supported",
                node,
                "use arrays of arithmetic types",
                topic="types",
            )
        if symbol.pinned:
            raise self.places.error(f"'{symbol.name}' is {symbol.pinned}", node, PINNED_HINT, topic="types")

    def _binary(self, node: Any, where: isl.Set) -> tuple[Expr, ElementType]:
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

    def _guarded(self, condition: Any, node: Any, where: isl.Set, holds: bool) -> tuple[Expr, ElementType]:
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

    def _conditional(self, node: Any, where: isl.Set) -> tuple[Expr, ElementType]:
        condition, tested = self.expression(node.cond, where)
        then, then_type = self._guarded(node.cond, node.iftrue, where, True)
        otherwise, else_type = self._guarded(node.cond, node.iffalse, where, False)
        check_operands(self.places, node, tested, *(() if then_type is else_type else (then_type, else_type)))
        ctype = common(then_type, else_type)
        return Conditional(condition, then, otherwise, (then_type is ctype, else_type is ctype)), ctype

    def _call(self, node: Any, where: isl.Set) -> tuple[Expr, ElementType]:
        name = node.name.name if isinstance(node.name, c_ast.ID) else None
        result = None if name is None else self.pure(name)
        if name is None or result is None:
            raise self.places.error(
                f"the effects of the call of '{name or 'a function pointer'}' are unknown",
                node,
                "call functions of <math.h>, say that it is pure (--assume-pure, __attribute__((const))), or say what "
                "it computes with '#pragma polydl microkernel loops(...)'",
                topic="calls",
            )
        given: Iterable[Any] = node.args.exprs if node.args is not None else ()
        arguments = [self.expression(argument, where) for argument in given]
        conversion = conversion_of(name)
        if conversion is not None and len(arguments) == 1:
            ((operand, ctype),) = arguments
            source, target = conversion
            check_argument(self.places, node, source, ctype)
            return Convert(source, target, converted(operand, ctype, source)), target
        if name in PURE:
            check_operands(self.places, node, *(ctype for _, ctype in arguments))
        return Call(name, tuple(operand for operand, _ in arguments), result), result
