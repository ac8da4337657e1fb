"""The estimate of a whole program: its parts one after the other, each with what those before left in the caches."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import field

from polydl.base.records import dataclass
from polydl.dependences.equal_nests import arrays_of
from polydl.dependences.nests import Nest
from polydl.dependences.scalars import private_scalars
from polydl.model.scop import Scop, Statement
from polydl.rank.estimate import Estimate
from polydl.rank.footprints import Footprints, Part
from polydl.rank.streams import UNDER_WAY
from polydl.rank.tree_estimate import (
    Far,
    Prepared,
    estimates,
    footprints_of,
    inside_estimate,
    prepared,
    tree_estimate,
)
from polydl.schedule.part_storage import part_storage
from polydl.schedule.tree import Node, kernels, own_statements
from polydl.schedule.tree import Sequence as InOrder
from polydl.schedule.tree_shape import tree_shape
from polydl.target import Machine

Names = tuple[str, ...]
"""Of the statements of a part."""
Around = tuple[tuple[str, tuple[bool, ...]], ...]
"""By array of a part, what its estimate asks of the bytes that are touched since its last use (`reached`)."""
Held = tuple[tuple[str, float], ...]
"""Arrays of which a part of a program has a buffer in memory, not the whole, with the bytes of those of all threads."""


HANDED = "handed"
"""The resource that `handed_over` estimates."""


@dataclass(frozen=True, slots=True)
class Known:
    """What was found about parts of a program's trees, kept from variant to variant."""

    equal: Mapping[Names, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """By the statements of nests that are equal to others the name of the first of these, and their own arrays in the
    order in which equal ones have them: estimates of equal trees and bytes that are touched are found once."""
    of_shapes: dict[Hashable, Estimate] = field(default_factory=dict)
    """Estimates of parts that are such nests (`_shape`)."""
    touched: dict[str, list[float | None]] = field(default_factory=dict)
    """By the name of the first of equal nests the bytes that each touches of its arrays, in their order; None: nothing
    is known of one."""
    footprints: dict[Names, Footprints] = field(default_factory=dict)
    distances: dict[tuple[tuple[Names, Held], ...], list[Far]] = field(default_factory=dict)
    estimates: dict[tuple[int, Around], tuple[Node, Estimate]] = field(default_factory=dict)
    """Of parts by themselves, by the identity of the tree, which is kept, and what it takes from what runs around."""
    handed: dict[tuple[tuple[tuple[Names, Held], ...], int], list[Estimate]] = field(default_factory=dict)
    """By what all parts are and the number of threads."""
    held: dict[tuple[int, int], tuple[Node, Held]] = field(default_factory=dict)
    """By the identity of a part's tree, which is kept, and the number of threads."""


def known_of(nests: Sequence[Nest], first_equal: Mapping[str, Nest]) -> Known:
    """Nothing but which nests are equal (`equal_nests.first_equal`)."""
    several = {first.name for name, first in first_equal.items() if first.name != name}
    return Known(
        {
            _names(nest.statements): (first_equal[nest.name].name, arrays_of(nest))
            for nest in nests
            if first_equal[nest.name].name in several
        }
    )


def distances(
    scop: Scop,
    parts: Sequence[Sequence[Statement]],
    machine: Machine,
    known: Known | None = None,
    held: Sequence[Held] | None = None,
) -> list[Far]:
    """Per part of a program by array the bytes that are touched from its last use before the part to the end of the
    part: in a cache of more than that it is still there. The program is taken to run again and again. `held`: of each
    part the arrays of which no more than a buffer is in memory."""
    kept, shrunk = known or Known(), held or [()] * len(parts)
    key = tuple((_names(part), own) for part, own in zip(parts, shrunk, strict=True))
    if key not in kept.distances:
        kept.distances[key] = _distances(scop, parts, machine, kept, shrunk)
    return kept.distances[key]


def _distances(
    scop: Scop, parts: Sequence[Sequence[Statement]], machine: Machine, kept: Known, held: Sequence[Held]
) -> list[Far]:
    touched = _touched(scop, parts, machine, kept, held)
    found: list[Far] = []
    for place, own in enumerate(touched):
        since = dict(own)
        far: dict[str, float] = {}
        for back in range(1, len(parts) + 1):
            earlier = touched[place - back]
            for name, bytes_ in earlier.items():
                since[name] = max(since.get(name, 0.0), bytes_)
            whole = sum(since.values())
            far |= {name: whole for name in own if name in earlier and name not in far}
            if len(far) == len(own):
                break
        found.append(far)
    return found


def _touched(
    scop: Scop, parts: Sequence[Sequence[Statement]], machine: Machine, kept: Known, held: Sequence[Held]
) -> list[Mapping[str, float]]:
    """Per part by array the bytes of the lines that it touches."""
    size = machine.caches[-1].line_bytes
    touched: list[Mapping[str, float]] = []
    for part, buffers in zip(parts, held, strict=True):
        first, arrays = kept.equal.get(_names(part), ("", ()))
        if first in kept.touched and not buffers:
            pairs = zip(arrays, kept.touched[first], strict=True)
            touched.append({name: bytes_ for name, bytes_ in pairs if bytes_ is not None})
            continue
        footprints = _footprints(scop, part, kept)
        box = tuple(Part(name, tuple(round(r) for r in work.ranges)) for name, work in footprints.works.items())
        sizes = dict(zip(footprints.arrays, footprints.touched([box], size)[0], strict=True))
        if arrays:
            kept.touched[first] = [sizes.get(name) for name in arrays]
        touched.append(sizes | {name: min(sizes[name], bytes_) for name, bytes_ in buffers if name in sizes})
    return touched


def handed_over(
    scop: Scop,
    parts: Sequence[Sequence[Statement]],
    machine: Machine,
    threads: int,
    known: Known | None = None,
    held: Sequence[Held] | None = None,
) -> list[Estimate]:
    """Per part of a program the seconds in which its threads wait for what others of them wrote in the parts before.

    Such a line lies in the cache of another core and comes about as late as one from memory; when it is written the
    next time, it goes back. A part begins with that, so that there is nothing to do meanwhile. Each thread is taken to
    read its share, all of it but a `threads`-th made by others: one that reads more waits for longer. Perceptrons of
    three and five layers took 4 to 14 ns for each line that another core had made (Zen 4, two threads), whose trips
    are 14 here. What no core keeps, since it is more than the last cache holds, comes from memory for everybody
    (`distances`). Arrays that a part reads and writes are left out: a microkernel that starts from zero does not read
    what zeroed them.
    """
    own = [cache for cache in machine.caches if min(threads, cache.shared_by_cores) == 1]
    if threads == 1 or not own or len(parts) == 1:
        return [Estimate({})] * len(parts)
    kept, shrunk = known or Known(), held or [()] * len(parts)
    key = tuple((_names(part), some) for part, some in zip(parts, shrunk, strict=True)), threads
    if key not in kept.handed:
        touched = _touched(scop, parts, machine, kept, shrunk)
        far = distances(scop, parts, machine, kept, shrunk)
        line = machine.caches[-1].line_bytes
        late = 2 * machine.memory.latency_ns * 1e-9 / UNDER_WAY / line
        written = [{a.array for s in part for a in s.accesses if a.write} for part in parts]
        kept.handed[key] = []
        for place, part in enumerate(parts):
            read = {a.array for s in part for a in s.accesses if not a.write} - written[place]
            before = [array for array in sorted(read) if any(array in one for one in written)]
            bytes_ = sum(
                min(touched[place].get(array, 0.0), threads * own[-1].usable)
                for array in before
                if far[place].get(array, 0.0) <= machine.caches[-1].usable
            )
            seconds = bytes_ * (1 - 1 / threads) / threads * late
            kept.handed[key].append(Estimate({HANDED: seconds} if seconds else {}))
    return kept.handed[key]


@dataclass(frozen=True, slots=True)
class TreeEstimator:
    """Estimates of schedule trees of the same statements."""

    footprints: Footprints
    machine: Machine
    threads: int
    far: Far = field(default_factory=dict)
    handed: Estimate = field(default_factory=lambda: Estimate({}))
    """What they wait for other parts of the program."""

    def prepared(self, tree: Node) -> Prepared:
        """A tree, ready for its estimate."""
        return prepared(self.footprints, tree, self.machine)

    def estimates(self, several: Sequence[Prepared]) -> list[Estimate]:
        """Of several trees, which is quicker than one by one."""
        return [one + self.handed for one in estimates(several, self.threads, self.far)]


def tree_estimator(
    scop: Scop, nests: Sequence[Nest], together: Sequence[Nest], machine: Machine, threads: int, known: Known
) -> TreeEstimator:
    """Estimates of schedule trees of neighbouring nests. `nests`: all of the program's, in their order."""
    names = {nest.name for nest in together}
    region = [s for nest in together for s in nest.statements]
    parts: list[Sequence[Statement]] = []
    for nest in nests:
        if nest.name not in names:
            parts.append(nest.statements)
        elif nest is together[0]:
            parts.append(region)
    place = parts.index(region)
    far = distances(scop, parts, machine, known)[place]
    handed = handed_over(scop, parts, machine, threads, known)[place]
    return TreeEstimator(footprints_of(scop, region), machine, threads, far, handed)


def program_estimate(scop: Scop, tree: InOrder, machine: Machine, threads: int, known: Known | None = None) -> Estimate:
    """Predicted seconds of a program's tree, whose parts run one after the other."""
    kept = known or Known()
    around = [[k for k in kernels(part) if k.fused] for part in tree.children]
    own = [_in_textual_order(scop, own_statements(part)) for part in tree.children]
    inside = [[s for kernel in several for s in kernel.fused] for several in around]
    parts = [[*a, *b] for a, b in zip(own, inside, strict=True)]
    held = [_held(scop, part, threads, kept) for part in tree.children]
    far = distances(scop, parts, machine, kept, held)
    handed = handed_over(scop, parts, machine, threads, kept, held)
    total = Estimate({})
    for place, part in enumerate(tree.children):
        key = id(part), tuple((name, reached(far[place], name, machine)) for name in sorted(far[place]))
        if key not in kept.estimates:
            found = part_estimate(scop, own[place], part, machine, threads, far[place], kept)
            for kernel in around[place]:
                fused = _footprints(scop, kernel.fused, kept)
                found += inside_estimate(fused, kernel, machine, threads, far[place])
            kept.estimates[key] = part, found
        total += kept.estimates[key][1] + handed[place]
    return total


def _held(scop: Scop, part: Node, threads: int, known: Known) -> Held:
    """The buffers that a part has in memory."""
    key = id(part), threads
    if key not in known.held:
        buffers = part_storage(scop, part).values()
        known.held[key] = part, tuple((b.array, float(b.bytes * (threads if b.per_thread else 1))) for b in buffers)
    return known.held[key][1]


def part_estimate(
    scop: Scop, some: Sequence[Statement], tree: Node, machine: Machine, threads: int, far: Far, known: Known
) -> Estimate:
    """Predicted seconds of a part of a program (`tree_estimate`), of equal trees of equal nests once."""
    shape = _shape(scop, some, tree, far, machine, known)
    if shape is not None and shape in known.of_shapes:
        return known.of_shapes[shape]
    found = tree_estimate(_footprints(scop, some, known), tree, machine, threads, far)
    if shape is not None:
        known.of_shapes[shape] = found
    return found


def reached(far: Far, array: str, machine: Machine) -> tuple[bool, ...]:
    """What an estimate asks of the bytes since an array was touched: which caches hold as many."""
    return tuple(far.get(array, 0.0) <= cache.usable for cache in machine.caches)


def _shape(
    scop: Scop, some: Sequence[Statement], tree: Node, far: Far, machine: Machine, known: Known
) -> Hashable | None:
    """What the estimate of the tree of one of several equal nests depends on; None of other parts."""
    names = _names(some)
    if names not in known.equal:
        return None
    first, arrays = known.equal[names]
    shape = tree_shape(tree, {n: i for i, n in enumerate(names)}, {n: i for i, n in enumerate(arrays)})
    private = private_scalars(scop)
    return None if shape is None else (first, tuple((reached(far, n, machine), private.get(n)) for n in arrays), shape)


def _in_textual_order(scop: Scop, names: Collection[str]) -> list[Statement]:
    return [statement for statement in scop.statements if statement.name in names]


def _footprints(scop: Scop, some: Sequence[Statement], known: Known) -> Footprints:
    names = _names(some)
    if names not in known.footprints:
        known.footprints[names] = footprints_of(scop, some)
    return known.footprints[names]


def _names(some: Sequence[Statement]) -> Names:
    return tuple(statement.name for statement in some)
