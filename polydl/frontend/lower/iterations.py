"""The loops of a walk over a region: what counts them, and the iterations in which their bodies run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.errors import InputError
from polydl.frontend.core import counters, not_counted
from polydl.frontend.core.counters import Counter
from polydl.frontend.core.evolution import Evolutions, evolutions, iterations_of, values_behind
from polydl.frontend.core.loop_forms import AnyLoop, Loop, begun_by, loop_of
from polydl.frontend.core.tree_parts import declaration, items_of, negated, type_named
from polydl.frontend.lower import segments
from polydl.frontend.lower.assignments import Assignments
from polydl.frontend.lower.entries import entries_of
from polydl.frontend.lower.raw import Given, SourceLoop
from polydl.frontend.meaning.affine import NotAffine, Value, constant
from polydl.frontend.meaning.liveness import assigned_names, leaves
from polydl.frontend.meaning.lookup import NeedsData
from polydl.frontend.meaning.symbols import Symbol, nodes
from polydl.model import isl
from polydl.model.scop import Storage
from polydl.model.types import ElementType

_KEYWORDS = {c_ast.For: "for", c_ast.While: "while", c_ast.DoWhile: "do"}
_COUNT = "count a variable that is set right in front of the loop and stepped by its last statement alone"


class Iterations(Assignments):
    """A walk as far as loops go."""

    def _loop(self, node: AnyLoop) -> None:
        """A `for`, `while` or `do` loop."""
        loop = loop_of(node)
        # what goes on with a value that data decide, `for (; k < n; k++)`, is a `while` loop
        headed = isinstance(node, c_ast.For) and (
            node.init is not None or (node.next is not None and not self._steps_data(loop))
        )
        if loop.left and not self.in_black_box:
            body = _without_continue(loop.body) if headed else None
            if body is None:
                self._keep(node) if headed else self._while(node)
                return
            loop = replace(loop, body=body, left=False)
        with self.scoped():
            rest = self._begin(loop)
            found = evolutions(loop, self)
            counter = counters.counter_of(loop, found.each, self)
            if counter is None and headed and self.in_black_box:
                self._any_iterations(loop, rest)
                return
            complaint = not_counted.complaint(loop, self) if counter is None and headed else None
            taken = None if counter is None else self._counted(loop, counter, found, rest)
            if taken is None and counter is not None and headed:
                if loop.header is node:
                    raise self.places.error(not_counted.NO_START, node, not_counted.WRITE, topic="loop-headers")
                if self.in_black_box:
                    self._any_iterations(loop, rest, counter)
                    return
        if complaint is not None:
            self._not_counted(loop, complaint)
        elif taken is None and headed and counter is not None:
            self._over_data(node, loop, counter)
        elif taken is None:
            self._while(node)

    def _not_counted(self, loop: Loop, complaint: InputError) -> None:
        """A `for` loop that nothing counts, `for (s = 1; s < n; s *= 2)`, or that data end at a value of its variable
        which is read behind it: inside of others it is kept as it is written. Raises `complaint` where it cannot be."""
        moves = self._steps_data(loop) or not_counted.moves(loop, self.scope)
        may_be_kept = self.loops and not self.in_fragment and moves
        if not may_be_kept or self._wrong_in_kept(loop.node):
            raise complaint

    def _steps_data(self, loop: Loop) -> bool:
        """Whether a loop with a condition steps a variable that is data."""
        stepped = (not_counted.target(part) in self.settings.data for part in loop.step)
        return loop.condition is not None and any(stepped)

    def _wrong_in_kept(self, node: Node) -> list[InputError]:
        """Keep a loop as it is written; what is wrong where it cannot be."""
        known = len(self.errors)
        try:
            self._keep(node)
        except InputError as error:
            self.errors.append(error)
        wrong = self.errors[known:]
        del self.errors[known:]
        return wrong

    def _any_iterations(self, loop: Loop, rest: Sequence[Node], counter: Counter | None = None) -> None:
        """Inside a black box: walk the body of a loop for any value of the integers that its header begins and that it
        changes. `counter`: of a loop that is counted between bounds that data decide."""
        integers: dict[str, ElementType] = {}
        for part in loop.first:
            name = begun_by(part)
            value = None if name is None or part in rest else counters.given(loop, name)
            if name is None or value is None:
                continue
            if counter is not None and name == counter.judged:
                self._given(counter, value)
            self._condition(value)
            found = self.scope.find(name)
            if found is not None and found.integer is not None and name in loop.changed:
                integers[name] = found.integer
        for part in rest:
            if isinstance(part, c_ast.Decl) and part.init is not None:  # `_begin` has declared it
                part = c_ast.Assignment("=", c_ast.ID(part.name, part.coord), part.init, part.coord)
            self.walk(part)
        before = dict(self.undecided)
        self.undecided |= integers
        try:
            self.forget(loop.changed)
            if loop.condition is not None:
                self._condition(loop.condition)
            self.branch(loop.body)
            for part in (*loop.test_effects, *loop.step):
                if assigned_names(part).isdisjoint(integers):
                    self.walk(part)
        finally:
            self.undecided = before
            self.forget(loop.changed)

    def _given(self, counter: Counter, begin: Node) -> None:
        """Note the ends of a loop variable."""
        builder, name = self.values(), counter.judged
        start = Given(name, builder.form(begin, self.domain), self.domain, "begin", int(counter.step > 0))
        ends = [
            Given(name, builder.form(bound, self.domain), self.domain, "end", past)
            for bound, past in counters.bounds(counter)
        ]
        self.walked.given += [start, *ends]

    def _over_data(self, node: Node, loop: Loop, counter: Counter) -> None:
        """A loop whose bounds data decide."""
        inwards = segments.turned(loop, counter, self)
        if inwards is not None:
            self.walk(inwards)
            return
        through = entries_of(loop, counter, self)
        self.entries = frozenset() if through is None else frozenset({through.counter})
        try:
            self._keep(node, segments.segment(loop, counter, self), through)
        finally:
            self.entries = frozenset()

    def _begin(self, loop: Loop) -> list[Node]:
        """Give integers what a loop's header gives them. The other parts of it, which are no integers that are known.
        Raises InputError."""
        rest: list[Node] = []
        found: Symbol | None
        for part in loop.first:
            match part:
                case c_ast.Decl(type=c_ast.TypeDecl(), name=name) if name not in self.settings.data:
                    self._not_around(name, part)
                    found = self.declare(part, loop_variable=True)
                    value = part.init
                case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=name), rvalue=value) if (
                    name not in self.settings.data
                ):
                    found = self.scope.find(name)
                    if found is None and self.in_fragment:
                        own = declaration(type_named("int", name), name)
                        found = self.scope.declare(own, Storage.REGION, constant)
                    if found is None:
                        raise self.places.error(
                            f"'{name}' is not declared", loop.header, "declare it in the loop", topic="declarations"
                        )
                case _:
                    rest.append(part)
                    continue
            self._not_around(name, loop.header)
            if found.integer is None:
                rest.append(part)
                continue
            self.walked.temporaries.setdefault(name, found)
            self.environment[name] = None
            start = None if value is None else self._first_value(value, found.integer)
            self.environment[name] = (
                None if start is None else (start, self.substituted(value) if value is not None else None)
            )
        return rest

    def _not_around(self, name: str, node: Node) -> None:
        """Raises InputError for the variable of a loop around."""
        if any(outer.name == name for outer, _ in self.loops):
            raise self.places.error(
                f"the loop variable '{name}' is already that of an outer loop",
                node,
                "give each loop its own",
                topic="loop-variables",
            )

    def _first_value(self, node: Node, ctype: ElementType) -> Value | None:
        """What a loop's variable begins with; None where data decide it. Raises InputError."""
        try:
            return self.evaluator.convert(self.evaluator.value(node, self.domain), ctype, node, self.domain)
        except NotAffine as error:
            if error.data:
                return None
            raise self.values().not_affine("loop bound", error, node) from None

    def _counted(self, loop: Loop, counter: Counter, found: Evolutions, rest: list[Node]) -> isl.Set | None:
        """Walk a loop that is counted; the values that its dimension takes. None, and nothing walked, where data decide
        them. Raises InputError."""
        headed = isinstance(loop.node, c_ast.For)
        if headed:
            self._allowed(loop, counter, found)
        symbol = self.scope.find(counter.judged)
        assert symbol is not None, "it counts"
        self.walked.temporaries.setdefault(counter.judged, symbol)
        if counter.start is None:
            if not headed:
                self._may_be_kept(loop, counter, found)
            return None
        around, before = self.domain, self.environment
        self.environment = dict(before)
        try:
            taken = iterations_of(found, counter, self)
        except (NotAffine, NeedsData) as error:
            self.environment = before  # says `domain`
            if not headed:
                self._may_be_kept(loop, counter, found)
            if isinstance(error, NeedsData):
                raise
            return None
        if not headed:
            self._allowed(loop, counter, found)
        values = self.environment
        for part in rest:
            self.walk(part)
        self._iterations(loop, counter, taken)
        if not (self.in_fragment or self.in_black_box):
            self.environment.update(values_behind(found, counter, (around, taken), (before, values), self))
        return taken

    def _iterations(self, loop: Loop, counter: Counter, taken: isl.Set) -> None:
        """Walk the body of a loop."""
        try:
            with self.inside(SourceLoop(counter.variable, counter.step < 0), counter.ctype):
                self.domain = taken
                self._parts(loop.test_effects, counter)
                self.walk(loop.body)
                self.no_pending()
                self._parts(loop.step, counter)
        finally:
            self.forget(loop.changed)

    def _parts(self, parts: tuple[Node, ...], counter: Counter) -> None:
        """Walk what a loop does beside its body, but for the step of its dimension."""
        for part in parts:
            if counter.name is None or counter.name not in assigned_names(part):
                self.walk(part)

    def _allowed(self, loop: Loop, counter: Counter, found: Evolutions) -> None:
        """Raises InputError where the variables of a loop's header can be none."""
        name, node = counter.judged, loop.node
        symbol = self.scope.find(name)
        assert symbol is not None, "it counts"
        begun = {part.name: part for part in loop.first if isinstance(part, c_ast.Decl)}
        reason = not_counted.refused(name, name in begun, symbol, self.settings, self.in_fragment)
        if reason is not None:
            why, hint = reason
            where = node.init if isinstance(node, c_ast.For) and node.init is not None else node
            raise self.places.error(why, where, hint, topic="loop-variables")
        for part in loop.step:
            other = not_counted.target(part)
            if other is None or other == name or counters.given(loop, other) is None or other in self.settings.data:
                continue
            if other in loop.inside:
                raise self.places.error(
                    f"the loop counts '{other}' too, and '{other}' changes in it",
                    loop.header,
                    f"count '{name}' alone",
                    topic="loop-headers",
                )
            integer = (own := self.scope.find(other)) is not None and own.is_integer
            if integer and other not in found.recurrences | found.wrap_around.keys():
                raise not_counted.not_stepped(part, other, self)

    def _may_be_kept(self, loop: Loop, counter: Counter, found: Evolutions) -> None:
        """Raises InputError where what a `while` or `do` loop counts can be no variable of a region: that data decide
        how often it runs, if its condition reads arrays, comes first."""
        try:
            self._allowed(loop, counter, found)
        except InputError:
            if loop.condition is not None and any(isinstance(n, c_ast.ArrayRef) for n in nodes(loop.condition)):
                raise self._unbounded(loop.node) from None
            raise

    def _unbounded(self, node: AnyLoop) -> InputError:
        """That nothing says how often a `while` or `do` loop runs."""
        why = f"a '{_KEYWORDS[type(node)]}' loop has no bound known in advance, and cannot be kept as it is"
        return self.places.error(why, node, _COUNT, topic="control-flow")

    def _while(self, node: AnyLoop) -> None:
        """A loop of which nothing says how often it runs."""
        kind = _KEYWORDS[type(node)]
        if node.cond is None:
            raise self.places.error("the loop has no condition", node, not_counted.WRITE, topic="loop-headers")
        if constant(node.cond, self.scope) and not leaves(node.stmt):
            raise self.places.error(f"this '{kind}' loop never ends", node, _COUNT, topic="loop-headers")
        if not self.in_black_box:
            wrong = self._wrong_in_kept(node)
            self.errors += [self._unbounded(node), *wrong] if wrong else []
            return
        self._any_iterations(loop_of(node), ())


