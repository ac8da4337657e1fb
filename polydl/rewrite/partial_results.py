"""Sums, extremes and where they are, of whole loops, from a part for each of their iterations: what is left of a loop
that was in order for the sake of one scalar alone runs on all threads.

    for i: for j: { next[i][j] = …; d = …; if (d > moved) moved = d; }

Each row has a greatest change of its own, and the greatest of these is taken afterwards (reductions with partial
results: Padua and Wolfe, "Advanced compiler optimizations for supercomputers", CACM 1986). A long loop is cut into
pieces that have a part each; where its length is not known, there is a fixed number of parts at a time.

    for i: { sum = …; for j: { dx[i][j] = … sum …; dweight[j] += …; } }

is in order for the sake of an array: each piece has a row of its own. Where the loops inside can be shared out instead,
as of `for i: for j: s[j] += x[i][j]`, or are a product that a microkernel computes by itself, they are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from polydl.dependences.analysis import Dependence, dependences
from polydl.equations.step import Remade, Step, in_turn
from polydl.model import isl
from polydl.model.counting import count
from polydl.model.scop import Scop, Statement
from polydl.model.time import inside_of
from polydl.rewrite.reduction_privatisation import Partial, combined, points_of, splitting, together, trips_of
from polydl.rewrite.scratch_array import elements_of, ends_of
from polydl.target.instructions import RATE, arithmetic, vector_cycles
from polydl.target.isa import has_register_blocks, kernel_contraction, written

LEAST = 1 << 15
"""Instances of a loop, each time that it runs, below which a thread has too little to do."""
PARTS = 1024
"""Pieces of a loop with more iterations than `MOST`, or with nothing but single iterations to share out."""
MOST = 4096
MOST_ROWS = 64
"""Pieces of a loop that have a row each: they are written before, and read and put together behind, in caches where
they are few."""
PER_ELEMENT = 8
"""Values that a piece combines into each element of its row, at least: the row is written before, read and put together
behind, which should cost little beside."""
PIECE_CYCLES = 2048.0
"""Cycles that a piece of a loop without other loops inside takes at least, in vectors of the longest registers and data
from the first cache: that it begins, that its lanes become one and that its part is put to the others takes about 100,
whatever it computes."""
WIDE = 128
"""Iterations from which on a loop inside gives threads enough to do, with whole cache lines for each."""
ROUNDS = {True: ((1, 256), (32, 64)), False: ((1, 64),)}
"""Iterations that have one part, at least, and parts at a time, of a loop with (True) and without other loops inside,
of which nobody knows how often it runs: a fork each time costs little beside so much work, where there is so much."""


def partial(scop: Scop, *, reassociate: bool = True) -> Iterator[Step]:
    """Give loops parts of their results where they can be shared out among threads then (`Partial`). `reassociate`:
    those of which results may round otherwise, too. Raises QuotaExceeded."""
    if not scop.parameters:
        yield from in_turn(scop, lambda one, tried, new: _candidates(one, tried, new, None, reassociate=reassociate))


def partial_in_rounds(scop: Scop, number: int) -> Iterator[Step]:
    """The same for loops of which nobody knows how often they run: with the pieces of this number in `ROUNDS`. Raises
    QuotaExceeded."""
    yield from in_turn(scop, lambda one, tried, new: _candidates(one, tried, new, number, reassociate=True))


def _candidates(
    scop: Scop, tried: Collection[Remade], new: Collection[str], rounds: int | None, *, reassociate: bool
) -> Iterator[Partial]:
    """`new`: statements that put parts together, and the like. `rounds`: the number of the pieces that a loop of
    unknown length is cut into."""
    if not any(splitting(scop, s) is not None and _is_met_again(scop, s) for s in scop.statements):
        return
    found = dependences(scop, reads=False)
    known = [(one.statements, one.depth) for one in tried if isinstance(one, Partial)]
    for loop in dict.fromkeys(s.position[: d + 1] for s in scop.statements for d in range(s.depth)):
        depth, inside = len(loop) - 1, inside_of(scop, loop)
        names = {s.name for s in inside}
        held = [d for d in found if d.depth == depth and {d.source, d.target} <= names]
        arrays = {d.array for d in held}
        touched = {s.name: {a.array for a in s.accesses} & arrays for s in inside}
        groups = [tuple(s.name for s in group) for group in together(inside, touched)]
        if not groups or any(name in new for group in groups for name in group):
            continue
        kinds = {group: combined(scop, group, depth) for group in groups}
        if any(isinstance(kind, str) for kind in kinds.values()):
            continue
        rows = [group for group, kind in kinds.items() if not isinstance(kind, str) and kind.rows]
        users = [scop.statement(name) for group in groups for name in group]
        if not reassociate and any((how := splitting(scop, s)) and how.rounds for s in users):
            continue
        if any(_runs_apart(scop, found, loop[: d + 1], s) for d in range(depth) for s in users):
            continue
        if any(has_register_blocks(scop, s) for s in users):
            continue
        if rounds is not None:
            if rows:
                continue  # nobody knows of how many elements
            cut = _rounds(scop, inside, depth, rounds)
            if cut is not None:
                yield from (Partial(group, depth, *cut) for group in groups if (group, depth) not in known)
            continue
        # Rows first, which want few pieces; what is left holds the loop together until the last one is done.
        if rows and (_threads_inside(found, inside, depth) or any(kernel_contraction(scop, s) for s in users)):
            continue
        for group in (*rows, *(one for one in groups if one not in rows)):
            chunk = _chunk_of_rows(scop, inside, group, depth) if group in rows else _chunk(scop, inside, depth)
            if not chunk:
                break
            if (group, depth) not in known:
                yield Partial(group, depth, chunk)


def _is_met_again(scop: Scop, statement: Statement) -> bool:
    """Whether a statement in loops stores to one element in all iterations of the innermost one, or, beside others in a
    loop, to some element in several iterations."""
    relation = statement.target.relation
    if statement.depth == 0:
        return False
    if isl.domain_onto(relation, range(statement.depth - 1)).is_single_valued():
        return True
    return len(inside_of(scop, statement.position[:1])) > 1 and not relation.is_injective()


def _threads_inside(found: Sequence[Dependence], inside: Sequence[Statement], depth: int) -> bool:
    """Whether what is in the loop at this depth is one more loop, whose iterations may be shared out in its place; what
    runs once for it beside does not count."""
    inside = [s for s in inside if s.depth > depth + 1]
    if len(inside) == 1:
        return True  # copies of the output are a way to share out a loop of one statement (Parallelize)
    if len({s.position[: depth + 2] for s in inside}) > 1:
        return False
    names = {s.name for s in inside}
    trips = trips_of(inside, depth + 1)
    wide = trips is None or trips >= WIDE
    return wide and not any(d.depth == depth + 1 and {d.source, d.target} <= names for d in found)


def _runs_apart(scop: Scop, found: Sequence[Dependence], loop: tuple[int, ...], one: Statement) -> bool:
    """Whether the iterations of a loop are independent for a statement and those that it can't be taken apart from."""
    depth, names = len(loop) - 1, {s.name for s in inside_of(scop, loop)}
    edges = [d for d in found if {d.source, d.target} <= names and (d.depth is None or d.depth >= depth)]
    ahead = _reached(one.name, [(d.source, d.target) for d in edges])
    cycle = ahead & _reached(one.name, [(d.target, d.source) for d in edges])
    return not any(d.depth == depth and {d.source, d.target} <= cycle for d in edges)


