"""Where schedules start: the order as written, isl's schedulers under several settings, and skewed loops.

isl: isl_schedule_constraints_compute_schedule, a Pluto-like (Bondhugula et al., PLDI 2008) and a Feautrier scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from polydl.base.errors import QuotaExceeded
from polydl.model import isl
from polydl.model.in_time import in_seconds
from polydl.model.isl import context, quota
from polydl.model.isl.trees import loops_of, schedule_kind, sets_of, union_map, union_set
from polydl.model.schedule import time_affs
from polydl.model.scop import Scop, Statement
from polydl.schedule.relations import Links, by_name, span
from polydl.schedule.tree import Band, Leaf, Member, Node, Order

QUOTA = 1_000_000
"""isl operations that one run of its scheduler may take: of the order of ten seconds."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Options of isl's scheduler (isl manual, "Schedules")."""

    name: str
    algorithm: int
    """0: isl's (Pluto-like), 1: Feautrier's."""
    serialize_sccs: bool
    """Fuse as little as possible."""
    outer_coincidence: bool
    """Look for parallel outer loops first."""


SETTINGS = (
    Setting("pluto-max", 0, False, False),
    Setting("pluto-min", 0, True, False),
    Setting("outer-max", 0, False, True),
    Setting("outer-min", 0, True, True),
    Setting("feautrier", 1, False, False),
)


SECONDS = 1
"""Of processor time for an attempt at a schedule: some of isl's integer programs run for minutes without counting
operations."""


FAILURES = 3
"""Attempts for one region that may take too long before no other is made."""

TIME = 5.0
"""Seconds of processor time for one region, after which no further schedule is looked for."""

_SIMPLIFY = "simplify the bounds and subscripts of the nest"


@dataclass(slots=True)
class Patience:
    """What a region may still cost."""

    left: int = FAILURES
    """Attempts that may take too long."""
    seconds: float = TIME
    """Of processor time, beside isl's schedulers."""


@contextmanager
def _options(setting: Setting) -> Iterator[None]:
    ctx = context()
    before = (ctx.get_schedule_algorithm(), ctx.get_schedule_serialize_sccs(), ctx.get_schedule_outer_coincidence())
    ctx.set_schedule_algorithm(setting.algorithm)
    ctx.set_schedule_serialize_sccs(int(setting.serialize_sccs))
    ctx.set_schedule_outer_coincidence(int(setting.outer_coincidence))
    try:
        yield
    finally:
        ctx.set_schedule_algorithm(before[0])
        ctx.set_schedule_serialize_sccs(before[1])
        ctx.set_schedule_outer_coincidence(before[2])


class NotATree(Exception):
    """isl's schedule has a form that `Node` does not have: it leaves out a statement whose domain is empty, say."""


def computed(
    scop: Scop, statements: Sequence[Statement], links: Links, setting: Setting, patience: Patience
) -> Node | None:
    """The schedule that isl computes; None when it finds none. Raises QuotaExceeded, NotATree."""
    names = [s.name for s in statements]
    what = f"isl's scheduler ({setting.name}) for {scop.function}"
    failure = QuotaExceeded(f"{what} is left out after {FAILURES} attempts that took too long", hint=_SIMPLIFY)
    for prefix in ALIASES:
        if patience.left == 0:
            break
        alias = {name: f"{prefix}{k}" if prefix else name for k, name in enumerate(names)}
        try:
            text = in_seconds(partial(_schedule_text, scop, statements, links, setting, alias, what), SECONDS, what)
        except QuotaExceeded as error:
            failure = error
            patience.left -= 1
            continue
        if not text:
            return None
        schedule = isl.Schedule.read_from_str(context(), _renamed(text, {alias[name]: name for name in names}))
        return _converted(schedule.get_root().child(0), names, by_name(statements), scop.context.get_space())
    raise failure


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """isl's text with tuples of other names."""
    return re.sub(rf"\b({'|'.join(names)})\[", lambda found: f"{names[found[1]]}[", text)


ALIASES = ("", "P", "Sx")
"""Names that the statements go by, one after the other, until isl's scheduler comes back in time: the order in which it
looks at them depends on hashes of their names, and so does, by factors of a hundred, how long its integer programs
take. Empty: their own."""


def _schedule_text(
    scop: Scop, statements: Sequence[Statement], links: Links, setting: Setting, alias: Mapping[str, str], what: str
) -> str:
    """isl's schedule of statements that go by other names, as do parameters and iterators: in a text, isl takes `mod`
    and `max` for its own words. Empty when there is none.

    Raises QuotaExceeded, isl.Error.
    """
    model = scop.context.get_space()
    known = _neutral(scop.context.params(), model)
    sources = {s.name: [f"j{k}" for k in range(s.depth)] for s in statements}
    targets = {s.name: [f"i{k}" for k in range(s.depth)] for s in statements}
    domain = union_set(
        isl.named(_neutral(s.domain, model), targets[s.name]).set_tuple_name(alias[s.name]) for s in statements
    )
    relations = []
    for link in links:
        relation = isl.domain_named(_neutral(link.relation, model), alias[link.source], sources[link.source])
        relations.append(isl.range_named(relation, alias[link.target], targets[link.target]))
    order = union_map(relations)
    constraints = isl.ScheduleConstraints.on_domain(domain).set_context(known)
    constraints = constraints.set_validity(order).set_coincidence(order).set_proximity(order)
    with _options(setting):
        try:
            with quota(what, QUOTA):
                return str(constraints.compute_schedule())
        except isl.Error as error:
            if "unable to carry dependences" in str(error):
                return ""
            raise