def _without_continue(body: Node) -> Node | None:
    """The body of a loop where what iterations leave out by `continue` stands in an `if` or `else`; None where one is
    elsewhere than at the end of an arm of an `if`, or a `break` ends the loop. Its parts are no copies."""
    made = _ended(items_of(body))
    return None if made is None else c_ast.Compound(made, body.coord)


def _ended(items: Sequence[Node]) -> list[Node] | None:
    for place, item in enumerate(items):
        if isinstance(item, c_ast.Continue):
            return list(items[:place])
        if not leaves(item):
            continue
        if not isinstance(item, c_ast.If):
            return None
        arms = [items_of(item.iftrue), items_of(item.iffalse)]
        ends = [bool(arm) and isinstance(arm[-1], c_ast.Continue) for arm in arms]
        others = (one for arm, end in zip(arms, ends, strict=True) for one in (arm[:-1] if end else arm))
        if not any(ends) or any(map(leaves, others)):
            return None
        rest = items[place + 1 :]
        made = [_ended(arm if end else [*arm, *rest]) for arm, end in zip(arms, ends, strict=True)]
        blocks = [c_ast.Compound(one, item.coord) for one in made if one is not None]
        return [*items[:place], _if(item, *blocks)] if len(blocks) == 2 else None
    return list(items)


def _if(item: c_ast.If, then: c_ast.Compound, otherwise: c_ast.Compound) -> Node:
    if then.block_items:
        return c_ast.If(item.cond, then, otherwise if otherwise.block_items else None, item.coord)
    return c_ast.If(negated(item.cond), otherwise, None, item.coord)
