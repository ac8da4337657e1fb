"""Parts of a variant for the same program with other sizes: the same transforms of nests, the same trees of regions.

Tile sizes are constants, and the loops of a schedule tree are expressions of the iterators: neither depends on how far
the loops go. What does is left out: blocks of a thread grid, microkernels inside of trees. Nothing here decides
legality: `schedule.check` decides about the result, for all values of the parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from polydl.base.errors import InputError
from polydl.dependences.nests import Nest
from polydl.model import isl
from polydl.model.scop import Scop, Statement
from polydl.model.time import map_from_affs
from polydl.schedule.innermost_passes import WRITTEN_OUT
from polydl.schedule.kernels_in_tiles import blocked, packed
from polydl.schedule.ordered import Ordered, ordered
from polydl.schedule.transform import Transform
from polydl.schedule.transforms import Parallelize, Permute, Tile, Vectorize
from polydl.schedule.tree import (
    ALONE,
    Band,
    Copy,
    Kernel,
    Leaf,
    Member,
    Node,
    Run,
    kernel_below,
    kernels,
    on_subtrees,
    sequence,
    steps,
    with_kernels,
)
from polydl.schedule.tree import Sequence as InOrder


def at_sizes(scop: Scop, parts: Sequence[Ordered], nests: Sequence[Nest]) -> tuple[Ordered, ...]:
    """The parts of a variant for a program with the same statements, whose nests are given.

    Raises InputError where a part is made for its sizes.
    """
    by_name = {nest.name: nest for nest in nests}
    statements = {s.name: s for nest in nests for s in nest.statements}
    return tuple(_at_sizes(scop, part, by_name, statements) for part in parts)


def _at_sizes(scop: Scop, part: Ordered, nests: Mapping[str, Nest], statements: Mapping[str, Statement]) -> Ordered:
    if part.region is not None:
        own = tuple(statements[s.name] for s in part.statements)
        return replace(part, statements=own, region=packed(_with_kernels(part.region, scop, statements)))
    if part.loops is not None and (part.loops.packs or part.loops.summed):
        raise InputError(f"nest {part.name} has copies or sums of parts that are made for its sizes")
    return ordered(nests[part.name], part.transforms)


def _with_kernels(node: Node, scop: Scop, of: Mapping[str, Statement]) -> Node:
    """A tree with the microkernels of these statements for its own: a statement's leaf stands beside each of them and
    takes what they leave."""
    match node:
        case Leaf():
            return node
        case Kernel() | Copy():
            return InOrder(())
        case Band(members, child):
            below = _with_kernels(child, scop, of)
            return below if _is_empty(below) else Band(members, below)
        case InOrder(children):
            found = [made for child in children if not _is_empty(made := _with_kernels(child, scop, of))]
            if not found:
                return InOrder(())
            first = next((k for child in children if (k := kernel_below(child)) is not None and k.tiles), None)
            if first is None or (kernel := first.use.kernel) is None:
                return sequence(found)
            points, sizes = zip(*first.tiles, strict=True)
            return blocked(sequence(found), points, sizes, scop, of, (kernel.m, kernel.n))


def _is_empty(node: Node) -> bool:
    return isinstance(node, InOrder) and not node.children


def on_one_thread(part: Ordered) -> Ordered:
    """A part without parallel loops. Tiles on a diagonal, which are there to be parallel, run one loop after the other
    again."""
    if part.loops is not None:
        return ordered(part.loops.nest, [one for one in part.transforms if not isinstance(one, Parallelize)])
    assert part.how is not None and part.region is not None
    alone = {k: replace(k, use=replace(k.use, parallel=())) for k in kernels(part.region)}
    serial = with_kernels(_serial(part.region), alone)  # copies are not one for each thread
    return replace(part, how=structs.replace(part.how, parallel=False), region=serial)


def _serial(node: Node) -> Node:
    """A tree without parallel loops."""
    match node:
        case Band(members, child):
            if members[0].diagonal:
                affs = {s: a.sub(members[1].affs[s]) for s, a in members[0].affs.items()}
                members = (replace(members[0], affs=affs, diagonal=False), *members[1:])
            return Band(tuple(_on_one(member) for member in members), _serial(child))
        case _:
            return on_subtrees(node, _serial)


def _on_one(member: Member) -> Member:
    return replace(member, run=Run.SERIAL, share=ALONE) if member.run is Run.PARALLEL else member


def through_caches(part: Ordered) -> Ordered:
    """A part whose rows store nothing past the caches, which is for outputs that are larger than they are."""
    usual = (structs.replace(one, stream=()) if isinstance(one, Vectorize) else one for one in part.later)
    return replace(part, later=tuple(usual))


def shared_anew(part: Ordered, tuned: Nest, threads: int, row: int | None) -> Ordered:
    """A nest whose tiles are one for each thread at the sizes of `tuned` without these: at other sizes there would be
    fewer of them than threads. Where they are of the innermost loop they get `row` iterations, if that is a number:
    what a thread runs stays a row."""
    if part.loops is None or part.loops.kernel is not None:
        return part
    found: list[Transform] = list(part.transforms)
    for loop in part.loops.nest.loops:
        extent = tuned.counts[loop].extent
        tile = next((t for t in found if isinstance(t, Tile) and t.loop == loop), None)
        if extent is None or tile is None or len(tile.sizes) > 1 or tile.sizes[0] < -(-extent // threads):
            continue
        if row is not None and part.loops.loops[-1].iterator == loop:
            found = [structs.replace(tile, sizes=(row,)) if one is tile else one for one in found]
        else:
            found = [_untiled(one, loop) for one in found if one is not tile]
    if found == list(part.transforms):
        return part
    try:
        return ordered(part.loops.nest, found)
    except InputError:
        return part  # parallel loops that the loop would have to stand between


def _untiled(transform: Transform, loop: str) -> Transform:
    """The transform of a nest whose loop is in one piece, where that over its tiles was."""
    match transform:
        case Permute(order):
            return Permute(_joined(order, loop))
        case Parallelize(loops):
            return structs.replace(transform, loops=_joined(loops, loop))
        case _:
            return transform


def _joined(loops: Sequence[str], loop: str) -> tuple[str, ...]:
    return tuple(loop if one == f"{loop}.0" else one for one in loops if one != f"{loop}.1")


def long_when_written_out(node: Node, of: Mapping[str, Statement]) -> str:
    """Which loop of a tree is written out though no constant of a few iterations bounds it; empty: none is."""
    for at, path in steps(node):
        if isinstance(at, Leaf):
            for place, step in enumerate(path):
                if isinstance(step, Member) and step.unroll and not _is_short(of[at.statement], path[: place + 1]):
                    return step.text(at.statement)
    return ""


def _is_short(statement: Statement, path: Sequence[Member | int]) -> bool:
    *around, last = _affs(statement, path)
    same = map_from_affs(statement.domain, around)
    pairs = same.apply_range(same.reverse())
    value = isl.Map.from_aff(last)
    most = isl.greatest(pairs.apply_domain(value).apply_range(value).deltas(), 0)
    return most is not None and most < WRITTEN_OUT


def _affs(statement: Statement, path: Sequence[Member | int]) -> Iterator[isl.Aff]:
    return (step.affs[statement.name] for step in path if isinstance(step, Member))
