"""The walk over a region: C statements -> raw statements with domains, positions and accesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pycparser import c_ast

from polydl.base.errors import InputError
from polydl.frontend.lower import blackbox, microkernels
from polydl.frontend.lower import loops as for_loops
from polydl.frontend.lower.choices import choices
from polydl.frontend.lower.member_nodes import Counted
from polydl.frontend.lower.raw import Given, RawAccess, RawAssignment, RawBlackBox, RawCall, SourceLoop
from polydl.frontend.lower.reductions import reduction
from polydl.frontend.lower.state import State
from polydl.frontend.meaning.affine import NotAffine, Value, tidy
from polydl.frontend.meaning.chosen import Chosen
from polydl.frontend.meaning.constants import constant
from polydl.frontend.meaning.ctypes import VOID
from polydl.frontend.meaning.liveness import assigned_names, leaves
from polydl.frontend.meaning.lookup import NeedsData, Settings
from polydl.frontend.meaning.symbols import Symbol, mentions
from polydl.frontend.meaning.values import LIBRARY_CONSTANTS, Pointer
from polydl.frontend.text.pragmas import Pragma
from polydl.model import isl
from polydl.model.scop import Storage
from polydl.model.types import ElementType

_COUNT = "count a variable that is set right in front of the loop and stepped by its last statement alone"
_REFUSED = {
    c_ast.While: ("a 'while' loop has no bound known in advance", _COUNT),
    c_ast.DoWhile: ("a 'do' loop has no bound known in advance", _COUNT),
    c_ast.Goto: ("'goto' leaves the structured control flow of the scop", "use for, if and else"),
    c_ast.Label: ("a label lets control enter the scop in the middle", "use for, if and else"),
    c_ast.Break: ("'break' makes the number of iterations depend on data", "move the condition into the loop bound"),
    c_ast.Continue: ("'continue' is not supported in a scop", "use if and else"),
    c_ast.Return: ("'return' leaves the scop early", "move it behind the region"),
}


class Walker(State):
    """One walk over one region. Errors are collected: a bad statement does not hide the next one."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._handlers: dict[type, Callable[[Any], None]] = {
            c_ast.Compound: self._compound,
            c_ast.For: self._for,
            Counted: self._for,
            c_ast.If: self._if,
            c_ast.Decl: self._declaration,
            c_ast.FuncCall: self._call,
        }
        self.begin_parameters()
        self._pending: Pragma | None = None
        """The microkernel pragma before the next statement."""

    def walk(self, node: Any) -> None:
        """Walk one statement, collecting its errors."""
        try:
            self._statement(node)
        except NotAffine as error:
            self.errors.append(self.values().not_affine("expression", error, node))
        except InputError as error:
            self.errors.append(error)

    def _statement(self, node: Any) -> None:
        if isinstance(node, c_ast.Pragma):
            self._pragma(node)
            return
        if self._pending is not None and not isinstance(node, c_ast.EmptyStatement):
            pragma, self._pending = self._pending, None
            self._microkernel(pragma, node)
            return
        handler = self._handlers.get(type(node))
        if handler is not None:
            handler(node)
            return
        match node:
            case c_ast.DeclList(decls=parts) | c_ast.ExprList(exprs=parts):
                for part in parts:
                    self.walk(part)
            case c_ast.Assignment(rvalue=c_ast.Assignment() as inner):
                # a = b = e: what the inner one stored is the value of the outer one
                self.walk(inner)
                stored = _same_in_every_type(inner)
                self._assignment(node, node.lvalue, node.op, inner.lvalue if stored is None else stored)
            case c_ast.Assignment():
                self._assignment(node, node.lvalue, node.op, node.rvalue)
            case c_ast.UnaryOp(op="p++" | "++" | "p--" | "--"):
                one = c_ast.Constant("int", "1", node.coord)
                self._assignment(node, node.expr, "+=" if "+" in node.op else "-=", one)
            case c_ast.EmptyStatement():
                pass
            case c_ast.Typedef():
                self.scope.declare(node, Storage.REGION, constant)
            case c_ast.DoWhile() if self._once(node):
                self.walk(node.stmt)
            case c_ast.Break() | c_ast.Continue() if self.in_black_box:
                pass
            case c_ast.Switch():
                self._switch(node)
            case c_ast.Cast() if self.type_of(node.to_type) == VOID and isinstance(node.expr, c_ast.ID):
                pass
            case _:
                reason, hint = _REFUSED.get(
                    type(node), ("this statement is not supported in a scop", "use for, if and assignments")
                )
                raise self.places.error(reason, node, hint, topic="control-flow")

    def _compound(self, node: Any) -> None:
        with self.scoped():
            for item in node.block_items or ():
                self.walk(item)
            self.no_pending()

    def _once(self, node: Any) -> bool:
        """Whether a do loop is `do … while (0)`, as macros have it, without jumps."""
        return constant(node.cond, self.scope) == 0 and not leaves(node.stmt)

    def _pragma(self, node: Any) -> None:
        words = str(node.string).split()
        if words[:1] != ["polydl"]:
            return
        pragma = self.settings.pragmas[int(words[1])]
        if pragma.kind in ("call", "loops"):
            self.no_pending()
            self._pending = pragma

    def no_pending(self) -> None:
        """Report a microkernel pragma that nothing follows."""
        if self._pending is not None:
            pragma, self._pending = self._pending, None
            what = "a loop" if pragma.kind == "call" else "a call"
            self.errors.append(
                InputError(
                    f"the microkernel pragma is not followed by {what}",
                    pragma.span,
                    f"put {what} behind it",
                    topic="microkernels",
                )
            )

    def _call(self, node: Any) -> None:
        self.values().expression(node, self.domain)
        raise self.places.error(
            "the result of this call is not used: it does nothing, or has effects that are unknown",
            node,
            "say what it computes with '#pragma polydl microkernel loops(...)'",
            topic="calls",
        )

    def _declaration(self, node: Any) -> None:
        found = self.declare(node)
        if found.levels:
            if found.levels[0].pointer:
                self._pointer(node, found)
                return
            if node.init is not None:
                raise self.places.error(
                    "an array is initialised in the scop", node.init, "initialise it with a loop", topic="declarations"
                )
            return
        if found.is_integer and found.value is None:
            self.environment.pop(found.name, None)
            self.walked.temporaries.setdefault(found.name, found)
            self.environment[found.name] = None
        if node.init is not None and found.value is None:
            target = c_ast.ID(found.name, node.coord)
            self._assignment(node, target, "=", node.init, begins=True)

    def _pointer(self, node: Any, found: Symbol) -> None:
        """A pointer into an array becomes another name for that part of it."""
        if node.init is None or self.in_black_box or len(found.levels) != 1:
            raise self.places.error(
                f"the pointer '{found.name}' is declared in the scop",
                node,
                "give it the row that it points to where it is declared, or use the array it points into",
                topic="pointers",
            )
        builder = self.values()
        if not builder.is_pointer(node.init):
            raise self.places.error(
                f"'{found.name}' is given something else than a place in an array",
                node.init,
                "use the array it points into",
                topic="pointers",
            )
        symbol, subscripts, offset = builder.pointed_at(node.init, self.domain)
        for term in (t for one in (*subscripts, offset) if isinstance(one, Chosen) for _, t in one.terms):
            changing = None if isinstance(term, Value) else self._changing(term)
            if changing is not None:
                raise self.places.error(
                    f"'{changing}' decides where the pointer '{found.name}' points, and changes in the region",
                    node.init,
                    "use the array it points into",
                    topic="pointers",
                )
        if symbol.ctype is not found.ctype or len(symbol.levels) != len(subscripts) + 1:
            raise self.places.error(
                f"'{found.name}' points to '{found.declaration}', not to a row of '{symbol.declaration}'",
                node,
                "declare it with the type of the array's elements",
                topic="pointers",
            )
        self.pointers[found.name] = Pointer(found, (symbol, subscripts, offset))

    def _changing(self, node: Any) -> str | None:
        """A name in an expression whose value may be another one where it is evaluated later; None: it stays."""
        for name in mentions(node):
            found = self.scope.find(name)
            looping = any(loop.name == name for loop, _ in self.loops)
            if looping or found is None or found.const or name in LIBRARY_CONSTANTS:
                continue
            if name in self.settings.stored or name in self.undecided:
                return name
        return None

    def _no_pointers(self, node: Any) -> None:
        """Code that is kept as text must not use a pointer of the region, which the output does not declare."""
        for name in mentions(node):
            known = self.pointers.get(name)
            if known is not None and self.scope.find(name) is known.symbol:
                raise self.places.error(
                    f"the pointer '{name}' is declared in the scop, and data decide what is done with it",
                    node,
                    "use the array it points into",
                    topic="pointers",
                )

    def _if(self, node: Any) -> None:
        try:
            holds = self.evaluator.condition(node.cond, self.domain)
        except NotAffine:
            self._undecided(node, node.cond, [part for part in (node.iftrue, node.iffalse) if part is not None])
            return
        before, outer = dict(self.environment), self.domain
        self.domain = tidy(outer.intersect(holds))
        self._branch(node.iftrue)
        after_then, self.environment = self.environment, dict(before)
        self.domain = tidy(outer.subtract(holds))
        if node.iffalse is not None:
            self._branch(node.iffalse)
        after_else, self.domain = self.environment, outer
        self.environment = {
            name: self._merge(after_then.get(name), after_else.get(name), holds) for name in {*after_then, *after_else}
        }

    def _undecided(self, node: Any, condition: Any, branches: list[Any]) -> None:
        """A statement of which data decide what runs."""
        if not self.in_black_box:
            if any(leaves(branch) for branch in branches):
                # the loop that the jump belongs to was not kept as a whole: the message is about the jump
                for branch in branches:
                    self._branch(branch)
                return
            chosen = choices(node, self) if isinstance(node, c_ast.If) else ()
            for one in chosen:
                self.walk(one)
            if not chosen:
                self._keep(node)
            return
        self._condition(condition)
        before = dict(self.environment)
        after: list[dict[str, tuple[Value, Any] | None]] = []
        for branch in branches:
            self.environment = dict(before)
            self._branch(branch)
            after.append(self.environment)
        self.environment = {
            name: known if all(one.get(name) is known for one in after) else None for name, known in before.items()
        }

    def _condition(self, node: Any) -> None:
        """Inside a black box: note what a condition reads."""
        builder = self.values()
        builder.expression(node, self.domain)
        if builder.accesses:
            self.emit(tuple(builder.accesses), RawBlackBox("", (), ()), node)

    def _keep(self, node: Any) -> None:
        """Make one statement of the code at `node`. Raises InputError (also collected) and NeedsData."""
        self._no_pointers(node)
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
        inner = blackbox.without_own(walked, node)
        accesses = microkernels.touched(inner)
        if any(access.write for access in accesses):
            self.emit(accesses, blackbox.body(node, inner, self), node)

    def _microkernel(self, pragma: Pragma, node: Any) -> None:
        """Make one statement of a call and the loops that say what it computes. Raises InputError."""
        self._no_pointers(node)
        fragment = self.settings.unit.fragments.get(pragma.index)
        call, loops = microkernels.call_and_loops(pragma, fragment, node, self.places)
        before, errors = dict(self.environment), len(self.errors)
        arguments = tuple(microkernels.argument(self, a) for a in (call.args.exprs if call.args is not None else ()))
        was, self.in_fragment = self.in_fragment, pragma.kind == "loops"
        try:
            with self.collected() as inner:
                for loop in loops:
                    self.walk(loop)
        finally:
            self.in_fragment = was
        known = {name: known for name, known in self.environment.items() if before.get(name) is known}
        self.environment = {**dict.fromkeys(before), **known}
        if len(self.errors) > errors:
            return
        if any(isinstance(statement.body, RawCall) for statement in inner):
            raise self.places.error("a microkernel stands inside the loops of another", loops[0], topic="microkernels")
        if not inner:
            raise self.places.error("the loops of this microkernel compute nothing", loops[0], topic="microkernels")
        form = "loops" if pragma.kind == "call" else "call"
        body = RawCall(call.name.name, arguments, tuple(inner), form, pragma.index)
        domain = microkernels.executed(inner, self.domain, len(self.loops)) if pragma.kind == "call" else self.domain
        self.emit(microkernels.touched(inner), body, call, domain)

    def _switch(self, node: Any) -> None:
        if not self.in_black_box:
            self._keep(node)
            return
        cases = node.stmt.block_items or [] if isinstance(node.stmt, c_ast.Compound) else []
        if not all(isinstance(case, (c_ast.Case, c_ast.Default)) for case in cases) or not cases:
            raise self.places.error(
                "code of this 'switch' stands before its first case", node, "move it out", topic="control-flow"
            )
        parts = [c_ast.Compound(list(case.stmts or []), case.coord) for case in cases]
        self._undecided(node, node.cond, parts)

    def _branch(self, node: Any) -> None:
        with self.scoped():
            self.walk(node)
            self.no_pending()

    @staticmethod
    def _merge(
        then: tuple[Value, Any] | None, otherwise: tuple[Value, Any] | None, holds: isl.Set
    ) -> tuple[Value, Any] | None:
        if then is otherwise or then is None or otherwise is None:
            return then if then is otherwise else None
        if then[0].pw is None or otherwise[0].pw is None:
            return None
        one = then[0].pw.intersect_domain(holds)
        return Value(one.union_add(otherwise[0].pw.subtract_domain(holds)).coalesce(), None, then[0].ctype), None

    def _for(self, node: Any) -> None:
        if leaves(node.stmt) and not self.in_black_box:
            self._keep(node)
            return
        loop = for_loops.header(node, self.evaluator, self.places)
        name = loop.variable
        if any(outer.name == name for outer, _ in self.loops):
            raise self.places.error(
                f"the loop variable '{name}' is already that of an outer loop",
                loop.declared or node.init or node,
                "give each loop its own",
                topic="loop-variables",
            )
        reached = self.domain
        with self.scoped():
            going_on = self.environment.get(name) if node.init is None else None
            if node.init is None and going_on is None:
                raise self.places.error(for_loops.NO_START, node, for_loops.WRITE, topic="loop-headers")
            integer = self._loop_variable(loop)
            start = self._first_value(loop) if going_on is None else going_on[0]
            if isinstance(node, Counted) and not self.loops and start is not None:
                self.walked.begun.setdefault(name, start)
            taken = None if start is None else self._taken(loop, integer, start)
            if isinstance(node, Counted) and taken is None:
                why = "how often this loop runs depends on data, which only a 'for' loop may"
                raise self.places.error(why, node, "write for (i = a; i < b; i += c)", topic="loop-headers")
            if taken is not None:
                if isinstance(node, Counted) and node.once:
                    for_loops.surely_runs(loop, reached, taken, self.places)
                self._iterations(loop, integer, taken)
            elif going_on is not None:
                raise self.places.error(for_loops.NO_START, node, for_loops.WRITE, topic="loop-headers")
            elif self.in_black_box:
                self._undecided_loop(loop, integer)
                return
        if taken is None or start is None:
            self._keep(node)
        elif loop.declared is None and not (self.in_fragment or self.in_black_box):
            after = for_loops.value_afterwards(loop, integer, start, reached, taken, self.evaluator)
            if after is not None:
                self.environment[name] = after, None

    def _first_value(self, loop: for_loops.Header) -> Value | None:
        """What a loop's variable begins with; None where data decide it. Raises InputError."""
        try:
            return self.evaluator.value(loop.start, self.domain)
        except NotAffine as error:
            if error.data:
                return None
            raise self.values().not_affine("loop bound", error, loop.start) from None

    def _taken(self, loop: for_loops.Header, integer: ElementType, start: Value) -> isl.Set | None:
        """The current iterations with the values of a loop's variable; None where data decide them. Raises
        InputError."""
        self.loops.append((SourceLoop(loop.variable, loop.step < 0), integer))
        try:
            iterators = frozenset(outer.name for outer, _ in self.loops)
            return for_loops.domain(loop, integer, start, self.domain, self.evaluator, self.places, iterators)
        except NotAffine:
            return None  # says `domain`
        finally:
            self.loops.pop()

    def _iterations(self, loop: for_loops.Header, integer: ElementType, taken: isl.Set) -> None:
        """Walk the body of a loop."""
        node = loop.node
        changed = assigned_names(node.stmt)
        self._counters_allowed(loop, changed)
        changed |= {other.variable for other in loop.others}
        try:
            with self.inside(SourceLoop(loop.variable, loop.step < 0), integer):
                self.domain = taken
                self.forget(changed)
                for other in loop.others:
                    target = c_ast.ID(other.variable, node.coord)
                    self._assignment(other.declared or node.init, target, "=", other.value)
                self.walk(node.stmt)
                self.no_pending()
        finally:
            self.forget(changed)

    def _undecided_loop(self, loop: for_loops.Header, integer: ElementType) -> None:
        """Walk the body of a loop whose bounds data decide, for any value of its variables."""
        changed = assigned_names(loop.node.stmt) | {other.variable for other in loop.others}
        self._counters_allowed(loop, changed - {other.variable for other in loop.others})
        builder = self.values()
        begin = Given(loop.variable, builder.form(loop.start, self.domain), self.domain, "begin", int(loop.step > 0))
        ends = [
            Given(loop.variable, builder.form(bound, self.domain), self.domain, "end", past)
            for bound, past in for_loops.bounds(loop)
        ]
        self.walked.given += [begin, *ends]
        for start in (loop.start, *(other.start for other in loop.others)):
            self._condition(start)
        before = dict(self.undecided)
        self.undecided |= {loop.variable: integer} | {other.variable: integer for other in loop.others}
        try:
            self._condition(loop.condition)
            self.forget(changed)
            self.walk(loop.node.stmt)
            self.no_pending()
        finally:
            self.undecided = before
            self.forget(changed)

    def _counters_allowed(self, loop: for_loops.Header, changed: frozenset[str]) -> None:
        """Declare what a loop counts beside its variable. Raises InputError where that cannot be derived from it."""
        for other in loop.others:
            if other.declared is not None:
                self.declare(other.declared, loop_variable=True)
            found = self.scope.find(other.variable)
            moving = changed & {other.variable, *mentions(other.start), *mentions(loop.start)}
            if found is None or not found.is_integer or moving:
                why = (
                    f"'{min(moving)}' changes in it" if moving else f"'{other.variable}' is no integer of this function"
                )
                raise self.places.error(
                    f"the loop counts '{other.variable}' too, and {why}",
                    loop.node.init,
                    f"count '{loop.variable}' alone",
                    topic="loop-headers",
                )

    def _loop_variable(self, loop: for_loops.Header) -> ElementType:
        """The type of a loop's variable. Raises InputError when it can be none."""
        name = loop.variable
        if loop.declared is not None:
            found: Symbol | None = self.declare(loop.declared, loop_variable=True)
        else:
            found = self.scope.find(name)
            if found is None and self.in_fragment:
                decl = c_ast.Decl(
                    name, [], [], [], [], c_ast.TypeDecl(name, [], None, c_ast.IdentifierType(["int"])), None, None
                )
                found = self.scope.declare(decl, Storage.REGION, constant)
        if found is None:
            raise self.places.error(
                f"'{name}' is not declared", loop.node.init or loop.node, "declare it in the loop", topic="declarations"
            )
        reason = for_loops.refused(loop, found, self.settings, self.in_fragment)
        if reason is not None:
            why, hint = reason
            raise self.places.error(why, loop.node.init or loop.node, hint, topic="loop-variables")
        self.walked.temporaries.setdefault(name, found)
        self.environment.pop(name, None)
        assert found.integer is not None, "refused() lets no others through"
        return found.integer

    # assignments

    def _assignment(self, node: Any, target: Any, op: str, value: Any, *, begins: bool = False) -> None:
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
                raise self.places.error(
                    f"the pointer '{name}' is written in the scop", node, "subscript it instead", topic="pointers"
                )
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

    def _temporary(self, node: Any, found: Symbol, op: str, value: Any) -> None:
        """An integer scalar: remember its value instead of making a statement."""
        if found.storage is Storage.GLOBAL or found.name in self.settings.escaping:
            raise NeedsData(found.name)
        self.walked.temporaries.setdefault(found.name, found)
        if op != "=":
            value = c_ast.BinaryOp(op[:-1], c_ast.ID(found.name, node.coord), value, node.coord)
        try:
            new_value = self.evaluator.value(value, self.domain)
            new_value = self.evaluator.convert(new_value, found.ctype, value, self.domain)
        except NotAffine:
            raise NeedsData(found.name) from None
        self.environment[found.name] = (new_value, self.substituted(value))

    def _store(self, node: Any, target: Any, op: str, value: Any, *, begins: bool) -> None:
        builder = self.values()
        where = self.domain
        write = builder.written(target, where)
        if write.symbol.const and not begins:
            raise self.places.error(
                f"'{write.symbol.name}' is const and written", target, "remove const", topic="types"
            )
        expr, _ = builder.expression(value, where)
        reads = builder.accesses
        target_read: int | None = None
        if op != "=":
            reads.append(RawAccess(write.symbol, False, write.subscripts, where, target))
            target_read = len(reads) - 1
        else:
            op, expr, target_read = reduction(write, expr, reads)
        if write.symbol.is_integer and op == "=":
            before, self.in_value = self.in_value, True
            try:
                self.walked.given.append(Given(write.symbol.name, builder.form(value, where), where))
            finally:
                self.in_value = before
        accesses = (*reads, write)
        body = RawAssignment(len(reads), op, expr, target_read)
        self.emit(accesses, body, node)


def _same_in_every_type(node: Any) -> Any:
    """The literal 0 or 1 that an assignment stores, however many variables it goes through; None for other values."""
    while isinstance(node, c_ast.Assignment) and node.op == "=":
        node = node.rvalue
    if not isinstance(node, c_ast.Constant) or node.type in ("char", "string"):
        return None
    try:
        return node if float(node.value.rstrip("fFlLuU")) in (0.0, 1.0) else None
    except ValueError:
        return None
