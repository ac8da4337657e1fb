"""The microkernel and the packed copies of one nest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from polydl.base.errors import InputError
from polydl.base.records import dataclass
from polydl.kernels.copy import CopyPiece
from polydl.kernels.families import block_kernel, copy_function
from polydl.kernels.microkernel import isa_prologue, prologues
from polydl.kernels.packing import PackLoop, PackRoutine, pack_prologue
from polydl.kernels.vector_text import NotVectorised
from polydl.lower.ctree import Declare, Evaluate, Int, Invoke, Name, Node, plus
from polydl.lower.instance import Place
from polydl.lower.kernel_calls import call_printer, stride_at, versions_of, visits_again
from polydl.lower.kernel_spec import constant, fused_epilogue
from polydl.lower.packed_ahead import Ahead
from polydl.lower.packing_plan import PackCall, pack_call
from polydl.lower.scratch import Scratch
from polydl.model.scop import Scop
from polydl.model.types import I32, ElementType
from polydl.schedule.fusion_conditions import Group
from polydl.schedule.kernel_call import Edge, KernelCall, edge_rows, kernel_call
from polydl.schedule.loops import NestLoops, given, stride_of
from polydl.schedule.tree import Kernel
from polydl.target.isa import VECTOR_TYPES


@dataclass(frozen=True, slots=True)
class NestPlan:
    """Everything that a nest needs beside its loops."""

    call: KernelCall
    packs: tuple[PackCall, ...] = ()
    prologue: tuple[str, ...] = ()
    printers: Mapping[str, Callable[[Place], Node]] = field(default_factory=dict)
    """Per isl tuple name, what prints its instances."""
    thread_lines: tuple[Declare, ...] = ()
    ahead: tuple[Ahead, ...] = ()
    """Packs that a function of their own makes; the others are `packs`."""
    in_tiles: bool = False
    """Whether calls use tiles, which threads begin and end (`templates/tile.c.j2`)."""
    edge: Edge | None = None
    """Calls for the rows of blocks that are no boxes."""


def obstacle(scop: Scop, structure: NestLoops, group: Group) -> str | None:
    """Why a group cannot be an epilogue of a structure's microkernel; None when it can."""
    kernel, found, nest = structure.kernel, structure.nest.contraction, structure.nest
    if kernel is None or found is None:
        return f"{nest.name} has no microkernel here"
    if not nest.box:
        return f"{nest.name} is not rectangular"
    if structure.summed:
        return f"{nest.name} is summed up from copies"
    call = kernel_call(structure, nest.statements[0])
    if not call.domain.is_equal(call.blocks):
        return f"not every block of {nest.name} runs in its microkernel"
    try:
        fused_epilogue(scop, structure, group, before=True, after=True)
    except NotVectorised as reason:
        return f"no vector form: {reason}"
    return None


