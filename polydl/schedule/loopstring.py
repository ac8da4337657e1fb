"""Loop strings: PARLOOPER's notation for loop orders, blockings and parallel loops, as a way to name a variant.

    bcaBCb                  loops from the outermost; the k-th occurrence of a letter is the k-th tile loop of its loop
    bcaBCb@schedule(dynamic,1)   upper case: parallel, neighbours collapsed; what OpenMP shall do with them
    BCabc@hilbert           two parallel loops in the order of a Hilbert curve, a contiguous stretch of it a thread
    bC{R:16}aB{C:4}cb       upper case with braces: a grid of 16 rows x 4 columns of threads, a block of the loop each
    C{R:16+}ab              a grid whose blocks of the reduction c have a copy of the output each, added up at the end
    b|caBC                  a barrier at the end of the loop before it
    cbAa@nowait             one team of threads for all loops, which wait for each other at `|` only
    cbA|a@schedule(static,2) nowait     … here at the end of the parallel loop, in each iteration of b
    S1: A&bc; S4: A&b       the loops before & are one, and the nests run one after the other in its iterations

The letters a, b, c, … are the nest's loops in the order in which they are written. As in PARLOOPER a loop counts what
stands outside of the microkernel: one iteration of a loop that is blocked by the microkernel (its rows or columns) is
one block; of every other loop one original iteration. Sizes of tiles, and what the microkernel does, are a second text:

    b=12,4;c=8              tile sizes of b and c, outermost first, in iterations of the loop; each divides the last
    mk=14x32:k              blocks of 14 rows and 32 columns, k inside the microkernel; `mk=14(i)x32(j):k` names the
                            loops, `mk=32(j)` has no rows, `mk=none` no microkernel. Left out: the best register block
    pack=B:j.0,A            operands copied: inside the piece j.0 (j's outermost tile loop), or once before all loops;
                            B@f_pack: ahead of time, by a function f_pack that the output has
    share=S1                the loops before & are those of the nest S1, which is the first that has them; left out: of
                            the nest itself. share=S1:1,8: and tiled, the nest is not: the second one by 8

With several nests the names stand in front here too: S0: mk=none; S1: b=12,4;c=8.

A loop with n letters has n - 1 sizes. A reduction that runs inside the microkernel has n sizes for n letters, the last
being what one call takes; without letter and size all of it. Loops of one iteration may be left out.

Source: Georganas et al., "Harnessing Deep Learning and HPC Kernels via High-Level Loop and Tensor Abstractions on CPU
Architectures", 2023, rules 1 and 2. Here unlike there the parallel region begins at the outermost parallel loop and
ends with it, so that a barrier outside of it is implied; with `nowait` it begins at the outermost loop as there, and
barriers are those that are written. Inside of a parallel loop OpenMP has none, and it is refused.
"""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Mapping, Sequence

from polydl.base.errors import InputError
from polydl.base.records import dataclass
from polydl.dependences.nests import Nest
from polydl.schedule import notation
from polydl.schedule.limits import RegisterBlocks
from polydl.schedule.loops import BY_ENTRIES, HILBERT, LoopTransform, NestLoops, apply
from polydl.schedule.notation import NOWAIT, Level, Written, levels, loop_named
from polydl.schedule.ordered import Ordered, ordered
from polydl.schedule.transform import Transform
from polydl.schedule.transforms import Merge, Microkernel, Pack, Parallelize, Permute, Tile

Transforms = tuple[LoopTransform, ...]

_KERNEL = re.compile(r"([0-9]+)(?:\((\w+)\))?(?:x([0-9]+)(?:\((\w+)\))?)?(?::([\w,]*))?")
_SHARE = re.compile(r"([A-Za-z_]\w*)(?:\s*:\s*([0-9]+(?:\s*,\s*[0-9]+)*))?")
_PACK = re.compile(r"([AB])(?::([\w.]+)|@([A-Za-z_]\w*))?")


