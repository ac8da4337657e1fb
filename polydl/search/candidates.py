"""The schedules to try for a region: bases times goals, each checked exactly."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import structs

from polydl.base.effort import Effort
from polydl.base.errors import QuotaExceeded
from polydl.dependences.analysis import Dependence
from polydl.dependences.scalars import private_storage
from polydl.model import isl
from polydl.model.in_child import Hung
from polydl.model.isl import quota
from polydl.model.scop import Scop, Statement
from polydl.rank.block_shapes import whole_block
from polydl.rank.estimate import Estimate
from polydl.rank.tree_estimate import Prepared
from polydl.rank.whole import TreeEstimator
from polydl.schedule.as_tree import written
from polydl.schedule.direction import Moving, moving
from polydl.schedule.goal import Goal
from polydl.schedule.innermost_passes import WRITTEN_OUT
from polydl.schedule.ordered import Ordered
from polydl.schedule.passes import merged, scheduled
from polydl.schedule.relations import Links, direct
from polydl.schedule.transforms import Schedule
from polydl.schedule.tree import Band, Copy, Kernel, Leaf, Node, bands
from polydl.schedule.tree import Sequence as InOrder
from polydl.schedule.tree_check import broken
from polydl.search.bases import skewed
from polydl.search.combine import NestChoice, by_score
from polydl.search.isl_scheduler import SETTINGS, NotATree, computed
from polydl.search.region_choice import chained, shortest
from polydl.target import Machine
from polydl.target.isa import kernel_contraction

_DEEP = 4
"""Loops from which on a band that skewing found is taken for all that there is: the scheduler's integer programs get
slow with the number of coefficients."""


def bases(
    scop: Scop,
    statements: Sequence[Statement],
    links: Links,
    strict: Callable[[], Links | None],
    given_up: list[str],
    hung: set[int],
    schedules: int = len(SETTINGS),
) -> Iterator[tuple[str, Node]]:
    """Named trees to start from; what could not be made in the quota is noted in `given_up`. `hung`: algorithms of isl
    that are not asked, since they have hung on something alike; those that hang now are added. `schedules`: how many
    settings of isl's schedulers are tried.

    isl's scheduler gets the `strict` links, without privatisation (None: they are too much): it would distribute loops
    over the statements that share a private scalar. The passes after it know of private scalars."""
    first = written(statements)
    yield "written", first
    tree = skewed(statements, links)
    if tree is not None:
        yield "skewed", tree
        if max(s.depth for s in statements) >= _DEEP:
            return
    order = strict()
    if order is None:
        return
    seen = {_unordered(first)} | ({_unordered(tree)} if tree is not None else set())
    too_much: set[tuple[int, bool]] = set()
    for setting in SETTINGS[:schedules]:
        if setting.algorithm in hung or (setting.algorithm, setting.outer_coincidence) in too_much:
            continue  # the integer programs that take so long are the same
        try:
            found = computed(scop, statements, order, setting)
        except Hung as error:
            warnings.warn(f"{error.reason}; a faster machine may find more schedules", stacklevel=2)
            given_up.append(error.reason)
            hung.add(setting.algorithm)
        except QuotaExceeded as error:
            given_up.append(error.reason)
            too_much.add((setting.algorithm, setting.outer_coincidence))
        except NotATree as error:
            given_up.append(f"{setting.name} for {scop.function}: {error}")
        else:
            if found is not None and (known := _unordered(found)) not in seen:
                seen.add(known)
                yield setting.name, found


def made(scop: Scop, of: Mapping[str, Moving], links: Links, base: Node, how: Schedule, *, reassociate: bool) -> Node:
    """The tree that a schedule makes of a base. `of`: the statements by their names."""
    goal = _goal(scop, of, how, reassociate=reassociate)
    return scheduled(merged(base, links), links, goal)


def as_written(
    scop: Scop,
    statements: Sequence[Statement],
    found: Sequence[Dependence],
    *,
    reassociate: bool,
    unroll: bool = False,
    parallel: bool = True,
) -> Ordered:
    """Consecutive statements with loops as they are written, the outermost independent one of them parallel unless
    `parallel` is false; `unroll`: see `Schedule`. `found`: the dependences of the scop. Raises QuotaExceeded."""
    how = Schedule("written", parallel=parallel, unroll=unroll)
    links = direct(scop, statements, found)
    tree = made(scop, moving(scop, statements), links, written(statements), how, reassociate=reassociate)
    return Ordered.scheduled(statements, how, tree)


def _goal(scop: Scop, of: Mapping[str, Moving], how: Schedule, *, reassociate: bool) -> Goal:
    return Goal(
        scop, of, how.sizes, how.parallel, how.simd, reassociate, how.diagonal, how.outer, how.block, how.unroll
    )


def effective(way: Schedule, tree: Node) -> Schedule:
    """A way without what makes no difference to a tree: sizes for more loops than its widest band has, and all sizes
    where no band has two loops."""
    widest = max((len(band.members) for band in bands(tree)), default=0)
    if widest < 2 or not way.sizes:
        return structs.replace(way, sizes=(), outer=1)
    filled = (*way.sizes, *way.sizes[-1:] * widest)
    return structs.replace(way, sizes=filled[:widest])


TILINGS: tuple[tuple[int, ...], ...] = (
    (),
    (64,),
    (32, 32, 256),
    (16, 64, 512),
    (32,),
    (8, 16, 16, 512),
    (4, 32, 32, 512),
    (8, 128, 1024),
    (16, 32, 128),
    (64, 64, 512),
    (128,),
    (64, 2048),
    (256, 2048),
)
"""Tile sizes that are tried, outermost loop first. The estimate of the time, which knows the caches, chooses."""

TWO_LEVELS: tuple[tuple[tuple[int, ...], int], ...] = (((32,), 4), ((32,), 16), ((32, 32, 256), 4), ((16, 64, 512), 4))
"""Tiles in tiles that are tried: the sizes of the small ones, and how many of them a large one holds each way."""

KERNEL_TILES = (96, 48, 192)
"""Tile sizes that are tried where whole tiles go to a microkernel: multiples of most register blocks."""

UNROLLED: tuple[tuple[int, ...], ...] = ((), (64, 2048), (32, 32, 256), (16, 64, 512))
"""Tile sizes that are tried with short loops written out."""

JAMMED: tuple[tuple[tuple[int, ...], int], ...] = (((4, 4, 128), 16), ((4, 4, 1024), 1), ((4, 4, 512), 4))
"""Tile sizes so small that the loops inside are written out, and how many tiles a large one holds each way."""

LEGAL = 12
"""Legal schedules of a region that are kept."""

_ALIKE = 4
"""Schedules from one base that are checked before any of another."""

STEP = 2_000_000
"""isl operations that one tree, made and estimated, may take: a hundred times the usual."""

_USUAL = Effort()

TREES = 400
"""Trees that are made and estimated for a region: about all that the bases and tilings above come to."""


def candidates(
    scop: Scop,
    statements: Sequence[Statement],
    found: Sequence[Dependence],
    machine: Machine,
    estimator: TreeEstimator,
    *,
    reassociate: bool,
    tilings: Sequence[tuple[int, ...]] = TILINGS,
    most: int = TREES,
    effort: Effort = _USUAL,
    tell: Callable[[int], None] = lambda done: None,
    hung: set[int] | None = None,
    schedules: int = len(SETTINGS),
) -> tuple[list[NestChoice], list[str]]:
    """Legal schedules of consecutive statements, most promising first; and what was given up, for people.

    `found`: all dependences of the scop; `estimator` says how long trees take. Every tree has passed the exact check.
    What is looked at is bounded by counts of isl's operations, of trees (`most`) and of checks, never by time: it is
    the same on every machine; `hung`, `schedules`: see `bases`. `tell` is called after each tree and each check with
    how many there were of `most` and `effort.checks` together.
    """
    given_up: list[str] = []
    links = _direct(scop, statements, found, given_up)
    if links is None:
        return [], given_up
    trees: dict[str, tuple[Schedule, Prepared]] = {}
    of = moving(scop, statements)
    ways = _ways(scop, statements, machine, tilings, reassociate=reassociate)[: effort.ways]
    if estimator.threads == 1:
        ways = [structs.replace(way, parallel=False) for way in ways]
    tried: set[tuple[str, Schedule]] = set()
    count = 0
    strict = partial(_strict, scop, statements, found, links, given_up)
    for name, base in bases(scop, statements, links, strict, given_up, set() if hung is None else hung, schedules):
        try:
            with quota(f"a schedule from {name}", STEP):
                start = merged(base, links)
        except QuotaExceeded as error:
            given_up.append(error.reason)
            continue
        same_base = fingerprint(start)
        for number, way in enumerate(ways[: most - count]):
            tell(count + number)
            what = same_base, effective(way, start)
            if what in tried:
                continue
            tried.add(what)
            how = structs.replace(way, base=name)
            try:
                with quota(f"a schedule from {name}", STEP):
                    tree = scheduled(start, links, _goal(scop, of, how, reassociate=reassociate))
                    text = fingerprint(tree)
                    if text not in trees:
                        trees[text] = how, estimator.prepared(tree)
            except QuotaExceeded as error:
                given_up.append(error.reason)
        count += len(ways)
        if count > most:
            left = structs.replace(ways[most - count], base=name)
            given_up.append(f"schedules after the first {most}, from this one on: {left.described}")
            break
    estimates = estimator.estimates([one for _, one in trees.values()])
    pairs = zip(trees.values(), estimates, strict=True)
    ordered: list[_Found] = sorted(((how, one.tree, e) for (how, one), e in pairs), key=lambda each: each[2].score)
    legal: list[NestChoice] = []
    for number, (how, tree, predicted) in enumerate(_for_every_size(_varied(ordered), legal)):
        tell(most + number)
        if number == effort.checks:
            given_up.append(f"schedules after the first {len(legal)}: {effort.checks} were checked")
            break
        try:
            wrong = broken(scop, statements, tree, found, reassociate=reassociate)
        except QuotaExceeded as error:
            wrong = error.reason
        if wrong is None:
            legal.append(NestChoice((Ordered.scheduled(statements, how, tree),), (predicted,)))
        else:
            given_up.append(f"{how.described}: {wrong}")
    return by_score(legal), given_up


def _direct(
    scop: Scop,
    statements: Sequence[Statement],
    found: Sequence[Dependence],
    given_up: list[str],
    *,
    privatised: bool = True,
) -> Links | None:
    """The direct dependences; None where they are too much for isl, which is noted in `given_up`."""
    try:
        with quota(f"the direct dependences of {scop.function}"):
            return direct(scop, statements, found, privatised=privatised)
    except QuotaExceeded as error:
        given_up.append(error.reason)
    except isl.Error as error:  # isl's data flow fails on some domains in pieces
        given_up.append(f"isl cannot find the direct dependences of {scop.function}: {error}")
    return None


def _strict(
    scop: Scop, statements: Sequence[Statement], found: Sequence[Dependence], links: Links, given_up: list[str]
) -> Links | None:
    """The direct dependences with those on private scalars from iteration to iteration, which are most of the work."""
    private = private_storage(scop)
    if any(access.array in private for statement in statements for access in statement.accesses):
        return _direct(scop, statements, found, given_up, privatised=False)
    return links


def _ways(
    scop: Scop,
    statements: Sequence[Statement],
    machine: Machine,
    tilings: Sequence[tuple[int, ...]],
    *,
    reassociate: bool,
) -> list[Schedule]:
    """What is tried with every base, in this order."""
    ways = [Schedule("", sizes, diagonal=diagonal) for sizes in tilings for diagonal in (False, True)]
    ways += [
        Schedule("", sizes, diagonal=diagonal, outer=outer)
        for sizes, outer in TWO_LEVELS
        if sizes in tilings
        for diagonal in (False, True)
    ]
    if any(s.depth > 2 for s in statements):
        ways = [*(Schedule("", sizes, outer=outer, unroll=True) for sizes, outer in JAMMED), *ways]
    if any(shortest(s) <= WRITTEN_OUT for s in statements):
        ways = [*(Schedule("", sizes, unroll=True) for sizes in UNROLLED), *ways]
    elif chained(scop, statements):
        ways = [Schedule("", unroll=True), *ways]
    if reassociate:
        ways = [*kernel_ways(scop, statements, machine, KERNEL_TILES), *ways]
    return ways


def kernel_ways(scop: Scop, statements: Sequence[Statement], machine: Machine, tiles: Sequence[int]) -> list[Schedule]:
    """Tiles with the best register block that divides them, where a statement is a contraction (in place or not)."""
    types = {
        c.element
        for s in statements
        if (c := kernel_contraction(scop, s, in_place=True)) is not None and c.uniform and s.depth > 2
    }
    found: list[Schedule] = []
    for element in sorted(types, key=str):
        for size in tiles:
            block = whole_block(machine, element, size)
            found += [Schedule("", (size,), block=block)] if block else []
    return found


_Found = tuple[Schedule, Node, Estimate]
"""A schedule, the tree that it makes, and how long that takes."""


def _varied(ordered: Sequence[_Found]) -> Iterator[_Found]:
    """The schedules in their order, but those of a base that has had its share after all the others."""
    seen: dict[str, int] = {}
    later = []
    for one in ordered:
        base = one[0].base
        seen[base] = seen.get(base, 0) + 1
        if seen[base] <= _ALIKE:
            yield one
        else:
            later.append(one)
    yield from later


def _for_every_size(found: Iterable[_Found], legal: Sequence[NestChoice]) -> Iterator[_Found]:
    """The schedules until `LEGAL` of them are found `legal`, one at least of which writes no loops out: what is short
    for its sizes alone is left out at others."""
    for one in found:
        if len(legal) >= LEGAL and not all(part.how.unroll for choice in legal for part in choice.parts if part.how):
            return
        if len(legal) < LEGAL or not one[0].unroll:
            yield one


def _unordered(node: Node) -> str:
    """Text that two legal trees share when they differ only in the order of parts that don't depend on each other."""
    match node:
        case InOrder(children):
            return f"({'; '.join(sorted(_unordered(c) for c in children))})"
        case Band(members, child):
            return f"[{[sorted(str(a) for a in m.affs.values()) for m in members]}] {_unordered(child)}"
        case _:
            return fingerprint(node)


def fingerprint(node: Node) -> str:
    """Text that two trees share when they order the same statements in the same way."""
    match node:
        case Leaf(statement):
            return statement
        case InOrder(children):
            return f"({'; '.join(fingerprint(c) for c in children)})"
        case Kernel():
            return f"{{{node.statement} {node.use.kernel}}}"
        case Copy(packs, _, child):
            return f"{packs} {fingerprint(child)}"
        case Band(members, child):
            loops = " ".join(f"{m.run.value} {m.unroll} {[m.text(s) for s in m.affs]}" for m in members)
            return f"[{loops}] {fingerprint(child)}"
