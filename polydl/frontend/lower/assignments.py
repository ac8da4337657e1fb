"""What statements store and declarations declare, in a walk over a region, and what of it is kept as it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.errors import InputError
from polydl.frontend.lower import blackbox, microkernels, written_out
from polydl.frontend.lower.if_conversion import if_converted
from polydl.frontend.lower.raw import Given, RawAccess, RawAssignment, RawBlackBox, RawEntries, RawSegment
from polydl.frontend.lower.state import State
from polydl.frontend.lower.zeros import unskipped
from polydl.frontend.meaning.affine import NotAffine, Value
from polydl.frontend.meaning.affine_terms import universe
from polydl.frontend.meaning.data_subscripts import Chosen
from polydl.frontend.meaning.library import LIBRARY_CONSTANTS
from polydl.frontend.meaning.liveness import changed_names, leaves
from polydl.frontend.meaning.lookup import NeedsData, Place, Pointer
from polydl.frontend.meaning.narrow_types import check_operands, check_stored
from polydl.frontend.meaning.symbols import Level, Symbol, mentions
from polydl.model import isl
from polydl.model.combiners import of_assignment
from polydl.model.expr import Binary, Expr, Load
from polydl.model.scop import Storage
from polydl.model.types import U64


class Assignments(State):
    """A walk as far as assignments and declarations go, and code that data steer."""

    def _declaration(self, node: c_ast.Decl) -> None:
        array = isinstance(node.type, c_ast.ArrayDecl) and node.init is not None
        found = self.declare(written_out.without_const(node) if array else node)
        if found.levels:
            if found.levels[0].pointer:
                self._pointer(node, found)
            elif node.init is not None:
                for statement in written_out.initialised(node, found, self):
                    self.walk(statement)
            return
        if found.is_integer and found.value is None:
            self.environment.pop(found.name, None)
            self.walked.temporaries.setdefault(found.name, found)
            self.environment[found.name] = None
        if node.init is not None and found.value is None:
            target = c_ast.ID(found.name, node.coord)
            self._assignment(node, target, "=", node.init, begins=True)

    def _pointer(self, node: c_ast.Decl, found: Symbol) -> None:
        """A pointer into an array, to an element or to rows, becomes another name for that part of it."""
        if node.init is None or any(level.pointer for level in found.levels[1:]) or node.storage:
            hint = "give it the row that it points to where it is declared, or use the array it points into"
            raise self._pointer_error(f"the pointer '{found.name}' is declared in the scop", node, hint)
        builder = self.values()
        if not builder.is_pointer(node.init):
            why = f"'{found.name}' is given something else than a place in an array"
            raise self._pointer_error(why, node.init)
        place = builder.pointed_at(node.init, self.domain)
        symbol, subscripts, _ = place
        changing = self._moving(place)
        if changing is not None:
            why = f"'{changing}' decides where the pointer '{found.name}' points, and changes in the region"
            raise self._pointer_error(why, node.init)
        if symbol.ctype is not found.ctype or not self._same_rows(symbol.levels[len(subscripts) :], found.levels):
            why = f"'{found.name}' points to '{found.declaration}', not to a row of '{symbol.declaration}'"
            raise self._pointer_error(why, node, "declare it with the type of the array's elements")
        known = {name: self.environment[name] for name in mentions(node.init) if name in self.environment}
        self.pointers[found.name] = Pointer(found, place, known)

    def _same_rows(self, rows: Sequence[Level], pointed: Sequence[Level]) -> bool:
        """Whether what is left of an array's dimensions has rows of the extents that a pointer says."""
        if len(rows) != len(pointed) or any(level.pointer for level in (*rows[1:], *pointed[1:])):
            return False
        pairs = [(self._extent(one), self._extent(other)) for one, other in zip(rows[1:], pointed[1:], strict=True)]
        return all(one is not None and other is not None and one.is_equal(other) for one, other in pairs)

    def _extent(self, level: Level) -> isl.PwAff | None:
        """Elements of a dimension; None where they are not affine."""
        if level.extent is None:
            return None
        try:
            return self.evaluator.affine(level.extent, universe())
        except NotAffine:
            return None

    def _moving(self, place: Place) -> str | None:
        """A name that decides where in an array a place is, and whose value may change; None: the place stays."""
        subscripts, offset = place[1:]
        terms = (term for one in (*subscripts, offset) if isinstance(one, Chosen) for _, term in one.terms)
        return next(filter(None, (self._changing(term) for term in terms if not isinstance(term, Value))), None)

    def _changing(self, node: Node) -> str | None:
        """A name in an expression whose value may be another one where it is evaluated later; None: it stays."""
        for name in mentions(node):
            found = self.scope.find(name)
            looping = any(loop.name == name for loop, _ in self.loops)
            if looping or found is None or found.const or name in LIBRARY_CONSTANTS:
                continue
            if name in self.undecided:
                if not self.in_black_box:
                    return name
            elif self.is_stored(name) if found.levels else name in self.settings.changed:
                return name
        return None

    def _no_pointers(self, node: Node) -> None:
        """A microkernel must not use a pointer of the region, which the output does not declare."""
        for declaration in self._pointers_of(node):
            self._no_pointer(declaration.name, node)

    def _no_pointer(self, name: str, node: Node) -> NoReturn:
        raise self._pointer_error(
            f"the pointer '{name}' is declared in the scop, and data decide what is done with it", node
        )

    def _pointer_error(self, reason: str, node: Node, hint: str = "use the array it points into") -> InputError:
        return self.places.error(reason, node, hint, topic="pointers")

    def _pointers_of(self, node: Node) -> list[c_ast.Decl]:
        """Declarations of the region's pointers that code at `node` uses, each behind those that it needs itself."""
        found: dict[str, c_ast.Decl] = {}
        for name in mentions(node):
            pointer = self.pointers.get(name)
            if pointer is not None and self.scope.find(name) is pointer.symbol:
                declared = pointer.symbol.decl
                assert declared.init is not None, "it points to something"
                found |= {one.name: one for one in self._pointers_of(declared.init)}
                found[name] = declared
        return list(found.values())

    def _with_pointers(self, node: Node) -> Node:
        """Code that is kept as text, with the declarations of the region's pointers that it uses. Raises InputError
        where one would point somewhere else there."""
        declarations = self._pointers_of(node)
        for one in declarations:
            pointer = self.pointers[one.name]
            moved = any(self.environment.get(name) is not before for name, before in pointer.known.items())
            if moved or self._moving(pointer.place) is not None:
                self._no_pointer(one.name, node)
        return c_ast.Compound([*declarations, node], node.coord) if declarations else node

    def _assignment(self, node: Node, target: Node, op: str, value: Node, *, begins: bool = False) -> None:
        """`begins`: the value that a declaration gives, to a constant as well."""
        if isinstance(target, c_ast.ID):
            name = target.name
            if any(loop.name == name for loop, _ in self.loops):
                raise self.places.error(
                    f"the loop variable '{name}' is written in its loop",
                    node,
                    "use another variable",
                    topic="loop-variables",
                )
            found = self.scope.find(name)
            if found is None:
                raise self.places.error(
                    f"'{name}' is not declared", target, "is a header or a -D missing?", topic="declarations"
                )
            if found.levels:
                raise self._pointer_error(f"the pointer '{name}' is written in the scop", node, "subscript it instead")
            if found.is_integer and found.storage is Storage.PARAMETER and name in self.settings.escaping:
                raise self.places.error(
                    f"the function parameter '{name}' is written in the scop and read behind it",
                    node,
                    "copy it to a local variable before",
                    topic="loop-variables",
                )
            if found.is_integer and name not in self.settings.data:
                self._temporary(node, found, op, value)
                return
        self._store(node, target, op, value, begins=begins)

    def _temporary(self, node: Node, found: Symbol, op: str, value: Node) -> None:
        """An integer scalar: remember its value instead of making a statement."""
        if found.storage is Storage.GLOBAL or found.name in self.settings.escaping:
            raise NeedsData(found.name)
        self.walked.temporaries.setdefault(found.name, found)
        if op != "=":
            value = c_ast.BinaryOp(op[:-1], c_ast.ID(found.name, node.coord), value, node.coord)
        try:
            new_value = self.evaluator.value(value, self.domain)
            new_value = self.evaluator.convert(new_value, found.ctype, value, self.domain)
            new_value = self.as_number(new_value, value, self.domain)
        except NotAffine:
            if not self._is_address(found, value):
                raise NeedsData(found.name) from None
            return
        self.environment[found.name] = (new_value, self.substituted(value))

    def _is_address(self, found: Symbol, value: Node) -> bool:
        """Whether a temporary keeps what it is initialised with, a number of 64 bits that is known modulo 2^64: then
        that is remembered."""
        if found.ctype != U64 or found.name in self.settings.changed or getattr(found.node, "init", None) is not value:
            return False
        try:
            self.addresses[found.name] = found, self.evaluator.address(value, self.domain)
        except NotAffine:
            return False
        return True

    def _store(self, node: Node, target: Node, op: str, value: Node, *, begins: bool) -> None:
        builder = self.values()
        where = self.domain
        write = builder.written(target, where)
        if write.chosen and not self.in_black_box:
            # Which element it is only data know: the statement is kept as it is written, as one that may store to any.
            one = c_ast.Assignment(op, target, value, node.coord)
            self._keep(c_ast.Compound([one], node.coord))
            return
        if write.symbol.const and not begins:
            raise self.places.error(
                f"'{write.symbol.name}' is const and written", target, "remove const", topic="types"
            )
        expr, ctype = builder.expression(value, where)
        if op != "=":
            check_operands(self.places, node, write.symbol.ctype)
        check_stored(self.places, node, write.symbol.ctype, ctype)
        reads = builder.accesses
        target_read: int | None = None
        if op != "=":
            reads.append(replace(write, write=False, exact=True))
            target_read = len(reads) - 1
        elif not write.chosen:
            op, expr, target_read = _reduction(write, expr, reads)
        if write.symbol.is_integer and op == "=":
            before, self.in_value = self.in_value, True
            try:
                self.walked.given.append(Given(write.symbol.name, builder.form(value, where), where))
            finally:
                self.in_value = before
        accesses = (*reads, write)
        body = RawAssignment(len(reads), op, expr, target_read)
        self.emit(accesses, body, node)

    # Code that data steer

    def _undecided(self, node: Node, condition: Node, branches: Sequence[Node]) -> None:
        """A statement of which data decide what runs."""
        if not self.in_black_box:
            if any(leaves(branch) for branch in branches):
                # the loop that the jump belongs to was not kept as a whole: the message is about the jump
                for branch in branches:
                    self.branch(branch)
                return
            dropped = unskipped(node, self) if isinstance(node, c_ast.If) else None
            if dropped is not None:
                self.branch(dropped)
                self.forget(changed_names(dropped))  # counters that are as they were where it does not run
                return
            chosen = if_converted(node, self) if isinstance(node, c_ast.If) else ()
            for one in chosen:
                self.walk(one)
            if not chosen:
                self._keep(node)
            return
        self._condition(condition)
        before = dict(self.environment)
        after: list[dict[str, tuple[Value, Node | None] | None]] = []
        for branch in branches:
            self.environment = dict(before)
            self.branch(branch)
            after.append(self.environment)
        self.environment = {
            name: known if all(one.get(name) is known for one in after) else None for name, known in before.items()
        }

    def _condition(self, node: Node) -> None:
        """Inside a black box: note what a condition reads."""
        builder = self.values()
        builder.expression(node, self.domain)
        if builder.accesses:
            self.emit(tuple(builder.accesses), RawBlackBox("", (), ()), node)

    def _keep(self, node: Node, segment: RawSegment | None = None, entries: RawEntries | None = None) -> None:
        """Make one statement of the code at `node`; `segment`: what it adds up, `entries`: what it runs through, where
        it is a loop over a segment. Raises InputError (also collected) and NeedsData."""
        text = self._with_pointers(node)
        blackbox.hidden_data(node, self)
        before, errors = dict(self.environment), len(self.errors)
        self.in_black_box = True
        try:
            with self.collected() as walked:
                self.walk(node)
        finally:
            self.in_black_box = False
        counters = blackbox.counters(node)
        self.environment = {name: None if name in counters else known for name, known in before.items()}
        if len(self.errors) > errors:
            return
        inner = blackbox.without_own(walked, node, self)
        accesses = microkernels.touched(inner)
        if any(access.write for access in accesses):
            self.walked.private.update({symbol.name: symbol for symbol in blackbox.private(node, self)})
            body = replace(blackbox.body(node, text, inner, entries, self), segment=segment)
            self.emit(accesses, body, node)

    def _switch(self, node: c_ast.Switch) -> None:
        if not self.in_black_box:
            self._keep(node)
            return
        cases = node.stmt.block_items or [] if isinstance(node.stmt, c_ast.Compound) else []
        own = [case for case in cases if isinstance(case, (c_ast.Case, c_ast.Default))]
        if len(own) < len(cases) or not cases:
            raise self.places.error(
                "code of this 'switch' stands before its first case", node, "move it out", topic="control-flow"
            )
        parts = [c_ast.Compound(list(case.stmts or []), case.coord) for case in own]
        self._undecided(node, node.cond, parts)


def _reduction(write: RawAccess, expr: Expr, reads: list[RawAccess]) -> tuple[str, Expr, int | None]:
    """Operator, value and the read of the target of `x = expr`.

    `x = x + e`, `x = e + x`, `x = x * e`, `x = e * x` and `x = x - e` become compound assignments.
    """
    row = of_assignment(f"{expr.op}=") if isinstance(expr, Binary) else None
    if isinstance(expr, Binary) and row is not None:
        sides = [(expr.left, expr.right)]
        if expr.op == row.symbol:
            sides.append((expr.right, expr.left))
        for same, other in sides:
            if isinstance(same, Load) and _same(reads[same.access], write):
                return f"{expr.op}=", other, same.access
    return "=", expr, None


def _same(read: RawAccess, write: RawAccess) -> bool:
    if read.symbol is not write.symbol or len(read.subscripts) != len(write.subscripts):
        return False
    for one, other in zip(read.subscripts, write.subscripts, strict=True):
        if one is None or other is None:
            return False
        if (one.poly is not None and one.poly == other.poly) or (one.rational and one.rational == other.rational):
            continue
        if one.pw is None or other.pw is None or not one.pw.is_equal(other.pw):
            return False
    return True