@dataclass(frozen=True, slots=True)
class LoopText:
    """A variant of a nest as loop string and blocks."""

    loops: str
    blocks: str

    def __str__(self) -> str:
        return f"{self.loops} {self.blocks}".rstrip()


def letters(nest: Nest) -> dict[str, str]:
    """Letter → loop, in the nest's order. Raises InputError for more than 26 loops."""
    if len(nest.loops) > len(string.ascii_lowercase):
        raise InputError(f"nest {nest.name} has {len(nest.loops)} loops: more than there are letters")
    return dict(zip(string.ascii_lowercase, nest.loops, strict=False))


def _kernel(
    nest: Nest, written: Written | None, names: Mapping[str, str], choose: RegisterBlocks
) -> tuple[Microkernel | None, bool]:
    """The microkernel, and whether its reductions were named."""
    if written is not None and written.text.strip() == "none":
        return None, True
    found = nest.contraction
    if found is None:
        if written is not None:
            raise written.error(f"nest {nest.name} is not a contraction: it has no generated microkernel")
        return None, True
    upwards = [c for c in found.columns() if c not in nest.statements[0].descending and nest.counts[c].stride == 1]
    best = next((b for b in choose(nest) if b[1] in upwards), None)
    if written is None:
        return (None, True) if best is None else (Microkernel(*best[:4], reduce=(), product="".join(best[4:])), False)
    said = _KERNEL.fullmatch(written.text.strip())
    if said is None:
        raise written.error("not a microkernel", hint="as in mk=14x32:k, or mk=14(i)x32(j):k, mk=32(j), mk=none")
    first, first_loop, second, second_loop, inside = said.groups()
    rows_text, columns_text = (first_loop, second_loop) if second else (None, first_loop)
    if best is None and (columns_text is None or (second and rows_text is None)):
        raise written.error("no columns to choose", hint="name the loops, as in mk=14(i)x32(j)")
    columns = loop_named(columns_text, names, written) if columns_text else best[1] if best else ""
    rows = None if not second else loop_named(rows_text, names, written) if rows_text else best[0] if best else None
    if columns not in upwards or (rows is not None and rows not in found.rows(columns)):
        known = "; ".join(f"columns {c}, rows {' or '.join(found.rows(c)) or 'none'}" for c in upwards) or "none fit"
        raise written.error(f"the microkernel cannot have columns {columns} and rows {rows}", hint=known)
    reduce = tuple(loop_named(n, names, written) for n in (inside or "").split(",") if n)
    for loop in reduce:
        if loop not in found.reductions:
            known = ", ".join(found.reductions)
            raise written.error(f"loop {loop} is not a reduction", hint=f"the reductions: {known}")
    n = int(second or first)
    product = "" if best is None else "".join(best[4:])
    return Microkernel(rows, columns, int(first) if rows else 1, n, reduce, product=product), inside is not None


