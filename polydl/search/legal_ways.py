"""Finds the legal ways to run each nest and each region of a program, before they are ranked.

Rankers differ in the order alone: whoever asks several of them searches once.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.dependences.analysis import Dependence, dependences
from polydl.dependences.directions import nest_legality
from polydl.dependences.equal_nests import first_equal
from polydl.dependences.nests import Nest, nests
from polydl.dependences.promises import broken_promises
from polydl.kernels.pack_ahead import checked, constant_operands, packed_ahead
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.rank.block_shapes import register_blocks_for
from polydl.rank.estimator import Estimator
from polydl.rank.plain import Work
from polydl.rank.whole import Known, tree_estimator
from polydl.rewrite.canonical import Canonical, canonical
from polydl.schedule.limits import SPACES, Limits
from polydl.schedule.loops import NestLoops
from polydl.schedule.ordered import Ordered
from polydl.search.candidates import TREES, candidates
from polydl.search.combine import NestChoice, by_score, combined, side_by_side
from polydl.search.region_choice import segments
from polydl.search.small_nests import light
from polydl.search.space import legal_structures
from polydl.search.variant import Origin, Variant
from polydl.target import Machine


@dataclass(frozen=True, slots=True)
class RegionWays:
    """One nest, or neighbouring ones that are scheduled together."""

    nests: tuple[Nest, ...]
    together: tuple[NestChoice, ...] | None
    """Schedule trees of all of them, best first; None: the loop transforms are enough."""
    alone: tuple[tuple[NestChoice, ...], ...]
    """Schedule trees of each by itself, best first."""


@dataclass(frozen=True, slots=True)
class Ways:
    """The legal ways to run a program."""

    program: Canonical
    nests: tuple[Nest, ...]
    machine: Machine
    threads: int
    structures: Mapping[str, Sequence[NestLoops]]
    """Per nest, by loop transforms."""
    regions: tuple[RegionWays, ...]
    pruned: Mapping[str, int]
    """How many structures were left out, by the reason."""
    given_up: tuple[str, ...]
    """What could not be done within its quota, for people."""

    @property
    def count(self) -> int:
        """Structures and schedule trees."""
        trees = sum(len(r.together or ()) + sum(map(len, r.alone)) for r in self.regions)
        return sum(map(len, self.structures.values())) + trees

    def variants(self, estimator: Estimator, o: Options) -> tuple[Variant, ...]:
        """Of the whole program, best first. Raises QuotaExceeded where a ranker's exact analysis takes too long."""
        ordered: list[list[NestChoice]] = []
        for region in self.regions:
            alone = [
                [
                    NestChoice((Ordered.nest(s),), (e,))
                    for s, e in estimator.best_first(nest, self.structures[nest.name])
                ]
                for nest in region.nests
            ]
            loops = [choices[:1] for choices in alone]
            for place, trees in enumerate(region.alone):
                alone[place] = by_score([*trees, *alone[place]])
            if region.together is None:
                ordered += alone
            else:
                mixed = list(side_by_side(alone))
                # Rows of vectors and fusion start from loop transforms alone, whatever schedules promise.
                known = {tuple(map(id, one.parts)) for one in mixed}
                own = [one for one in side_by_side(loops) if tuple(map(id, one.parts)) not in known]
                ordered.append(by_score([*region.together, *mixed, *own]))
        return combined(ordered, Origin(self.program.scop, self.program.dependences, o.reassociate, o.scratch))


class _Steps:
    """How far the search is, for who waits."""

    def __init__(self, tell: Callable[[int, int], None] | None, total: int) -> None:
        self._tell = tell
        self._done = 0
        self._total = total

    def within(self, steps: int) -> None:
        """So many of what is being done."""
        if self._tell:
            self._tell(self._done + steps, self._total)

    def finish(self, steps: int) -> None:
        """What took at most so many steps is done."""
        self._done += steps
        self.within(0)

    def more(self, steps: int) -> None:
        """There is more to do than was known."""
        self._total += steps