def plan_nest(scop: Scop, node: Kernel, scratch: Scratch) -> NestPlan:
    """Microkernel and packs of a kernel of a tree. Raises NotVectorised."""
    structure, found = node.use, node.use.nest.contraction
    assert found is not None, "a kernel computes a contraction"
    family, use, block = block_kernel(structure)
    for role in family.layouts(use, block):
        if not any(p.operand == role for p in structure.packs):
            kind = "of the type of the sum" if not found.uniform else "contiguous along the columns"
            why = f"nest {structure.nest.name}: {role} is not {kind}"
            raise InputError(why, hint=f"add Pack({role}, …), or pack={role} to --blocks")
    call = kernel_call(structure, structure.nest.statements[0])
    edge = edge_rows(structure, call)
    element = found.element
    if call.domain.is_empty():
        prologue, printers = ((), {}) if edge is None else _rows(scop, edge, element)
        return NestPlan(call, (), prologue, printers, edge=edge)
    packs = {p.operand: pack_call(structure, p, call) for p in structure.packs}
    versions = versions_of(scop, structure, call, packs, node.zeroing, node.group)
    needed = versions.distinct(repeats=visits_again(structure))
    product = versions.between.spec.product
    word = product.word(element)
    texts = list(prologues(versions.between.spec))
    converts = any(p.operand.element is not word for p in packs.values())
    texts += [pack_prologue(word)] if packs and word in VECTOR_TYPES else []
    texts += [pack_prologue(I32)] if converts else []
    texts += [*versions.fused_first.prologue, *versions.fused_last.prologue, *(m.text for m in needed)]
    buffers = {r: f"polydl_{p.name}" if p.pack.function else scratch.add(p, word) for r, p in packs.items()}
    printers = {call.name: call_printer(structure, call, versions, packs, buffers)}
    ahead: list[Ahead] = []
    for role, pack in packs.items():
        routine = copy_function(_copy(structure, role, pack, product.copy(role, element)), pack.block)
        texts.append(routine.text)
        printers[pack.name] = _copy_printer(structure, pack, routine, buffers[role])
        if pack.pack.function:
            size = pack.words * word.bytes
            own = scratch.reserve(f"{buffers[role]}_own", word, size)
            ahead.append(Ahead(pack, word, printers.pop(pack.name), buffers[role], own, size))
    thread_lines = tuple(scratch.thread_line(buffers[r]) for r, p in packs.items() if not p.shared)
    now = tuple(p for p in packs.values() if not p.pack.function)
    if edge is not None:
        more, row_printers = _rows(scop, edge, element)
        texts += more
        printers |= row_printers
    in_tiles = any(m.spec.tile is not None and m.spec.tile.begins for m in needed)
    return NestPlan(call, now, tuple(texts), printers, thread_lines, tuple(ahead), in_tiles, edge)


def _rows(scop: Scop, edge: Edge, element: ElementType) -> tuple[tuple[str, ...], dict[str, Callable[[Place], Node]]]:
    """The microkernel for single rows: its text, and what prints its calls."""
    versions = versions_of(scop, edge.structure, edge.call, {}, None, None)
    printer = call_printer(edge.structure, edge.call, versions, {}, {})
    return (isa_prologue(element, scop.long), versions.between.text), {edge.call.name: printer}


def _copy(structure: NestLoops, role: str, pack: PackCall, element: ElementType) -> CopyPiece:
    nest, operand = structure.nest, pack.operand
    width = None if pack.width is None else pack.width.iterator
    loops = tuple(
        PackLoop(constant(extent, pack.domain), given(stride_of(nest, operand, loop.iterator)))
        for loop, extent in zip(pack.reductions, pack.extents, strict=False)
    )
    stride, groups = 1 if width is None else given(stride_of(nest, operand, width)), pack.grouping
    source = None if operand.element is element else operand.element
    grouped = 0 if groups.loop is None else pack.reductions.index(groups.loop)
    sums = groups.product.correction
    return CopyPiece(
        element,
        stride,
        loops,
        source,
        groups.product.group,
        grouped,
        sums if role == "B" else 0,
        bool(sums) and role == "A",
        groups.run(role) if groups.words > 1 else 0,
        groups.words * groups.product.group if groups.words > 1 else 0,
    )


def _copy_printer(structure: NestLoops, pack: PackCall, routine: PackRoutine, buffer: str) -> Callable[[Place], Node]:
    statement = structure.nest.statements[0]
    loops = (*structure.loops[: pack.depth], *pack.panels)
    relation = statement.accesses[pack.operand.access].relation.as_pw_multi_aff()

    def print_copy(at: Place) -> Node:
        width = at.affine(pack.extents[-1]) if pack.width is not None else Int(1)
        source = at.address(pack.operand.array, relation.pullback_pw_multi_aff(pack.corner))
        run_time = stride_at(at, structure.nest, pack.operand, pack.width) if pack.width is not None else []
        for extent, loop, spec in zip(pack.extents, pack.reductions, routine.spec.loops, strict=False):
            run_time += [at.affine(extent)] if spec.extent is None else []
            run_time += stride_at(at, structure.nest, pack.operand, loop)
        target = plus(Name(buffer), at.affine(pack.offset(pack.domain, loops)))
        return Evaluate(Invoke(routine.name, (width, source, target, *run_time)))

    return print_copy