def parse(nest: Nest, loops: Written, blocks: Written, choose: RegisterBlocks) -> tuple[Transform, ...]:
    """The transforms that a loop string and its blocks name: Tile…, Microkernel, Permute, Parallelize, Pack…, Merge.

    `choose` gives register blocks, best first, for when the blocks don't. Raises InputError with the place in the text.
    Says nothing of legality.
    """
    names = letters(nest)
    found, schedule, nowait = levels(loops)
    for level in found:
        if level.letter not in names:
            loop_named(level.letter, names, loops.part(level.at, level.at + 1))
    given = notation.blocks(blocks, names)
    kernel, named = _kernel(nest, given.kernel, names, choose)
    tiles: list[Tile] = []
    inside: dict[str, str] = {}
    idle: list[str] = []
    for letter, loop in names.items():
        at = [level.at for level in found if level.letter == letter]
        count = len(at)
        sizes, where = given.sizes.get(loop, ((), loops.part(at[-1], at[-1] + 1) if at else loops))
        unit = 1 if kernel is None else {kernel.rows: kernel.m, kernel.columns: kernel.n}.get(loop, 1)
        if _runs_inside(nest, kernel, named, loop, count, len(sizes)):
            inside[loop] = f"{loop}.{count}" if count else loop
        elif count == 0 and not sizes:
            extent = nest.counts[loop].extent
            if extent is None or extent > unit:
                raise loops.error(f"loop {letter} ({loop}) is missing")
            idle.append(loop)
        wanted = count if loop in inside else max(count - 1, 0)
        if len(sizes) != wanted:
            why = ", the last being what a microkernel call takes" if loop in inside else ""
            stands = "once" if count == 1 else f"{count} times"
            raise where.error(
                f"loop {letter} ({loop}) stands {stands} in the loop string, so it takes {wanted or 'no'} "
                f"size{'' if wanted == 1 else 's'}, not {len(sizes)}{why}",
                hint="sizes are given with --blocks, as in b=12,4;c=8",
            )
        if any(a <= b or a % b for a, b in itertools.pairwise(sizes)):
            raise where.error("sizes must decrease, each dividing the one before")
        if sizes:
            tiles.append(Tile(loop, tuple(size * unit for size in sizes)))
    body: Transforms = tuple(tiles)
    if kernel is not None:
        point = {tile.loop: f"{tile.loop}.{len(tile.sizes)}" for tile in tiles}
        reduce = kernel.reduce if named else tuple(i for i in nest.loops if i in inside)
        rows = None if kernel.rows is None else point.get(kernel.rows, kernel.rows)
        body = (*body, Microkernel(rows, point.get(kernel.columns, kernel.columns), kernel.m, kernel.n,
                                   tuple(inside[r] for r in reduce), product=kernel.product))  # fmt: skip
    pieces = _pieces(found, names, tiles)
    shared = next((place for place, level in enumerate(found, start=1) if level.shared), 0)
    transforms = body + _order(nest, body, (*pieces[:shared], *idle, *pieces[shared:]), blocks)
    transforms += _parallel(found, pieces, schedule, loops, nowait=nowait)
    transforms += _packs(given.packs, pieces)
    try:
        apply(nest, transforms)
    except InputError as error:
        raise loops.error(error.reason, hint=error.hint) from error
    return (*transforms, *_shares(nest, shared, given.share))


def _runs_inside(nest: Nest, kernel: Microkernel | None, named: bool, loop: str, count: int, sizes: int) -> bool:
    if kernel is None or nest.contraction is None or loop not in nest.contraction.reductions:
        return False
    if named:
        return loop in kernel.reduce
    return sizes == count and (count > 0 or nest.counts[loop].extent != 1)


def _pieces(found: Sequence[Level], names: Mapping[str, str], tiles: Sequence[Tile]) -> list[str]:
    """The name of each level's loop."""
    tiled = {tile.loop for tile in tiles}
    seen: dict[str, int] = {}
    pieces = []
    for level in found:
        loop = names[level.letter]
        place = seen.get(loop, 0)
        seen[loop] = place + 1
        pieces.append(f"{loop}.{place}" if loop in tiled else loop)
    return pieces


def _order(nest: Nest, body: Transforms, order: tuple[str, ...], where: Written) -> Transforms:
    try:
        written = tuple(loop.name for loop in apply(nest, body).loops)
    except InputError as error:
        raise where.error(error.reason, hint=error.hint) from error
    return () if order == written else (Permute(order),)


