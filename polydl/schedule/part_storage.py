"""Where the values of a program's own arrays lie while a schedule tree runs: as much memory as one iteration of the
loops needs inside of which they are made and used, one part for each thread.

    parallel for h: for b: { for i in b: P[h][i][…] = …;   for i in b: … P[h][i][…] … }

P may be large; of what the threads hold at a time only the rows of a block are alive. Two arrays take the same bytes
where one is made after the other was used for the last time.

source:    tensors that shrink and buffers that are used again (Li et al., "oneDNN Graph Compiler", CGO 2024, section
           VI); array contraction (Gao, Olsen, Sarkar, Thekkath: "Collective loop fusion for array contraction",
           LCPC 1992)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import takewhile

from polydl.base.by_identity import once_for_each
from polydl.dependences.scalars import by_iteration, on_stack, private_storage, users
from polydl.model import isl
from polydl.model.dataflow import LastWrites, last_writes
from polydl.model.isl import quota
from polydl.model.scop import Array, Scop, Statement, Storage
from polydl.schedule.tree import Kernel, Leaf, Member, Node, Run, Step, bands, statements, steps, times
from polydl.schedule.tree import Sequence as InOrder

MOST_BYTES = 1 << 24
"""Bytes that a thread has for the arrays of a part of a program, at most: what needs more stays where it is."""
ALIGNMENT = 4096
"""Bytes: buffers begin at pages, as those of packed operands do."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """The memory of one array in one part of a program. An element's place in it is its place in the array less that of
    the first element that the iteration at hand touches."""

    array: str
    within: tuple[Member, ...]
    """The loops that it is inside of: those with an iteration of which it is used up."""
    base: isl.PwAff
    """{ [t0, …] -> [e] }: by the values of these loops the place in the array of the buffer's first element."""
    elements: int
    """Its length."""
    bytes: int
    """The same, in whole pages."""
    per_thread: bool
    """One for each thread: one of the loops is parallel. Else there is one."""
    first: int
    """When it is used: from this leaf or kernel of the part on, in their order, …"""
    last: int
    """… to this one."""
    offset: int = 0
    """Bytes from the start of the memory for buffers of its kind."""

    @property
    def loops(self) -> int:
        """How many loops it is inside of."""
        return len(self.within)


def storage(scop: Scop, tree: InOrder) -> dict[str, Buffer]:
    """By array its buffer in a program's tree; arrays without one stay where they are. Raises QuotaExceeded."""
    found: dict[str, Buffer] = {}
    for part in tree.children:
        found |= _of_part(scop, part)
    return found


def part_storage(scop: Scop, part: Node) -> dict[str, Buffer]:
    """`storage` of one part."""
    return _of_part(scop, part)


def total_bytes(buffers: Mapping[str, Buffer], *, per_thread: bool) -> int:
    """Bytes of all buffers of a kind together; those of one thread."""
    return max((b.offset + b.bytes for b in buffers.values() if b.per_thread == per_thread), default=0)


@once_for_each
def _known(scop: Scop) -> dict[Node, dict[str, Buffer]]:
    """What was found for parts of the variants of a program; trees are compared by identity."""
    return {}


def _of_part(scop: Scop, part: Node) -> dict[str, Buffer]:
    if not _large(scop) and not any(member.names is not None for band in bands(part) for member in band.members):
        return {}
    known = _known(scop)
    if part not in known:
        with quota("the memory of a variant's own arrays"):
            known[part] = _placed(sorted(_buffers(scop, part), key=lambda b: (b.first, b.array)))
    return known[part]


def _buffers(scop: Scop, part: Node) -> Iterator[Buffer]:
    names = set(statements(part))
    of = {s.name: s for s in scop.statements if s.name in names}
    named = any(member.names is not None for band in bands(part) for member in band.members)
    inside = [array for array in scop.arrays.values() if _its_own(scop, array) and not _on_stack(scop, array)]
    inside = inside if named else [array for array in inside if array.name in _large(scop)]
    if not inside or any(m.share.grid or m.share.curve for band in bands(part) for m in band.members):
        return
    leaves = list(steps(part))
    ways: dict[str, list[Step]] = {}
    for at, path in leaves:
        # The leaf of a kernel's statement is in loops that are not around the calls.
        for name in _runs_in(at):
            ways[name] = _common(ways.get(name, path), path)
    when = times(part, of)
    for array in inside:
        using = [s for s in scop.statements if any(a.array == array.name for a in s.accesses)]
        if len(using) < 2 or any(s.name not in of for s in using):
            continue
        if (made := _buffer(scop, array, using, ways, when, leaves)) is not None:
            yield made


def _on_stack(scop: Scop, array: Array) -> bool:
    """Whether an array is private to an iteration of some loops and each thread has one on its stack."""
    return array.name in private_storage(scop) and on_stack(array)


@once_for_each
def _large(scop: Scop) -> Sequence[str]:
    """The private arrays that are too large for stacks."""
    return [name for name in private_storage(scop) if not on_stack(scop.arrays[name])]


