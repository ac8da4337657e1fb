"""isl's schedulers under several settings, as starting points.

isl: isl_schedule_constraints_compute_schedule, a Pluto-like (Bondhugula et al., PLDI 2008) and a Feautrier scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from polydl.base.errors import QuotaExceeded
from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.in_child import in_child
from polydl.model.isl import context, quota
from polydl.model.isl.trees import loops_of, schedule_kind, sets_of, union_map, union_set
from polydl.model.scop import Scop, Statement
from polydl.schedule.relations import Links, by_name
from polydl.schedule.tree import Band, Leaf, Member, Node, sequence
from polydl.search.small_numbers import SmallNumbers

QUOTA = 200_000
"""isl operations that one run of its scheduler may take. Those that find a schedule for the programs of tests/programs
take at most 55,000."""

MOST_UNKNOWNS = 400
"""Unknowns of the largest integer program that isl's own scheduler is given."""

MOST_IN_TURN = 2000
"""The same of Feautrier's, which solves one dependence after the other: with 2,814 (141 statements) it hangs."""

HANG_SECONDS = 10
"""Of processor time, after which a run that has not used up its operations is taken to hang: an operation on numbers of
thousands of digits counts as one. Over twice what the slowest takes that finds a schedule."""


ISL, FEAUTRIER = 0, 1


@dataclass(frozen=True, slots=True)
class Setting:
    """Options of isl's scheduler (isl manual, "Schedules")."""

    name: str
    algorithm: int
    """`ISL` (Pluto-like) or `FEAUTRIER`."""
    serialize_sccs: bool
    """Fuse as little as possible."""
    outer_coincidence: bool
    """Look for parallel outer loops first."""
    prefix: str = ""
    """Of the names under which isl sees the statements. Where its integer programs have several optima, which one it
    finds depends on the order of its hash tables, thus on the names: in LU decomposition with vectors one name leads to
    plain loops, which suit a microkernel, another to skewed ones."""


SETTINGS = (
    Setting("pluto-max", ISL, False, False),
    Setting("pluto-min", ISL, True, False),
    Setting("outer-max", ISL, False, True),
    Setting("outer-min", ISL, True, True),
    Setting("feautrier", FEAUTRIER, False, False),
    Setting("pluto-max-renamed", ISL, False, False, "Sx"),
    Setting("pluto-min-renamed", ISL, True, False, "Sx"),
)


MOST_COEFFICIENT = 4
"""Greatest coefficient of an iterator in a schedule: no loop that anybody wants has a larger one, and isl's integer
programs hang (on few operations, with numbers of thousands of digits) where they may be as large as an extent."""


LARGEST_FACTOR = 64
"""Of an iterator in a schedule that is looked at. `MOST_COEFFICIENT` does not keep isl from making products of extents
of it, where one loop runs over pieces of another: loops that mostly do nothing, with more iterations than an int has
values."""


@contextmanager
def _options(setting: Setting) -> Iterator[None]:
    wanted = {
        "algorithm": setting.algorithm,
        "serialize_sccs": int(setting.serialize_sccs),
        "outer_coincidence": int(setting.outer_coincidence),
        "max_coefficient": MOST_COEFFICIENT,
    }
    ctx = context()
    before = {name: getattr(ctx, f"get_schedule_{name}")() for name in wanted}
    try:
        for name, number in wanted.items():
            getattr(ctx, f"set_schedule_{name}")(number)
        yield
    finally:
        for name, number in before.items():
            getattr(ctx, f"set_schedule_{name}")(number)


class NotATree(Exception):
    """isl's schedule has a form that `Node` does not have: it leaves out a statement whose domain is empty, say."""


