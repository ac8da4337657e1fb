"""Scops and parts of them as nests in time, for the locality analysis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from polydl.model import isl
from polydl.model.nest import TimedAccess, TimedNest
from polydl.model.scop import Scop, Statement
from polydl.model.time import map_from_affs, original_affs
from polydl.schedule.as_tree import inside_calls
from polydl.schedule.tree import Kernel, Member, Node, Run, Step, kernels, own_statements, steps


def _nest(
    scop: Scop,
    statements: Sequence[Statement],
    maps: Mapping[str, isl.Map],
    loops: Sequence[str],
    parallel: frozenset[str],
) -> TimedNest:
    """Drop the time dimensions that are the same constant for every instance, and put the accesses into time, but for
    those whose elements data choose: nothing is known of their reuse."""
    domain = isl.united(one.range() for one in maps.values())
    assert domain is not None
    texts = [d for d, name in enumerate(loops) if name.startswith("@")]
    idle = [d for d in texts if len(set(isl.bounds(domain, d))) == 1]
    kept = [d for d in range(isl.arity(domain)) if d not in idle]
    domain = isl.project_onto(domain, kept)
    maps = {name: isl.range_onto(one, kept) for name, one in maps.items()}
    accesses = tuple(
        TimedAccess(s.name, a.array, a.write, maps[s.name].reverse().apply_range(a.relation))
        for s in statements
        for a in s.accesses
        if a.exact
    )
    bytes_of = {a.array: scop.arrays[a.array].element.bytes for s in statements for a in s.accesses}
    return TimedNest(tuple(loops[d] for d in kept), domain.coalesce(), accesses, bytes_of, parallel)


def original_nest(scop: Scop) -> TimedNest:
    """The scop in its original order. Textual positions that order statements inside a loop are loops called `@d`."""
    depth = max((s.depth for s in scop.statements), default=0)
    maps = {s.name: map_from_affs(s.domain, original_affs(s, depth)) for s in scop.statements}
    deepest = max(scop.statements, key=lambda s: s.depth)
    loops = [name for d in range(depth) for name in (f"@{d}", deepest.iterators[d])] + [f"@{depth}"]
    return _nest(scop, scop.statements, maps, loops, frozenset())


def timed(scop: Scop, part: Node) -> TimedNest:
    """A part of a program in the order of a tree, the loops inside of microkernels included as the innermost ones.

    Loops of a region's tree are called by their values, `i + j` or `floor(i/32)`; places in sequences that order
    statements inside of loops are loops called `@d`."""
    own = own_statements(part)
    statements = [s for s in scop.statements if s.name in own]
    runs = sorted(_runs(part, {s.name: s for s in statements}), key=lambda run: len(run[1]))
    length = max(len(path) for _, path, _ in runs)
    maps: dict[str, isl.Map] = {}
    names = [f"@{d}" for d in range(length)]
    parallel = set()
    for statement, path, instances in runs:
        padded = (*path, *(0 for _ in range(length - len(path))))
        for d, step in enumerate(padded):
            if isinstance(step, Member):
                names[d] = step.called(statement.name) or isl.value_text(step.affs[statement.name])
                parallel |= {d} if step.run is Run.PARALLEL else set()
        affs = [
            step.affs[statement.name] if isinstance(step, Member) else isl.constant(statement.domain, step)
            for step in padded
        ]
        one = map_from_affs(instances, affs)
        maps[statement.name] = maps[statement.name].union(one) if statement.name in maps else one
    return _nest(scop, statements, maps, names, frozenset(names[d] for d in parallel))


def _runs(tree: Node, of: Mapping[str, Statement]) -> Iterator[tuple[Statement, tuple[Step, ...], isl.Set]]:
    """Per leaf and kernel that runs anything: its statement, the loops and places around, the instances."""
    for at, path in steps(tree):
        statement = of[at.statement]
        instances = at.whole if isinstance(at, Kernel) else statement.domain
        if isinstance(at, Kernel):
            path = (*path, *inside_calls(at.use))
        else:
            for kernel in kernels(tree):
                instances = instances.subtract(kernel.whole) if kernel.statement == at.statement else instances
        if not instances.is_empty():
            yield statement, path, instances