_Known = TypeVar("_Known", isl.Set, isl.Map)


def _neutral(known: _Known, model: isl.Space) -> _Known:
    """With parameters p0, p1, … in the model's order."""
    return isl.renamed(known.align_params(model), {name: f"p{k}" for k, name in enumerate(isl.parameters(model))})


def _converted(node: isl.ScheduleNode, names: Sequence[str], of: Mapping[str, Statement], model: isl.Space) -> Node:
    match schedule_kind(node):
        case "leaf":
            leaves = tuple(Leaf(name) for name in names)
            return leaves[0] if len(leaves) == 1 else Order(leaves)
        case "band":
            members = tuple(
                Member({name: _aff(functions, of[name], model) for name in names})
                for functions in loops_of(node.band_get_partial_schedule())
            )
            return Band(members, _converted(node.child(0), names, of, model))
        case "sequence" | "set":
            children = []
            for k in range(node.n_children()):
                child = node.child(k)
                inside = {part.get_tuple_name() for part in sets_of(child.filter_get_filter())}
                kept = [name for name in names if name in inside]
                children.append((kept, _converted(child.child(0), kept, of, model)))
            return Order(tuple(child for _, child in children))
        case other:
            raise NotATree(f"isl's scheduler made a node of type {other}")


def _aff(functions: Mapping[str, isl.PwAff], statement: Statement, model: isl.Space) -> isl.Aff:
    """A statement's function, in the model's parameters and the statement's iterators."""
    if statement.name not in functions:
        raise NotATree(f"isl's schedule leaves out {statement.name}")
    affine = isl.pieces(functions[statement.name])
    if len(affine) != 1:
        raise NotATree(f"isl's schedule of {statement.name} is not one affine expression: {functions[statement.name]}")
    own = {f"p{k}": name for k, name in enumerate(isl.parameters(model))}
    aff = affine[0][1].align_params(isl.parameter_space(own))
    return isl.domain_renamed(isl.renamed(aff, own), statement.iterators)


def written(statements: Sequence[Statement], depth: int = 0) -> Node:
    """The order as it is written: a band for each loop."""
    if len(statements) == 1 and statements[0].depth == depth:
        return Leaf(statements[0].name)
    groups: dict[int, list[Statement]] = {}
    for statement in statements:
        groups.setdefault(statement.position[depth], []).append(statement)
    children: list[Node] = []
    for _, group in sorted(groups.items()):
        if group[0].depth == depth:
            children.append(Leaf(group[0].name))
            continue
        member = Member({s.name: time_affs(s)[depth] for s in group})
        children.append(Band((member,), written(group, depth + 1)))
    return children[0] if len(children) == 1 else Order(tuple(children))


_MOST_SKEW = 3
"""Largest factor of the outer loop that is added to an inner one."""


def skewed(statements: Sequence[Statement], links: Links) -> Node | None:
    """One permutable band for loops in time: each inner loop skewed by the outer one and shifted per statement.

    before:    for t { for i: S(t, i);  for i: T(t, i) }
    after:     for t: for x: { S(t, x - a*t - c_S); T(t, x - a*t - c_T) }
    requires:  all statements share the outer loop
    source:    time skewing (Wonnacott, IPDPS 2000). Per loop the least `a` with shifts under which every link runs
               forward: a system of difference constraints. Much cheaper than the scheduler's integer programs, where
               a stencil has many dimensions.
    """
    first = statements[0]
    if first.depth < 2 or any(s.depth < 1 or s.position[0] != first.position[0] for s in statements):
        return None
    deepest = max(s.depth for s in statements)
    outer = Member({s.name: time_affs(s)[0] for s in statements})
    members = [outer]
    for back in range(deepest - 1, 0, -1):
        # Statements with fewer loops have their last ones in common with the others.
        own = {s.name: time_affs(s)[s.depth - back] if s.depth - back >= 1 else None for s in statements}
        found = _shifted(statements, links, outer, own)
        if found is None:
            return None
        members.append(found)
    leaves = tuple(Leaf(s.name) for s in statements)
    return Band(tuple(members), leaves[0] if len(leaves) == 1 else Order(leaves))


def _shifted(
    statements: Sequence[Statement], links: Links, outer: Member, own: Mapping[str, isl.Aff | None]
) -> Member | None:
    for factor in range(_MOST_SKEW + 1):
        affs = {}
        for s in statements:
            aff, inner = outer.affs[s.name].scale_val(isl.Val.int_from_si(context(), factor)), own[s.name]
            affs[s.name] = aff if inner is None else aff.add(inner)
        shifts = _shifts([s.name for s in statements], links, Member(affs))
        if shifts is not None:
            return Member({n: a.add_constant_val(isl.Val.int_from_si(context(), shifts[n])) for n, a in affs.items()})
    return None


def _shifts(names: Sequence[str], links: Links, member: Member) -> dict[str, int] | None:
    """The least shifts >= 0 under which no link runs backwards along the loop; None when there are none (longest
    paths, Bellman and Ford)."""
    least = []
    for link in links:
        low = span(link, member)[0]
        if low is None:
            return None
        least.append((link.source, link.target, low))
    shifts = dict.fromkeys(names, 0)
    for _ in range(len(names) + 1):
        changed = False
        for source, target, low in least:
            if shifts[target] < shifts[source] - low:
                shifts[target] = shifts[source] - low
                changed = True
        if not changed:
            return shifts
    return None