def _reached(name: str, edges: Sequence[tuple[str, str]]) -> set[str]:
    reached = {name}
    while more := {target for source, target in edges if source in reached} - reached:
        reached |= more
    return reached


def _chunk(scop: Scop, inside: Sequence[Statement], depth: int) -> int:
    """Iterations of a loop that should have one part; 0: there are too few for several, or nobody knows how many."""
    trips, _ = _work(inside, depth)
    if trips < 2 or (trips <= MOST and any(s.depth > depth + 1 for s in inside)):
        return 1 if trips > 1 else 0
    least = max(2, -(-trips // PARTS), _least_piece(scop, inside, depth))
    return piece_length(trips, least) if 2 * least <= trips else 0


def _least_piece(scop: Scop, inside: Sequence[Statement], depth: int) -> int:
    """Iterations of a loop that take `PIECE_CYCLES`; 1 where it has other loops inside. The same for all machines and
    any number of threads: sums of floats have the same terms in a piece then."""
    if any(s.depth > depth + 1 for s in inside):
        return 1
    widest, cycles = max(one.vector_bytes for one in written()), 0.0
    for s in inside:
        moving = [e for a in s.accesses if not (e := scop.arrays[a.array]).is_scalar]
        lanes = max(1, widest // max((e.element.bytes for e in moving), default=widest))
        ops = arithmetic(s)
        cycles += vector_cycles(ops, [(1.0, 1.0)] * len(moving), lanes, ops.vector_instructions / RATE) / lanes
    return math.ceil(PIECE_CYCLES / cycles)


def _chunk_of_rows(scop: Scop, inside: Sequence[Statement], group: Sequence[str], depth: int) -> int:
    """The same, where each part is a row of elements."""
    trips, entered = _work(inside, depth)
    combined = [s for name in group if splitting(scop, s := scop.statement(name)) is not None]
    values = sum(count(s.domain).lower for s in combined)
    elements = 0
    for s in combined:
        box = ends_of(s.target.relation.intersect_domain(s.domain).range())
        if box is None:
            return 0
        elements = max(elements, elements_of(box))
    if trips < 2 or not values:
        return 0
    # Rounded down: of pieces of another result the last may be shorter.
    least = max(PER_ELEMENT * elements * entered * trips // values, -(-trips // MOST_ROWS))
    if 2 * least > trips:
        return 0
    return 1 if least <= 1 else piece_length(trips, least)


def _work(inside: Sequence[Statement], depth: int) -> tuple[int, int]:
    """Iterations of a loop, 0 where nobody knows how many or a thread has too little to do; and how often it runs."""
    trips, entered = trips_of(inside, depth), count(isl.project_onto(points_of(inside, depth), range(depth))).upper
    if trips is None or sum(count(s.domain).lower for s in inside) < LEAST * entered:
        return 0, 0
    return trips, int(entered)


def piece_length(trips: int, least: int) -> int:
    """Of pieces of so many iterations together, at least so many each. Pieces of one length make a box."""
    return next((length for length in range(least, 4 * least) if trips % length == 0), least)


def _rounds(scop: Scop, inside: Sequence[Statement], depth: int, number: int) -> tuple[int, int] | None:
    """How the loop at `depth` is cut into parts with results of their own (split-K): (length, ways).

    Each part takes `length` iterations, and `ways` parts are computed at a time, 0 for all. (4096, 8): partial results
    of 4,096 iterations each, eight in a round, combined behind it. `number` asks for the first such choice, the second,
    …, for a loop whose number of iterations is not known; None if there is none, or if the loop is not cut this way.
    """
    trips = trips_of(inside, depth)
    deep = any(s.depth > depth + 1 for s in inside)
    if trips is None:
        if number >= len(ROUNDS[deep]):
            return None
        length, ways = ROUNDS[deep][number]
        return max(length, _least_piece(scop, inside, depth)), ways
    # A loop over the parts of another result, which has parts of this one as well.
    return (1, 0) if deep and 1 < trips <= max(ways for _, ways in (*ROUNDS[True], *ROUNDS[False])) else None