def _its_own(scop: Scop, array: Array) -> bool:
    """Whether nobody looks at an array behind the program, and its elements lie at addresses that are numbers."""
    dead = array.storage in (Storage.REGION, Storage.SCRATCH) or array.name not in scop.live_out
    plain = array.members is None and array.rows is None and not array.behind and array.layout.strides is not None
    return dead and plain and not array.is_scalar and not any(array.layout.before)


def _alive(
    leaves: Sequence[tuple[Leaf | Kernel, Sequence[Step]]], shared: Sequence[Step], depth: int, using: Sequence[str]
) -> tuple[int, int]:
    """The first and the last of the leaves while which an array may hold values that are still to be read. `shared`:
    the loops and places around all of its users, of which its values stay in one iteration of the first `depth`."""
    outside = shared[: depth + 1]
    here = [n for n, (_, path) in enumerate(leaves) if list(path[: len(outside)]) == list(outside)]
    if depth == len(shared):
        own = [n for n in here if any(name in using for name in _runs_in(leaves[n][0]))]
        children = {leaves[n][1][depth] for n in own if len(leaves[n][1]) > depth}
        numbers = [child for child in children if isinstance(child, int)]
        if len(numbers) == len(children) and numbers:
            between = range(min(numbers), max(numbers) + 1)
            here = [n for n in here if leaves[n][1][depth] in between]
    return here[0], here[-1]


def _runs_in(at: Leaf | Kernel) -> tuple[str, ...]:
    """The statements of a leaf or of a kernel's calls."""
    return (at.statement, *(s.name for s in at.inside)) if isinstance(at, Kernel) else (at.statement,)


def _buffer(
    scop: Scop,
    array: Array,
    using: Sequence[Statement],
    ways: Mapping[str, Sequence[Step]],
    when: Mapping[str, isl.Map],
    leaves: Sequence[tuple[Leaf | Kernel, Sequence[Step]]],
) -> Buffer | None:
    """The buffer of an array; None where a value is used in another iteration of all loops than it was made in, or the
    array is not larger. One that is private to an iteration is in a buffer as a whole: dependences have nothing between
    two iterations, wherever they touch it."""
    shared = _shared(ways, using)
    if not shared or not all(a.exact for s in using for a in s.accesses if a.array == array.name):
        return None
    sources = _sources(scop)
    if array.name not in sources:
        sources[array.name] = last_writes(using, array.name, scop.context)
    flow = sources[array.name]
    if not flow.before.is_empty():
        return None
    in_time = [
        pairs.apply_domain(when[isl.domain_name(pairs)]).apply_range(when[isl.range_name(pairs)])
        for pairs in flow.relations
    ]
    depth = next((d for d in range(len(shared)) if not all(isl.agrees(one, d) for one in in_time)), len(shared))
    loops = [d for d in range(depth) if isinstance(shared[d], Member)]
    within = tuple(step for step in shared[:depth] if isinstance(step, Member))
    if not loops or _shared_out_further(shared, depth):
        return None
    parallel = any(member.run is Run.PARALLEL for member in within)
    first, last = _alive(leaves, shared, depth, [s.name for s in using])
    if array.name in _large(scop):
        if not parallel and array.storage is not Storage.REGION:
            return None  # one thread may as well use the one that there is
        assert array.layout.size is not None, "one of unknown size is on the stack"
        base = isl.PwAff.from_aff(isl.constant(isl.unnamed_space(len(within)), 0))
        whole = array.layout.size
        return Buffer(array.name, within, base, whole, _pages(whole * array.element.bytes), parallel, first, last)
    touched: isl.Map | None = None
    for s in using:
        iterations = isl.range_onto(when[s.name], loops)
        for a in s.accesses:
            if a.array == array.name:
                address = array.layout.accessed(a.relation.intersect_domain(s.domain))
                one = iterations.reverse().apply_range(isl.range_named(address, None))
                touched = one if touched is None else touched.union(one)
    assert touched is not None
    (low,) = isl.components(touched.lexmin_pw_multi_aff())
    (high,) = isl.components(touched.lexmax_pw_multi_aff())
    length, addresses = isl.greatest(isl.Map.from_pw_aff(high.sub(low)).range(), 0), touched.range()
    least, most = isl.least(addresses, 0), isl.greatest(addresses, 0)
    if length is None or least is None or most is None or length >= most - least:
        return None
    size = _pages((length + 1) * array.element.bytes)
    return Buffer(array.name, within, low.coalesce(), length + 1, size, parallel, first, last)


@once_for_each
def _sources(scop: Scop) -> dict[str, LastWrites]:
    """By array the sources of what all of a program's statements read of it, whatever the tree."""
    return {}


