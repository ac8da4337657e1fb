"""Scalar evolution: what integers that a loop changes are worth in each of its iterations.

    k = 3;                                   k = {3, +, 2}: 3 + 2 * i where the body begins, 3 + 2 * n behind the loop
    for (i = 0; i < n; i++) {
        y[i] = x[k];
        k += 2;
    }

One iteration is executed on symbols that stand for what the integers are where it begins. What then differs from its
symbol by a number that no iteration changes is an add recurrence {start, +, step} (Bachmann, Wang and Zima, "Chains of
recurrences", ISSAC 1994; LLVM's ScalarEvolution). What is a function of others' symbols alone follows them by an
iteration (a wrap-around variable: Wolfe, "Beyond induction variables", PLDI 1992), as `t0` does in

    for (t = a, t0 = t % 2; t < b; t++, t0 = t % 2) …

The number may come of loops inside: `k++` in a loop of `w` iterations adds w, as long as w stays what it is. Where w is
a polynomial of the loop's own variable, as in the rows of a triangle, k is the sum of that over the iterations before,
a chain of recurrences of a higher order and a polynomial of one degree more:

    for (i = 0; i < n; i++)                  k = {0, +, 1, +, 1}: i * (i + 1) / 2 where the body begins
        for (j = 0; j <= i; j++) p[k++] = …
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.errors import InputError
from polydl.frontend.core import counters
from polydl.frontend.core.loop_forms import AnyLoop, Loop, Step, loop_of, step_of
from polydl.frontend.core.tree_parts import assigned_value
from polydl.frontend.lower.state import State
from polydl.frontend.meaning.affine import NotAffine, Value, as_rational, constant, polynomial_value, symbol
from polydl.frontend.meaning.affine_terms import constant_aff, symbol_aff, universe
from polydl.frontend.meaning.integer_ranges import own_range
from polydl.frontend.meaning.liveness import assigned_names
from polydl.frontend.meaning.lookup import NeedsData
from polydl.frontend.meaning.symbols import mentions, nodes
from polydl.model import isl
from polydl.model.polynomials import Rational, poly_add, poly_mul, substituted, summed
from polydl.model.scop import Storage
from polydl.model.types import I64

_BEGIN = "__polydl_begin_"
"""Begins the symbols for what integers are where an iteration begins."""
_DONE = "__polydl_done"
"""The number of an iteration."""

Known = tuple[Value, Node | None] | None
"""What the environment of a walk has of an integer."""


@dataclass(slots=True)
class Evolutions:
    """What an iteration of a loop does to the integers that it changes.

    for (i = 0; i < n; i++) { y[i] = x[k] + z[t]; k += 2; t = k; }         each: k -> 2;  wrap_around: t -> k + 2
    """

    begins: Mapping[str, str] = field(default_factory=dict)
    """The symbols for what the integers are where an iteration begins."""
    each: dict[str, Value] = field(default_factory=dict)
    """Induction variables -> the step {start, +, step}, which no iteration changes."""
    growing: dict[str, Value] = field(default_factory=dict)
    """Those whose step is a polynomial of induction variables, as these are where the iteration begins."""
    wrap_around: dict[str, Value] = field(default_factory=dict)
    """Wrap-around variables -> their value at the end of an iteration, a function of the induction variables and of
    wrap-around variables in front of them in this dictionary, as they are where the iteration begins."""
    conditional: set[str] = field(default_factory=set)
    """Conditional recurrences: those of `each` whose step is right only if a loop inside runs at least once. They may
    be used in that loop and nowhere else."""

    def used(self, value: Value) -> set[str]:
        """The integers on whose values where an iteration begins a value depends."""
        if value.pw is not None:
            involved = {*isl.involved_parameters(value.pw)}
        else:
            poly = value.poly if value.rational is None else value.rational
            named = {name for monomial in poly or {} for name in monomial}
            parts = (isl.involved_parameters(value.parts[name]) for name in named & value.parts.keys())
            involved = {*named.difference(value.parts), *(name for part in parts for name in part)}
        return {name for name, symbol_ in self.begins.items() if symbol_ in involved}

    @property
    def recurrences(self) -> set[str]:
        """The integers whose value in an iteration follows from its number."""
        return {*self.each, *self.growing}


def evolutions(loop: Loop, state: State) -> Evolutions:
    """How the integers evolve that a loop changes, where the walk is in front of its first iteration."""
    begins: dict[str, Value] = {}
    names = loop.changed - loop.inside | loop.header_stepped if loop.left else loop.changed
    for name in sorted(names):
        found = state.scope.find(name)
        if found is not None and found.integer is not None and name not in state.settings.data:
            # those of a loop around, an iteration of which is executed, are others
            begins[name] = symbol(f"{_BEGIN}{state.executing}_{name}", found.integer)
    result = Evolutions({name: isl.involved_parameters(value.pw)[0] for name, value in begins.items() if value.pw})
    if not begins:
        return result
    execution = _Execution(state, loop, result.conditional)
    body = not loop.left and not loop.inside.isdisjoint(begins.keys() - loop.header_stepped)
    behind = execution.iteration(begins, body=body)
    waiting = dict(begins)
    for name, added in _added(begins, behind, state).items():
        if not result.used(added):
            result.each[name] = added
            del waiting[name]
    if body and result.each and not waiting.keys().isdisjoint(_stepped_inside(loop)):
        # with what is known of the others: a row of i elements is one of less than none where i may be below zero
        execution.conditional = set()
        behind = execution.iteration(begins, body=True, steps=result.each)
        for name, added in _added({name: begins[name] for name in waiting}, behind, state).items():
            if result.used(added) <= _counted(result, loop, begins) and name not in execution.conditional:
                result.growing[name] = added
                del waiting[name]
        result.conditional &= result.each.keys()
    progress = True
    while progress:
        progress = False
        for name in list(waiting):
            end = behind.get(name)
            if end is not None and end[0].pw is not None and not result.used(end[0]) & waiting.keys():
                result.wrap_around[name] = end[0]
                del waiting[name]
                progress = True
    return result


def _stepped_inside(loop: Loop) -> set[str]:
    """The integers that the body steps, but for those to which headers of loops inside give a value anew."""
    inside = [*nodes(loop.body)]
    stepped = {step.name for node in inside if (step := step_of(node)) is not None}
    headers = (node.init for node in inside if isinstance(node, c_ast.For) and node.init is not None)
    return stepped.difference(*(assigned_names(header) for header in headers))


def _counted(found: Evolutions, loop: Loop, begins: Mapping[str, Value]) -> set[str]:
    """Induction variables that a step may depend on: those that wrap around are none."""
    return {name for name in found.each if not begins[name].ctype.unsigned or name in loop.exit_variables}


def _added(begins: Mapping[str, Value], behind: Mapping[str, Known], state: State) -> dict[str, Value]:
    """What an iteration adds to integers, as far as that is known."""
    ends = {name: end[0] for name in begins if (end := behind.get(name)) is not None}
    return {name: state.evaluator.combine(end, begins[name], -1, I64) for name, end in ends.items()}


@dataclass(slots=True)
class _Execution:
    """Executes an iteration of a loop as far as integers go."""

    state: State
    loop: Loop
    conditional: set[str]

    def iteration(
        self, begins: Mapping[str, Value], *, body: bool, steps: Mapping[str, Value] | None = None
    ) -> dict[str, Known]:
        """What integers are behind an iteration, in terms of what they are where it begins; without its `body`, those
        that nothing in it changes. `steps`: what each iteration adds to some of them. It leaves no trace in the
        walk."""
        state = self.state
        before = (state.environment, state.domain, state.walked)
        walked = state.walked
        state.walked = replace(
            walked, parameters=dict(walked.parameters), shaping=set(walked.shaping), derived=dict(walked.derived),
            sized=dict(walked.sized), constants=dict(walked.constants), called=dict(walked.called),
            temporaries=dict(walked.temporaries), granted=dict(walked.granted),
        )  # fmt: skip
        first = state.environment
        state.environment = dict(first)
        state.executing += 1
        try:
            with state.scoped():
                state.forget(self.loop.changed)
                state.environment.update({name: (value, None) for name, value in begins.items()})
                for part in self.loop.test_effects:
                    self.run(part)
                if body:
                    state.domain = self._where(begins, first).intersect(self._reached(begins, first, steps or {}))
                    self.run(self.loop.body)
                # what the header steps and the body changes, too, is refused by the walk
                stepped = self.loop.header_stepped & begins.keys()
                state.environment.update({name: (begins[name], None) for name in stepped})
                for part in self.loop.step:
                    self.run(part)
            return state.environment
        finally:
            state.environment, state.domain, state.walked = before
            state.executing -= 1

    @staticmethod
    def _reached(begins: Mapping[str, Value], first: Mapping[str, Known], steps: Mapping[str, Value]) -> isl.Set:
        """That integers that grow (shrink) by a number are at least (at most) what they are in the first iteration."""
        found = universe()
        for name, step in steps.items():
            start, value, number = function_of(first.get(name)), begins[name].pw, step.constant
            if start is not None and value is not None and number and not begins[name].ctype.unsigned:
                found = found.intersect(value.ge_set(start) if number > 0 else value.le_set(start))
        return found

    def _where(self, begins: Mapping[str, Value], first: Mapping[str, Known]) -> isl.Set:
        """What is known where an iteration begins."""
        state, where = self.state, self.state.domain
        for value in begins.values():
            if value.ctype.unsigned:
                (own,) = isl.involved_parameters(value.pw) if value.pw is not None else ()
                where = where.intersect(own_range(own, value.ctype))
        if self.loop.condition is None:
            return where
        try:
            holds = state.evaluator.condition(self.loop.condition, where)
        except (NotAffine, NeedsData):
            return where
        if self.loop.bottom_tested:
            starts = where
            for name, value in begins.items():
                start = function_of(first.get(name))
                if start is not None and value.pw is not None:
                    starts = starts.intersect(value.pw.eq_set(start))
            holds = holds.union(starts)
        return where.intersect(holds)

    def run(self, node: Node | None) -> None:
        """Execute a statement."""
        state = self.state
        match node:
            case None:
                pass
            case c_ast.Compound():
                with state.scoped():
                    for item in node.block_items or ():
                        self.run(item)
            case c_ast.DeclList(decls=parts) | c_ast.ExprList(exprs=parts):
                for part in parts:
                    self.run(part)
            case c_ast.Decl(name=str()):
                found = state.scope.declare(node, Storage.REGION, constant)
                state.environment[node.name] = None
                if found is not None and node.init is not None:
                    self._give(node.name, node.init)
            case _ if (step := step_of(node)) is not None and not assigned_names(step.by):
                self._step(step)
            case c_ast.Assignment(lvalue=c_ast.ID(name=name), rvalue=value) if not assigned_names(value):
                self._give(name, assigned_value(node))
            case c_ast.If():
                self._if(node)
            case c_ast.For() | c_ast.While() | c_ast.DoWhile():
                self._loop(node)
            case _:
                state.forget(assigned_names(node))

    def _step(self, step: Step) -> None:
        """Add to an integer. Whether it leaves the range of its type is seen where the walk does this step."""
        state = self.state
        known = state.environment.get(step.name)
        state.forget(frozenset({step.name}))
        if known is None:
            return
        try:
            far = state.evaluator.value(step.by, state.domain)
            made = state.evaluator.combine(known[0], far, 1 if step.op == "+" else -1, known[0].ctype)
        except (NotAffine, NeedsData):
            return
        state.environment[step.name] = made, None

    def _give(self, name: str, value: Node) -> None:
        state = self.state
        found = state.scope.find(name)
        if found is None or found.integer is None or name in state.settings.data:
            return
        try:
            made = state.evaluator.value(value, state.domain)
            state.environment[name] = state.evaluator.convert(made, found.integer, value, state.domain), None
        except (NotAffine, NeedsData):
            state.environment[name] = None

    def _if(self, node: c_ast.If) -> None:
        state = self.state
        before, outer = state.environment, state.domain
        if not assigned_names(node):
            return
        holds: isl.Set | None
        try:
            holds = state.evaluator.condition(node.cond, outer)
        except (NotAffine, NeedsData):
            holds = None
        arms = []
        for arm, where in ((node.iftrue, holds), (node.iffalse, None if holds is None else holds.complement())):
            state.environment = dict(before)
            state.domain = outer if where is None else outer.intersect(where)
            with state.scoped():
                self.run(arm)
            arms.append(state.environment)
        state.domain = outer
        then, otherwise = arms
        state.environment = {name: merged(then.get(name), otherwise.get(name), holds) for name in {*then, *otherwise}}

    def _loop(self, node: AnyLoop) -> None:
        """A loop inside: what it adds is known where its iterations are counted."""
        state, loop = self.state, loop_of(node)
        changed = loop.changed | frozenset(name for part in loop.first for name in assigned_names(part))
        with state.scoped():
            for part in loop.first:
                self.run(part)
            behind = None if loop.left else self._behind(loop)
        state.forget(changed)
        state.environment.update(behind or {})

    def _behind(self, loop: Loop) -> dict[str, Known] | None:
        """What integers are behind a loop; None where that is not found."""
        state = self.state
        inner = evolutions(loop, state)
        counter = counters.counter_of(loop, inner.each, state)
        if counter is None or counter.start is None or not inner.recurrences - {counter.name}:
            return None
        environment, around = state.environment, state.domain
        try:
            taken = iterations_of(inner, counter, state)
            inside = state.environment
        except (NotAffine, NeedsData, InputError):
            return None
        finally:
            state.environment = environment
        made = values_behind(inner, counter, (around, taken), (environment, inside), state, self._inside_alone(loop))
        self.conditional.update(inner.conditional & made.keys())
        return made

    def _inside_alone(self, inner: Loop) -> set[str]:
        """The integers that the loop whose iteration is executed names in a loop inside alone."""
        everywhere, inside = [*mentions(self.loop.node)], [*mentions(inner.node)]
        return {name for name in inside if everywhere.count(name) == inside.count(name)}


def values_at(
    found: Evolutions, counter: counters.Counter, reached: isl.Set, environment: Mapping[str, Known], state: State
) -> dict[str, Known]:
    """What the integers that evolve are where an iteration begins, its condition not asked yet; `environment`: what
    they are in the first one; `reached`: iterations, perhaps more than there are."""
    made: dict[str, Known] = {}
    done = counters.iteration(counter, state)
    for name, each in found.each.items():
        begin = environment.get(name)
        value = None if begin is None else moved(begin[0], each, done, state)
        made[name] = None if value is None else (value, None)
    for name in found.growing:
        value = grown(name, found, environment, done)
        made[name] = None if value is None else (value, None)
    if not found.wrap_around or done is None or done.pw is None:
        return made | dict.fromkeys(found.wrap_around)
    before = symbol_aff(counter.variable).sub(constant_aff(counter.step))
    own = {} if counter.name is None else {counter.name: counter.asked_at}
    for name, behind in found.wrap_around.items():
        begin = environment.get(name)
        now = {
            used: own[used] if used in own else known_number(made.get(used), reached, state)
            for used in found.used(behind)
        }
        made[name] = None
        if begin is None or begin[0].pw is None or behind.pw is None:
            continue
        given = {found.begins[used]: pw for used, pw in now.items() if pw is not None}
        if len(given) < len(now):
            continue
        then = {used: isl.substituted(pw, {counter.variable: before}) for used, pw in given.items()}
        follows = isl.substituted(behind.pw, then)
        first = done.pw.eq_set(constant_aff(0))
        if not reached.intersect(first).is_subset(begin[0].pw.eq_set(follows)):
            rest = follows.subtract_domain(first)
            follows = begin[0].pw.intersect_domain(first).union_add(rest).coalesce()
        wrapped = begin[0].wrapped or behind.wrapped
        made[name] = Value(follows.gist(reached).coalesce(), None, begin[0].ctype, wrapped=wrapped), None
    return made


def iterations_of(found: Evolutions, counter: counters.Counter, state: State) -> isl.Set:
    """The current iterations with the values that a loop's dimension takes; the environment becomes what its body
    sees where an iteration begins. Raises InputError, NotAffine."""
    before = state.environment
    made: dict[str, Known] = {}
    if found.wrap_around or found.recurrences - {counter.name}:
        made = values_at(found, counter, counters.reached(counter, state.domain, state), before, state)
    state.environment = dict(before)
    state.forget(counter.loop.changed)
    state.environment.update(made)
    if counter.name is not None:
        state.environment.pop(counter.name, None)
    return counters.domain(counter, state.domain, state)


def values_behind(
    found: Evolutions,
    counter: counters.Counter,
    where: tuple[isl.Set, isl.Set],
    environments: tuple[Mapping[str, Known], Mapping[str, Known]],
    state: State,
    alone: Collection[str] | None = None,
) -> dict[str, Known]:
    """What the integers that a loop changes are behind it, as far as they evolve.

    `where`: where the loop stands, and its iterations; `environments`: in front of it, and where an iteration begins;
    `alone`: integers that nothing but the loop uses, which become conditional where it may not run; None: what is
    conditional is not known.
    """
    around, taken = where
    before, inside = environments
    others = (found.recurrences - {counter.name}) | found.wrap_around.keys()
    declared = {part.name for part in counter.loop.first if isinstance(part, c_ast.Decl)}
    made: dict[str, Known] = {}
    if counter.name is not None and counter.name not in declared:
        end = counters.afterwards(counter, around, taken, state)
        # what an unsigned one that counts down to zero is behind its last test is C's value modulo 2^bits
        behind = None if end is None else Value(end, None, counter.ctype, wrapped=counter.ctype.unsigned)
        made[counter.name] = None if behind is None else (behind, None)
    if not others - declared:
        return made
    count = counters.trips(counter, around, taken, state)
    last = counters.last(counter, taken)
    if count is None or last is None:
        return made
    for name in others - declared:
        begin, value = before.get(name), None
        if begin is not None and name in found.each and (alone is not None or name not in found.conditional):
            if not count.sure and name in (alone or ()):
                found.conditional.add(name)
            run = count.running if count.sure or name in (alone or ()) else count.exact
            value = moved(begin[0], found.each[name], run, state)
        elif begin is not None and name in found.growing and count.sure:
            value = grown(name, found, before, count.running)
        elif begin is not None and name in found.wrap_around and begin[0].pw is not None:
            value = _behind_last(name, begin[0], found, counter, last, (taken, inside), state)
        made[name] = None if value is None else (value, None)
    return made


def _behind_last(
    name: str,
    begin: Value,
    found: Evolutions,
    counter: counters.Counter,
    last: isl.PwAff,
    iterations: tuple[isl.Set, Mapping[str, Known]],
    state: State,
) -> Value | None:
    """What an integer is behind a loop that follows others by an iteration. `iterations`: those of the loop, and what
    integers are where they begin."""
    taken, inside = iterations
    behind = found.wrap_around[name]
    now = {used: known_number(inside.get(used), taken, state) for used in found.used(behind)}
    if counter.name is not None and counter.name in now:
        now[counter.name] = counter.asked_at
    given = {found.begins[used]: pw for used, pw in now.items()}
    if behind.pw is None or begin.pw is None or any(pw is None for pw in given.values()):
        return None
    follows = isl.substituted(behind.pw, {used: pw for used, pw in given.items() if pw is not None})
    end = isl.substituted(follows, {counter.variable: last}).intersect_domain(last.domain())
    whole = end.union_add(begin.pw.subtract_domain(last.domain())).coalesce()
    return Value(whole, None, begin.ctype, wrapped=begin.wrapped or behind.wrapped)


def known_number(known: Known, where: isl.Set, state: State) -> isl.PwAff | None:
    """The function of an integer that lies in the range of its type where `where` holds; None for others."""
    if known is None:
        return None
    try:
        return state.evaluator.observed(known[0], state.settings.region or c_ast.EmptyStatement(), where).pw
    except NotAffine:
        return None


def function_of(known: Known) -> isl.PwAff | None:
    return None if known is None else known[0].pw


def moved(begin: Value, added: Value, count: Value | None, state: State) -> Value | None:
    """The value behind so many iterations; None where it is not found."""
    if count is None:
        return None
    distance = _times(added, count) if added.poly is None else state.evaluator.product(added, count, I64)
    return None if distance is None else state.evaluator.combine(begin, distance, 1, begin.ctype)


def grown(name: str, found: Evolutions, start: Mapping[str, Known], count: Value | None) -> Value | None:
    """The value behind so many iterations of an integer whose step is a polynomial of induction variables; None where
    it is not found. `start`: what integers are in the first iteration."""
    step, begin = found.growing[name], start.get(name)
    if begin is None or count is None or not _is_polynomial(step, begin[0], count):
        return None
    at: dict[str, Rational] = {}
    for used in found.used(step):
        first, each = start.get(used), found.each[used]
        if first is None or not _is_polynomial(first[0], each):
            return None
        at[found.begins[used]] = poly_add(as_rational(first[0]), poly_mul(as_rational(each), {(_DONE,): Fraction(1)}))
    total = substituted(summed(substituted(as_rational(step), at), _DONE), {_DONE: as_rational(count)})
    return polynomial_value(poly_add(as_rational(begin[0]), total), begin[0].ctype, {})


def _is_polynomial(*values: Value) -> bool:
    return all(not one.parts and (one.poly is not None or one.rational is not None) for one in values)


def _times(added: Value, count: Value) -> Value | None:
    """The product with a number that conditions choose; None where they choose between others."""
    if added.pw is None or count.pw is None:
        return None
    whole: isl.PwAff | None = None
    for where, chosen in isl.pieces(added.pw):
        number = Value(isl.PwAff.from_aff(chosen), None, I64).constant
        if number is None:
            return None
        part = count.pw.scale_val(isl.value(number)).intersect_domain(where)
        whole = part if whole is None else whole.union_add(part)
    return None if whole is None else Value(whole.coalesce(), None, I64)


def merged(then: Known, otherwise: Known, holds: isl.Set | None) -> Known:
    """What an integer is behind an `if` of which it is one of two values; `holds` None: data decide."""
    if then is otherwise or then is None or otherwise is None:
        return then if then is otherwise else None
    one, other = then[0], otherwise[0]
    same = one.poly == other.poly and one.rational == other.rational
    if same and _is_polynomial(one) and not other.parts:
        return then
    if one.pw is None or other.pw is None:
        return None
    if holds is None:
        return then if one.pw.is_equal(other.pw) else None
    both = one.pw.intersect_domain(holds).union_add(other.pw.subtract_domain(holds)).coalesce()
    return Value(both, None, one.ctype, wrapped=one.wrapped or other.wrapped), None