def _parallel(
    found: Sequence[Level], pieces: Sequence[str], schedule: str, where: Written, *, nowait: bool
) -> Transforms:
    at = [p for p, level in enumerate(found) if level.parallel]
    barriers = [p for p, level in enumerate(found) if level.barrier]
    grid = [p for p in at if found[p].axis]
    if not at:
        if barriers or schedule or nowait:
            raise where.error("no loop is parallel", hint="a parallel loop is written in upper case")
        return ()
    for p in barriers:
        if p > at[0]:
            raise where.error("a barrier inside a parallel loop", found[p].at, 1, "OpenMP allows none there")
    if not grid:
        for p, q in itertools.pairwise(at):
            if q != p + 1:
                hint = "others need a thread grid, as in bC{R:4}aB{C:2}"
                raise where.error("parallel loops must be neighbours", found[q].at, 1, hint)
    elif len(grid) != len(at):
        odd = next(p for p in at if not found[p].axis)
        raise where.error("a parallel loop without a place in the thread grid", found[odd].at, 1, "as in C{R:16}")
    elif schedule:
        raise where.error("a thread grid has a schedule of its own", where.text.index("@"))
    axes = "".join(found[p].axis for p in grid)
    if grid and (len(axes) > 3 or set(axes) != set("RCL"[: len(axes)])):
        wide = found[grid[-1]].at - found[grid[0]].at + 1
        hint = "one loop takes R, two take R and C, three R, C and L"
        raise where.error(f"a thread grid of axes {', '.join(axes)}", found[grid[0]].at, wide, hint)
    summed = [p for p in grid if found[p].summed]
    if len(summed) > 1:
        raise where.error("only one loop of a thread grid can be summed up", found[summed[1]].at, 1)
    return (
        Parallelize(
            tuple(pieces[p] for p in at),
            schedule,
            axes,
            tuple(found[p].ways for p in grid),
            tuple(pieces[p] for p in barriers),
            pieces[summed[0]] if summed else "",
            nowait,
        ),
    )


def _shares(nest: Nest, loops: int, written: Written | None) -> tuple[Merge, ...]:
    """`loops`: how many are shared."""
    if written is None:
        return (Merge(nest.name, loops),) if loops else ()
    said = _SHARE.fullmatch(written.text.strip())
    if said is None:
        raise written.error("not what loops are shared with", hint="the first nest that has them, as in share=S1:1,8")
    if not loops:
        raise written.error("no loop is shared", hint="the loop string marks where they end, as in Ab&c")
    sizes = tuple(int(n) for n in said[2].split(",")) if said[2] else ()
    if sizes and (len(sizes) != loops or 0 in sizes):
        takes = f"{loops} positive number{'s' if loops > 1 else ''}"
        raise written.error(f"{loops} loops are shared, so sizes are {takes}, 1 for a loop without tiles")
    return (Merge(said[1], loops, sizes),)


def _packs(written: Written | None, pieces: Sequence[str]) -> Transforms:
    if written is None:
        return ()
    packs = []
    at = 0
    for text in written.text.split(","):
        where = written.part(at, at + len(text))
        at += len(text) + 1
        said = _PACK.fullmatch(text.strip())
        if said is None or (said[2] is not None and said[2] not in pieces):
            raise where.error("not a pack", hint=f"A or B, as in pack=B:LOOP with LOOP one of {', '.join(pieces)}")
        packs.append(Pack(said[1], said[2] or "", said[3] or ""))
    return tuple(packs)


def part_text(part: Ordered) -> LoopText | None:
    """The loop string and blocks of a part of a variant, with what it shares; None for one whose order is no nest's.
    Raises InputError for more than 26 loops."""
    return None if part.loops is None else text(part.loops, part.merge)