def _pages(size: int) -> int:
    """So many bytes in whole pages."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _shared(ways: Mapping[str, Sequence[Step]], using: Sequence[Statement]) -> list[Step]:
    """The loops and places in sequences that are around all of some statements."""
    return reduce(_common, (ways[s.name] for s in using[1:]), list(ways[using[0].name]))


def _common(one: Sequence[Step], other: Sequence[Step]) -> list[Step]:
    """What two paths have in common, from their start on."""
    return [
        a for a, _ in takewhile(lambda pair: pair[0] is pair[1] or pair[0] == pair[1], zip(one, other, strict=False))
    ]


def _shared_out_further(shared: Sequence[Step], depth: int) -> bool:
    """Whether loops from `depth` on are shared out among threads together with one before."""
    left = 0
    for step in shared[:depth]:
        left = max(left - 1, 0)
        if isinstance(step, Member) and step.run is Run.PARALLEL and not left:
            left = step.share.loops
    return left > 1


def _placed(buffers: Sequence[Buffer]) -> dict[str, Buffer]:
    """Buffers with their places in memory: of those that are free the one that was freed last is taken again where it
    is large enough, else new memory."""
    made: dict[str, Buffer] = {}
    for one in buffers:
        if total_bytes(made, per_thread=one.per_thread) + one.bytes > MOST_BYTES:
            continue
        alike = [b for b in made.values() if b.per_thread == one.per_thread]
        alive = [b for b in alike if b.last >= one.first]
        free = sorted((b for b in alike if b.last < one.first), key=lambda b: (-b.last, b.offset))
        places = [b.offset for b in free]
        places.append(max((b.offset + b.bytes for b in alike), default=0))
        offset = next(at for at in places if all(at + one.bytes <= b.offset or b.offset + b.bytes <= at for b in alive))
        made[one.array] = replace(one, offset=offset)
    return made


def without_memory(scop: Scop, tree: Node) -> str | None:
    """Which private array that is too large for stacks has no buffer in a part of a program where iterations that run
    at the same time have one each, or None. Lanes of a vector have none."""
    used = set(statements(tree))
    for name in _large(scop):
        private, in_buffer = private_storage(scop)[name], name in part_storage(scop, tree)
        writing = {s.name for s in users(scop, name) for a in s.accesses if a.array == name and a.write} & used
        for band in bands(tree):
            for member in band.members:
                at_once = member.run is Run.SIMD or (member.run is Run.PARALLEL and not in_buffer)
                own = at_once and any(
                    by_iteration(scop, name, private, member.affs[s]) for s in writing & {*member.affs}
                )
                if own:
                    return f"there is no memory for {name} of several iterations at the same time"
        if writing and not in_buffer and scop.arrays[name].storage is Storage.REGION:
            return f"there is no memory for {name}"
    return None


def overlapping(scop: Scop, tree: Node, buffers: Mapping[str, Buffer]) -> str | None:
    """Which array is written while values of another one are in the same bytes, or None. Raises QuotaExceeded.

    The places of buffers are chosen by the order of leaves; this looks at the instances: between a write and a read of
    its value, in one iteration of the loops that both are inside of, nothing else may be written there. Where threads
    share the memory, iterations of parallel loops are in no order.
    """
    if len(buffers) < 2:
        return None
    of = {s.name: s for s in scop.statements if s.name in set(statements(tree))}
    when = times(tree, of)
    for one in buffers.values():
        others = [
            b
            for b in buffers.values()
            if b is not one
            and b.per_thread == one.per_thread
            and b.offset < one.offset + one.bytes
            and one.offset < b.offset + b.bytes
        ]
        if not others:
            continue
        using = [s for s in of.values() if any(a.array == one.array for a in s.accesses)]
        with quota("the legality check"):
            for pairs in last_writes(using, one.array, scop.context).relations:
                # { written -> read }, times
                alive = pairs.apply_domain(when[isl.domain_name(pairs)]).apply_range(when[isl.range_name(pairs)])
                made, read = alive.domain(), alive.range()
                for other in others:
                    for s in of.values():
                        if not any(a.write and a.array == other.array for a in s.accesses):
                            continue
                        at = when[s.name].range()
                        no_later = _no_later(at.get_space(), set() if one.per_thread else _at_once(tree, s.name))
                        # Of the many pieces of an order few are left between such times.
                        after = no_later.intersect_domain(made).intersect_range(at)
                        before = no_later.intersect_domain(at).intersect_range(read)
                        if not alive.intersect(after.apply_range(before)).is_empty():
                            return f"{other.array} would be written where values of {one.array} are still to be read"
    return None


def _no_later(times: isl.Space, at_once: Iterable[int]) -> isl.Map:
    """{ [t] -> [u] }: what runs at t may run before what runs at u, or at the same time. `at_once`: of the loops there
    those whose iterations are in no order."""
    found = isl.Map.lex_le(times)
    for d in at_once:
        found = found.union(isl.descending(isl.agree(isl.Map.universe(found.get_space()), range(d)), d))
    return found


def _at_once(tree: Node, statement: str) -> set[int]:
    """The positions of the loops around a statement whose iterations run at the same time."""
    found: set[int] = set()
    for at, path in steps(tree):
        left = 0
        for d, step in enumerate(path if statement in _runs_in(at) else ()):
            left = max(left - 1, 0)
            if isinstance(step, Member) and step.run in (Run.PARALLEL, Run.SIMD):
                left = max(left, step.share.loops)
            found |= {d} if left else set()
    return found