def ways(
    given: Scop | Canonical, o: Options, machine: Machine, threads: int, tell: Callable[[int, int], None] | None = None
) -> Ways:
    """The legal ways to run a program as it was read, or as an earlier search had it. Raises InputError, QuotaExceeded.

    `tell` is called with how many steps are done, of how many at most: a step is a nest or, where schedules are looked
    for, a tree that is made or checked.
    """
    if tell:
        tell(0, 1)
    if isinstance(given, Scop) and given.promises:
        for broken in broken_promises(given, dependences(given, reads=False)):
            warnings.warn(broken, stacklevel=2)
    program = canonical(given, reassociate=o.reassociate) if isinstance(given, Scop) else given
    scop, found = program.scop, program.dependences
    parts = nests(scop, found)
    checked(scop, parts, o.prepack)
    ahead = tuple(dict.fromkeys((*o.prepack, *constant_operands(scop, parts))))
    given_up = [*program.refused]
    pruned: Counter[str] = Counter()
    blocks = register_blocks_for(machine)
    structures: dict[str, Sequence[NestLoops]] = {}
    small = light(parts)
    if small:
        names = ", ".join(nest.name for nest in parts if nest.name in small)
        given_up.append(f"searched in the small space, for they are hardly any of the work: {names}")
    first = first_equal(scop, parts)
    searched: dict[str, tuple[Limits, list[NestLoops]]] = {}
    for nest in parts:
        legality = nest_legality(nest, found, reassociate=o.reassociate)
        space = SPACES["small" if nest.name in small else o.space]
        limits = Limits(nest, legality, space, blocks, threads)
        known = searched.get(first[nest.name].name)
        if known is not None and (known[0].legality, known[0].space) == (legality, space):
            limits, made = known[0], [replace(one, nest=nest) for one in known[1]]
        else:
            made = list(legal_structures(limits))
            searched.setdefault(nest.name, (limits, made))
        pruned.update(limits.pruned)
        structures[nest.name] = packed_ahead(scop, nest, made, ahead) if ahead else made
    blocked = {name for name, made in structures.items() if any(one.kernel is not None for one in made)}
    asking = {nest.name for nest in parts if any(Work(scop, s).asks for s in nest.statements)}
    regions: list[RegionWays] = []
    touched = Known()
    pieces = [
        (wanted and not small.issuperset(nest.name for nest in together), together)
        for wanted, together in segments(parts, found, blocked, asking)
    ]
    # Schedulers that hang on some nests of a program hang on others of it: that would take minutes.
    at_once, one_by_one = set[int](), set[int]()
    searched_steps = TREES + o.effort.checks
    steps = _Steps(tell, sum(searched_steps if wanted else len(together) for wanted, together in pieces))
    for wants_schedule, together in pieces:
        trees: list[NestChoice] | None = None
        alone: list[list[NestChoice]] = []
        if wants_schedule:
            hung = at_once if len(together) > 1 else one_by_one
            trees, reasons = _trees(scop, parts, together, found, machine, threads, o, TREES, steps, hung, touched)
            steps.finish(searched_steps)
            given_up += reasons
            if reasons and len(together) > 1:
                # What is too much for the schedulers at once may not be, a nest at a time.
                share = TREES // len(together) // 2
                steps.more((share + o.effort.checks) * len(together))
                for nest in together:
                    own, more = _trees(
                        scop, parts, [nest], found, machine, threads, o, share, steps, one_by_one, touched
                    )
                    steps.finish(share + o.effort.checks)
                    alone.append(own)
                    given_up += more
        else:
            steps.finish(len(together))
        regions.append(RegionWays(together, None if trees is None else tuple(trees), tuple(map(tuple, alone))))
    left_out = {reason: count for reason, count in pruned.items() if count}
    return Ways(program, parts, machine, threads, structures, tuple(regions), left_out, tuple(given_up))


def _trees(
    scop: Scop,
    parts: Sequence[Nest],
    together: Sequence[Nest],
    found: Sequence[Dependence],
    machine: Machine,
    threads: int,
    o: Options,
    most: int,
    steps: _Steps,
    hung: set[int],
    touched: Known,
) -> tuple[list[NestChoice], list[str]]:
    statements = [s for n in together for s in n.statements]
    estimate = tree_estimator(scop, parts, together, machine, threads, touched)
    return candidates(
        scop,
        statements,
        found,
        machine,
        estimate,
        reassociate=o.reassociate,
        most=most,
        effort=o.effort,
        tell=steps.within,
        hung=hung,
        schedules=min(SPACES[o.space].schedules, o.effort.schedulers),
    )
