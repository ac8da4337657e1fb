"""Packed copies of operands: where each lies in its buffer, and the statement that fills it."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.contraction import Operand
from polydl.model.layout import Axis, Layout
from polydl.model.time import map_from_affs
from polydl.schedule.grouping import Grouping, grouping
from polydl.schedule.kernel_call import KernelCall
from polydl.schedule.loops import Loop, NestLoops, Packed


@dataclass(frozen=True, slots=True)
class PackCall:
    """The copy of one operand as a statement: one instance per microkernel-sized panel."""

    name: str
    """isl tuple name, `S0_pack_A`."""
    statement: str
    """The one that reads the copy."""
    pack: Packed
    operand: Operand
    shared: bool
    """One copy for all threads, or one per thread."""
    depth: int
    """Loops around the whole copy."""
    panels: tuple[Loop, ...]
    """Loops below `depth` that move the operand: one panel for each of their iterations."""
    loops: tuple[Loop, ...]
    """Around the whole copy, then the panels: those of its instances."""
    domain: isl.Set
    """{ S0_pack_A[t…] }, a dimension for each of `loops`."""
    extents: tuple[isl.PwAff, ...]
    """{ S0_pack_A[…] -> [n] } iterations to copy: the reductions in `reductions`, then rows (A) or columns (B)."""
    reductions: tuple[Loop, ...]
    """The microkernel's reductions that move the operand, outermost first."""
    width: Loop | None
    """The loop along the width of a panel: the block's rows (A) or columns (B); None: it has a single row."""
    corner: isl.PwMultiAff
    """{ S0_pack_A[…] -> S0[…] } an instance that reads the panel's first element."""
    block: int
    """Rows (A) or columns (B) of a panel."""
    layout: Layout
    """Of the buffer: an axis for each of `panels`, then for each of `reductions`, the panel's width, and the elements
    of a group innermost where there are groups; where a step takes several groups, they are an axis right inside of
    their reduction's, or innermost (`Grouping.run`). Its dimensions are the iterators that move the operand."""
    axes: tuple[Loop | None, ...]
    """By axis, the loop whose iterations, or steps, it counts; None: what is left."""
    grouping: Grouping
    """Of the microkernel that reads the copy. Words of the buffer have a group each."""

    @property
    def words(self) -> int:
        """Words of the buffer: its elements where there are no groups."""
        assert self.layout.size is not None, "only rectangular nests are packed"
        return self.layout.size // self.grouping.product.group

    @property
    def strides(self) -> dict[Loop, int]:
        """Words in the buffer between iterations of the loops that move the operand; of a reduction that is taken in
        groups, between groups."""
        group = self.grouping.product.group
        found = zip(self.axes, self.layout.axis_strides, strict=True)
        return {loop: s // group for loop, s in found if loop is not None and s is not None}

    @property
    def word_stride(self) -> int:
        """Words between the groups of one step."""
        if self.grouping.run(self.pack.operand) > self.grouping.product.group:
            return 1
        assert self.grouping.loop is not None
        inner = self.layout.axis_strides[self.axes.index(self.grouping.loop) + 1]
        assert inner is not None
        return inner // self.grouping.product.group

    @property
    def width_stride(self) -> int:
        """Words between neighbours along the width."""
        return self.grouping.run(self.pack.operand) // self.grouping.product.group

    def stride(self, loop: Loop) -> int:
        """Words in the buffer between steps of a loop inside the microkernel; 0 if it does not move it."""
        return self.strides.get(loop, 0)

    def offset(self, space: isl.Set, loops: tuple[Loop, ...]) -> isl.PwAff:
        """{ space[t…] -> [elements] } where in the buffer the panel of a time lies; `loops` names its dimensions."""
        strides = {loops.index(loop): self.strides[loop] for loop in self.panels}
        return isl.PwAff.from_aff(isl.linear(space, strides))


def _trips(structure: NestLoops, loop: Loop) -> int:
    whole = structure.nest.counts[loop.iterator].extent
    known = [extent for extent in (loop.within, whole) if extent is not None]
    assert known, "only loops with a bound are packed"
    return -(-min(known) // loop.step)


def pack_call(structure: NestLoops, pack: Packed, call: KernelCall) -> PackCall:
    """The statement that fills the buffer of one pack."""
    operand = structure.operand(pack.operand)
    depth = structure.pack_depth(pack)
    panels = tuple(loop for loop in structure.loops[depth:] if operand.strides[loop.iterator] != 0)
    kernel = structure.kernel
    assert kernel is not None
    reductions = tuple(loop for loop in kernel.reductions if operand.strides[loop.iterator] != 0)
    block = kernel.m if pack.operand == "A" else kernel.n
    name = f"{call.statement.name}_pack_{pack.operand}"
    kept = [*range(depth), *(structure.loops.index(loop) for loop in panels)]
    to_pack = map_from_affs(call.domain, [isl.coordinate(call.domain, position) for position in kept])
    to_pack = isl.range_named(to_pack, name)
    section = to_pack.reverse().lexmin_pw_multi_aff()
    wanted = [*reductions]
    groups = grouping(structure)
    digits = [(loop.iterator, loop.step, _trips(structure, loop)) for loop in panels]
    axes: list[Loop | None] = [*panels]
    run = groups.run(pack.operand)
    for loop in reductions:
        steps = -(-_trips(structure, loop) // groups.of(loop))
        # Behind the steps of B, where the kernel starts from something else than zero, is what it starts from.
        more = groups.product.correction != 0 and pack.operand == "B" and loop is reductions[0]
        digits.append((loop.iterator, groups.of(loop), steps + more))
        axes.append(loop)
        if groups.of(loop) > run:
            digits.append((loop.iterator, run, groups.of(loop) // run))
            axes.append(None)
    width = kernel.rows if pack.operand == "A" else kernel.columns
    if width is not None:
        wanted.append(width)
    # A panel is as wide as the microkernel's block also where no loop runs along its width.
    digits.append(("" if width is None else width.iterator, 1, block))
    if groups.loop is not None:
        digits.append((groups.loop.iterator, 1, run))
    extents = tuple(call.extent(loop).pullback_pw_multi_aff(section) for loop in wanted)
    return PackCall(
        name=name,
        statement=call.statement.name,
        pack=pack,
        operand=operand,
        shared=structure.is_shared(pack),
        depth=depth,
        panels=panels,
        loops=(*structure.loops[:depth], *panels),
        domain=to_pack.range().coalesce(),
        extents=extents,
        reductions=reductions,
        width=width,
        corner=call.corner.pullback_pw_multi_aff(section),
        block=block,
        layout=_layout(digits),
        axes=(*axes, *([None] * (len(digits) - len(axes)))),
        grouping=groups,
    )


def _layout(digits: Sequence[tuple[str, int, int]]) -> Layout:
    """Storage whose axes are digits of iterators: (iterator, iterations that one more stands for, values)."""
    iterators = list(dict.fromkeys(iterator for iterator, _, _ in digits))
    axes = tuple(Axis(iterators.index(iterator), step, extent) for iterator, step, extent in digits)
    return Layout(axes, (0,) * len(iterators))
