"""What integers that evolve are worth in each iteration of a loop, and behind it (core.evolution)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.core import counters
from polydl.frontend.lower.state import State
from polydl.frontend.meaning.affine import NotAffine, Value, constant_aff, symbol_aff
from polydl.model import isl
from polydl.model.types import I64

BEGIN = "__polydl_begin_"
"""Begins the symbols for what integers are where an iteration begins."""

Known = tuple[Value, Node | None] | None
"""What the environment of a walk has of an integer."""


@dataclass(slots=True)
class Evolutions:
    """What an iteration of a loop does to the integers that it changes."""

    each: dict[str, Value] = field(default_factory=dict)
    """By name, what each iteration adds."""
    later: dict[str, Value] = field(default_factory=dict)
    """What others are behind an iteration, in terms of `symbols`; in an order in which each follows those before."""
    doubtful: set[str] = field(default_factory=set)
    """Those of `each` of which this holds where a loop inside runs, in which alone they are used."""


def symbols_of(value: Value) -> set[str]:
    """The integers on whose values where an iteration begins a value depends."""
    if value.pw is not None:
        names = set(isl.involved_parameters(value.pw))
    else:
        names = {name for monomial in value.poly or {} for name in monomial}
        names = {inner for name in names for inner in _named(name, value)}
    return {name.removeprefix(BEGIN) for name in names if name.startswith(BEGIN)}


def _named(name: str, value: Value) -> tuple[str, ...]:
    return isl.involved_parameters(value.parts[name]) if name in value.parts else (name,)


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
    if not found.later or done is None or done.pw is None:
        return made | dict.fromkeys(found.later)
    before = symbol_aff(counter.variable).sub(constant_aff(counter.step))
    own = {} if counter.name is None else {counter.name: counter.asked_at}
    for name, behind in found.later.items():
        begin = environment.get(name)
        now = {used: own[used] if used in own else function_of(made.get(used)) for used in symbols_of(behind)}
        made[name] = None
        if begin is None or begin[0].pw is None or behind.pw is None:
            continue
        given = {BEGIN + used: pw for used, pw in now.items() if pw is not None}
        if len(given) < len(now):
            continue
        then = {used: isl.substituted(pw, {counter.variable: before}) for used, pw in given.items()}
        follows = isl.substituted(behind.pw, then)
        first = done.pw.eq_set(constant_aff(0))
        if not reached.intersect(first).is_subset(begin[0].pw.eq_set(follows)):
            rest = follows.subtract_domain(first)
            follows = begin[0].pw.intersect_domain(first).union_add(rest).coalesce()
        made[name] = Value(follows.gist(reached).coalesce(), None, begin[0].ctype), None
    return made


def values_behind(
    found: Evolutions,
    counter: counters.Counter,
    where: tuple[isl.Set, isl.Set],
    environments: tuple[Mapping[str, Known], Mapping[str, Known]],
    state: State,
) -> dict[str, Known]:
    """What the integers that a loop changes are behind it, as far as they evolve.

    `where`: where the loop stands, and its iterations; `environments`: in front of it, and where an iteration begins.
    """
    around, taken = where
    before, inside = environments
    others = (found.each.keys() - {counter.name}) | found.later.keys()
    declared = {part.name for part in counter.loop.first if isinstance(part, c_ast.Decl)}
    made: dict[str, Known] = {}
    if counter.name is not None and counter.name not in declared:
        end = counters.afterwards(counter, around, taken, state)
        made[counter.name] = None if end is None else (Value(end, None, counter.ctype), None)
    if not others - declared:
        return made
    count = counters.trips(counter, around, taken, state)
    last = counters.last(counter, taken)
    if count is None or last is None:
        return made
    for name in others - declared:
        begin, value = before.get(name), None
        if begin is not None and name in found.each and name not in found.doubtful:
            value = moved(begin[0], found.each[name], count.running if count.sure else count.exact, state)
        elif begin is not None and name in found.later and begin[0].pw is not None:
            value = _behind_last(found.later[name], begin[0], counter, last, inside)
        made[name] = None if value is None else (value, None)
    return made


def _behind_last(
    behind: Value, begin: Value, counter: counters.Counter, last: isl.PwAff, inside: Mapping[str, Known]
) -> Value | None:
    """What an integer is behind a loop that follows others by an iteration."""
    given = {BEGIN + used: function_of(inside.get(used)) for used in symbols_of(behind)}
    if counter.name is not None and BEGIN + counter.name in given:
        given[BEGIN + counter.name] = counter.asked_at
    if behind.pw is None or begin.pw is None or any(pw is None for pw in given.values()):
        return None
    follows = isl.substituted(behind.pw, {used: pw for used, pw in given.items() if pw is not None})
    end = isl.substituted(follows, {counter.variable: last}).intersect_domain(last.domain())
    return Value(end.union_add(begin.pw.subtract_domain(last.domain())).coalesce(), None, begin.ctype)


def function_of(known: Known) -> isl.PwAff | None:
    return None if known is None else known[0].pw


def moved(begin: Value, added: Value, count: Value | None, state: State) -> Value | None:
    """The value behind so many iterations; None where it is not found."""
    if count is None:
        return None
    try:
        distance = _times(added, count) if added.poly is None else state.evaluator.product(added, count, I64)
        return None if distance is None else state.evaluator.combine(begin, distance, 1, begin.ctype)
    except NotAffine:
        return None


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
    if one.poly is not None and one.poly == other.poly and not one.parts and not other.parts:
        return then
    if one.pw is None or other.pw is None:
        return None
    if holds is None:
        return then if one.pw.is_equal(other.pw) else None
    both = one.pw.intersect_domain(holds).union_add(other.pw.subtract_domain(holds)).coalesce()
    return Value(both, None, one.ctype), None
