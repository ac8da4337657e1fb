"""Where packed copies lie and what fills them: the packs of a structure as statements of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass

from polydl.model import isl
from polydl.model.contraction import Operand
from polydl.model.schedule import map_from_affs
from polydl.schedule.kernel_call import KernelCall
from polydl.schedule.structure import Loop, Structure
from polydl.schedule.transforms import Pack


@dataclass(frozen=True, slots=True)
class PackCall:
    """The copy of one operand as a statement: one instance per microkernel-sized panel."""

    name: str
    """isl tuple name, `S0_pack_A`."""
    pack: Pack
    operand: Operand
    shared: bool
    """One copy for all threads, or one a thread."""
    depth: int
    """Loops around the whole copy."""
    panels: tuple[Loop, ...]
    """Loops below `depth` that move the operand: one panel for each of their iterations."""
    domain: isl.Set
    """{ S0_pack_A[t_0 … t_(depth-1), panels…] }."""
    extents: tuple[isl.PwAff, ...]
    """{ S0_pack_A[…] -> [n] } iterations to copy: the reductions in `reductions`, then rows (A) or columns (B)."""
    reductions: tuple[Loop, ...]
    """The microkernel's reductions that move the operand, outermost first."""
    corner: isl.PwMultiAff
    """{ S0_pack_A[…] -> S0[…] } an instance that reads the panel's first element."""
    block: int
    """Rows (A) or columns (B) of a panel: the innermost dimension of the buffer."""
    strides: tuple[int, ...]
    """Elements between neighbours in the buffer, for each of `panels`, then each of `reductions`."""
    elements: int
    """Elements of the buffer."""

    def stride(self, loop: Loop) -> int:
        """Elements in the buffer between iterations of a loop inside the microkernel; 0 if it does not move it."""
        if loop in self.reductions:
            return self.strides[len(self.panels) + self.reductions.index(loop)]
        return 0

    def offset(self, space: isl.Set, loops: tuple[Loop, ...]) -> isl.PwAff:
        """{ space[t…] -> [elements] } where in the buffer the panel of a time lies; `loops` names its dimensions."""
        strides = {loops.index(loop): stride for loop, stride in zip(self.panels, self.strides, strict=False)}
        return isl.PwAff.from_aff(isl.linear(space, strides))


def _trips(structure: Structure, loop: Loop) -> int:
    extent = loop.within if loop.within is not None else structure.nest.counts[loop.iterator].extent
    assert extent is not None, "only rectangular nests are packed"
    whole = structure.nest.counts[loop.iterator].extent
    assert whole is not None
    return -(-min(extent, whole) // loop.step)


def pack_call(structure: Structure, pack: Pack, call: KernelCall) -> PackCall:
    """The statement that fills the buffer of one pack."""
    operand = structure.operand(pack)
    depth = structure.pack_depth(pack)
    panels = tuple(loop for loop in structure.loops[depth:] if operand.strides[loop.iterator] != 0)
    kernel = structure.kernel
    assert kernel is not None
    first = len(structure.inside) - len(kernel.reduce)
    reductions = tuple(loop for loop in structure.inside[first:] if operand.strides[loop.iterator] != 0)
    block = kernel.m if pack.operand == "A" else kernel.n
    sizes = [_trips(structure, loop) for loop in (*panels, *reductions)]
    strides = tuple(block * math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
    name = f"{call.statement.name}_pack_{pack.operand}"
    kept = [*range(depth), *(structure.loops.index(loop) for loop in panels)]
    to_pack = map_from_affs(call.domain, [isl.coordinate(call.domain, position) for position in kept])
    to_pack = isl.range_named(to_pack, name)
    section = to_pack.reverse().lexmin_pw_multi_aff()
    wanted = [structure.inside.index(loop) for loop in reductions]
    if pack.operand == "B" or kernel.rows is not None:
        wanted.append(0 if pack.operand == "A" else first - 1)
    extents = tuple(call.extents[i].pullback_pw_multi_aff(section) for i in wanted)
    return PackCall(
        name=name,
        pack=pack,
        operand=operand,
        shared=structure.is_shared(pack),
        depth=depth,
        panels=panels,
        domain=to_pack.range().coalesce(),
        extents=extents,
        reductions=reductions,
        corner=call.corner.pullback_pw_multi_aff(section),
        block=block,
        strides=strides,
        elements=block * math.prod(sizes),
    )