def text(structure: NestLoops, merge: Merge | None = None) -> LoopText:
    """The loop string and blocks of a structure, and of the loops that it shares: `parse` makes the same one of them.
    Raises InputError for more than 26 loops."""
    nest, kernel = structure.nest, structure.kernel
    names = letters(nest)
    letter = {loop: c for c, loop in names.items()}
    axes = {axis.loop: axis for axis in structure.grid}
    unit = {loop.iterator: loop.within or 1 for loop in structure.held}
    points = {loop.iterator for loop in structure.inner if loop.within is not None and loop.iterator not in unit}
    said = ""
    for place, loop in enumerate(structure.loops, start=1):
        c = letter[loop.iterator]
        said += c.upper() if loop.name in structure.parallel else c
        if loop.name in axes:
            plus = "+" if loop.name == structure.summed else ""
            said += f"{{{axes[loop.name].axis}:{axes[loop.name].ways}{plus}}}"
        said += "|" if loop.name in structure.barriers else ""
        said += "&" if merge is not None and merge.loops == place else ""
    clause = structure.omp_schedule
    clauses = [clause if clause in ("", HILBERT, BY_ENTRIES) else f"schedule({clause})", NOWAIT * structure.nowait]
    said += "@" * any(clauses) + " ".join(one for one in clauses if one)
    blocks = []
    for c, name in names.items():
        steps = [loop.step for loop in structure.loops if loop.iterator == name]
        sizes = steps if name in points else steps[:-1]
        if sizes:
            blocks.append(f"{c}=" + ",".join(str(size // unit.get(name, 1)) for size in sizes))

    def shown(iterator: str) -> str:
        return letter[iterator] if iterator in names else iterator

    if kernel is not None:
        held = [loop.iterator for loop in structure.held]
        sides = [f"{size}({shown(i)})" for i, size in zip(held, (kernel.m, kernel.n)[-len(held) :], strict=True)]
        reduce = [shown(loop.iterator) for loop in kernel.reductions]
        blocks.append(f"mk={'x'.join(sides)}:{','.join(reduce)}")
    elif nest.contraction is not None:
        blocks.append("mk=none")
    if structure.packs:
        places = [f":{p.after}" if p.after else f"@{p.function}" if p.function else "" for p in structure.packs]
        packs = [p.operand + place for p, place in zip(structure.packs, places, strict=True)]
        blocks.append(f"pack={','.join(packs)}")
    if merge is not None and (merge.first != nest.name or merge.sizes):
        blocks.append(f"share={merge.first}" + (f":{','.join(map(str, merge.sizes))}" if merge.sizes else ""))
    return LoopText(said, ";".join(blocks))


def nests_named(loops: Written) -> frozenset[str]:
    """The nests whose names stand in a loop string, as in `S0: ab; S1: bcaBCb`."""
    return frozenset(name for name, _ in notation.by_nest(loops) if name is not None)


def forced(parts: Sequence[Nest], loops: Written, blocks: Written, choose: RegisterBlocks) -> tuple[Ordered, ...]:
    """An order for each nest. A loop string gives those of the nests that it names (`S0: ab; S1: bcaBCb`); without
    names, that of the only contraction, else of the only nest. Other nests stay as they are written.

    Raises InputError with the place.
    """
    known = {part.name: part for part in parts}
    heavy = [part for part in parts if part.contraction is not None] or list(parts)
    wanted = notation.by_nest(loops)
    sizes: dict[str | None, Written] = {}
    for name, said in notation.by_nest(blocks):
        if name in sizes:
            raise said.error(f"blocks of {name} are given twice")
        sizes[name] = said
    made: dict[str, tuple[Transform, ...]] = {}
    for name, said in wanted:
        nest = known.get(name) if name is not None else heavy[0] if len(heavy) == len(wanted) == 1 else None
        if nest is None or nest.name in made:
            names = ", ".join(f"{part.name} ({', '.join(part.loops)})" for part in parts)
            raise said.error("which nest?", hint=f"put its name and a colon in front: {names}")
        own = sizes.pop(name, None) or (sizes.pop(None, None) if len(wanted) == 1 else None)
        made[nest.name] = parse(nest, said, own or blocks.part(0, 0), choose)
        first = next((t.first for t in made[nest.name] if isinstance(t, Merge)), nest.name)
        if first not in known:
            where = own or said
            at = max(0, where.text.find("share="))
            raise where.error(f"there is no nest {first} to share loops with", at, hint=", ".join(known))
    for name, said in sizes.items():
        if said.text.strip():
            raise said.error("blocks of which nest?" if name is None else f"there is no loop string for {name}",
                             hint="put the nest's name in front, as in S0: c=8; S1: b=12,4")  # fmt: skip
    return tuple(ordered(part, made.get(part.name, ())) for part in parts)
