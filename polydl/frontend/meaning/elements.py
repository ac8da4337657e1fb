"""Elements of arrays: which one an lvalue names, and where a pointer expression points."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.errors import InputError
from polydl.frontend.core.tree_parts import indexed
from polydl.frontend.meaning.affine import NotAffine, Value, number
from polydl.frontend.meaning.data_subscripts import Chosen, Subscript, added
from polydl.frontend.meaning.lookup import PINNED_HINT, Lookup, Place
from polydl.frontend.meaning.symbols import Symbol
from polydl.model import isl
from polydl.model.types import I64, ElementType


class Elements:
    """Finds the elements that a statement touches."""

    def __init__(self, walk: Lookup) -> None:
        self.walk = walk
        self.evaluator = walk.evaluator
        self.places = walk.places
        self.data = walk.data_symbol
        self._choosing = False
        """Data may choose a subscript."""
        self._hint: str | None = None
        """The way out of a subscript that data choose where they may not."""

    def _element(self, node: Node, where: isl.Set) -> tuple[Symbol, list[Subscript]]:
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
        if symbol.of_rows and len(subscripts) == expected - 1:
            raise self.places.error(
                f"a row of '{symbol.name}' is used as a whole: which rows its pointers lead to is taken to stay",
                node,
                "exchange rows in front of the loops or behind them, or their elements in a loop",
                topic="pointers",
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

    def address(self, node: Node, where: isl.Set) -> tuple[Symbol, list[Value], Value | None]:
        """(array, complete subscripts, offset in the next dimension or None) of an lvalue or pointer expression.

        `A[i] + j` is (A, [i], j); `*(p + e)` is (p, [e], None); `&A[i][j]` is (A, [i], j). Raises InputError.
        """
        symbol, subscripts, offset = self._place(node, where)
        assert not self._choosing and not isinstance(offset, Chosen)
        return symbol, [one for one in subscripts if not isinstance(one, Chosen)], offset

    def pointed_at(self, node: Node, where: isl.Set) -> Place:
        """As `address`, where data may choose the element: what a pointer is given that elements are only read through.
        Raises InputError."""
        with self._chosen_by_data():
            return self._place(node, where)

    @contextmanager
    def _chosen_by_data(self) -> Iterator[None]:
        before, self._choosing = self._choosing, True
        try:
            yield
        finally:
            self._choosing = before

    def _place(self, node: Node, where: isl.Set) -> Place:
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
                known = self.walk.pointers.get(node.name)
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
            case c_ast.UnaryOp(op="p++" | "p--" | "++" | "--") | c_ast.StructRef():
                raise self.refused(node)
        raise self.places.error(
            "this is not an element of an array", node, "write it as a subscripted array: A[i][j]", topic="pointers"
        )

    def _pointer(self, node: Node, where: isl.Set) -> Place:
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

    def is_pointer(self, node: Node) -> bool:
        """Whether an expression is a pointer into an array."""
        match node:
            case c_ast.ID():
                symbol = self.data(node)
                return symbol is not None and bool(symbol.levels)
            case c_ast.ArrayRef():
                name, subscripts = indexed(node)
                symbol = self.data(c_ast.ID(name, node.coord)) if name else None
                return symbol is not None and len(symbol.levels) > len(subscripts)
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

    def _subscript(self, node: Node, where: isl.Set) -> Subscript:
        try:
            return self.evaluator.address(node, where)
        except NotAffine as error:
            if (error.data or error.wraps) and self._choosing:
                return Chosen(((1, node),))
            if error.data and error.hint is None:
                error.hint = self._hint
            raise self.not_affine("subscript", error, node) from None

    def refused(self, node: Node) -> InputError:
        """The message for a step, an assignment or a member inside of an expression."""
        if isinstance(node, c_ast.StructRef):
            hint = "copy the member to a local variable before the region"
            return self.places.error("struct members are not supported", node, hint, topic="struct-members")
        return self.places.error(
            "an expression has a side effect", node, "write the update as its own statement", topic="side-effects"
        )

    def not_affine(self, what: str, error: NotAffine, node: Node) -> InputError:
        """The message for a subscript, bound or condition that is not affine."""
        kind = "depends on data" if error.data else "is not affine"
        return self.places.error(
            f"the {what} {kind}: {error.why}",
            error.node if getattr(error.node, "coord", None) is not None else node,
            error.hint or f"a {what} may use loop variables, parameters, constants, + - and * / % by constants",
            topic=error.topic,
        )

    def _supported(self, symbol: Symbol, node: Node) -> None:
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