def computed(scop: Scop, statements: Sequence[Statement], links: Links, setting: Setting) -> Node | None:
    """The schedule that isl computes; None when it finds none. Raises QuotaExceeded, Hung, NotATree."""
    what = f"isl's scheduler ({setting.name}) for {scop.function}"
    at_once = setting.algorithm == ISL
    most = MOST_UNKNOWNS if at_once else MOST_IN_TURN
    if (size := unknowns(links)) > most:
        raise QuotaExceeded(
            f"{what} would solve for {size} unknowns{' at once' if at_once else ''}, more than {most}",
            hint="put fewer statements into one region",
        )
    small = SmallNumbers.of([scop.context, *(s.domain for s in statements), *(link.relation for link in links)])
    text = in_child(partial(_schedule_text, scop, statements, links, setting, small, what), what, seconds=HANG_SECONDS)
    if not text:
        return None
    root = isl.Schedule.read_from_str(context(), text).get_root().child(0)
    reader = _Reader(by_name(statements), scop.context.get_space(), small, setting.prefix)
    return reader.node(root, [s.name for s in statements])


def unknowns(links: Links) -> int:
    """Size of the integer program of isl's scheduler: for every piece of a dependence a factor of each of its
    dimensions (Farkas' lemma, as in Feautrier, "Some efficient solutions to the affine scheduling problem", 1992)."""
    return sum(
        isl.piece_count(link.relation) * (isl.domain_arity(link.relation) + isl.range_arity(link.relation) + 2)
        for link in links
    )


def _schedule_text(
    scop: Scop, statements: Sequence[Statement], links: Links, setting: Setting, small: SmallNumbers, what: str
) -> str:
    """isl's schedule of statements whose parameters and iterators go by other names: in a text, isl takes `mod` and
    `max` for its own words. Empty when there is none.

    Raises QuotaExceeded, isl.Error.
    """
    model = scop.context.get_space()
    known = _neutral(small.put(scop.context.params()), model)
    sources = {s.name: [f"j{k}" for k in range(s.depth)] for s in statements}
    targets = {s.name: [f"i{k}" for k in range(s.depth)] for s in statements}
    domain = union_set(
        isl.named(_neutral(small.put(s.domain), model), targets[s.name]).set_tuple_name(setting.prefix + s.name)
        for s in statements
    )
    relations = []
    for link in links:
        relation = _neutral(small.put(link.relation), model)
        relation = isl.domain_named(relation, setting.prefix + link.source, sources[link.source])
        relations.append(isl.range_named(relation, setting.prefix + link.target, targets[link.target]))
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


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns isl's schedule into a tree."""

    of: Mapping[str, Statement]
    model: isl.Space
    """Of the program's parameters."""
    small: SmallNumbers
    prefix: str
    """`Setting.prefix`."""

    def node(self, node: isl.ScheduleNode, names: Sequence[str]) -> Node:
        match schedule_kind(node):
            case "leaf":
                leaves = tuple(Leaf(name) for name in names)
                return sequence(leaves)
            case "band":
                members = tuple(
                    Member({name: self._aff(functions, name) for name in names})
                    for functions in loops_of(node.band_get_partial_schedule())
                )
                return Band(members, self.node(node.child(0), names))
            case "sequence" | "set":
                children = []
                for k in range(node.n_children()):
                    child = node.child(k)
                    inside = {part.get_tuple_name() for part in sets_of(child.filter_get_filter())}
                    below = [name for name in names if self.prefix + name in inside]
                    children.append(self.node(child.child(0), below))
                return sequence(children)
            case other:
                raise NotATree(f"isl's scheduler made a node of type {other}")

    def _aff(self, functions: Mapping[str, isl.PwAff], name: str) -> isl.Aff:
        """A statement's function, in the model's parameters, the statement's iterators and the program's numbers."""
        statement = self.of[name]
        if self.prefix + name not in functions:
            raise NotATree(f"isl's schedule leaves out {name}")
        function = isl.function_named(functions[self.prefix + name], name)
        affine = isl.pieces(function)
        if len(affine) != 1:
            raise NotATree(f"isl's schedule of {name} is not one affine expression: {function}")
        if any(abs(factor) > LARGEST_FACTOR for factor in isl.coefficients(affine[0][1]) or ()):
            raise NotATree(f"isl's schedule of {name} has a factor over {LARGEST_FACTOR}: {function}")
        own = {f"p{k}": parameter for k, parameter in enumerate(isl.parameters(self.model))}
        aff = affine[0][1].align_params(isl.parameter_space(own))
        return self.small.taken_back(isl.domain_renamed(isl.renamed(aff, own), statement.iterators))
