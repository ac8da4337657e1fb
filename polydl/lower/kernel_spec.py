"""What the generated microkernel of a nest computes: extents, strides, prefetches, what is fused into it."""

from __future__ import annotations

from collections.abc import Mapping

from polydl.dependences.nests import Nest
from polydl.kernels.direct_reads import DirectReads
from polydl.kernels.microkernel_spec import MicrokernelSpec, Reduction, Step
from polydl.kernels.scalar_text import scalar_text
from polydl.kernels.vector_text import NotVectorised, Vectors, math_prologue, uses_functions
from polydl.lower.epilogue import Epilogue, epilogue
from polydl.lower.packing_plan import PackCall
from polydl.model import isl
from polydl.model.contraction import Contraction, Operand, Within
from polydl.model.expr import Const, Expr, is_number
from polydl.model.isl import to_int
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.strides import Stride, known
from polydl.model.types import I32
from polydl.schedule.fusion_conditions import Group
from polydl.schedule.grouping import Grouping, grouping
from polydl.schedule.kernel_call import KernelCall
from polydl.schedule.loops import Loop, NestLoops, given, multiplied, stride_of
from polydl.target.isa import VECTOR_TYPES

PAGE_BYTES = 4096
"""Hardware prefetchers stop at the boundary of a (base) page."""


NOTHING_FUSED = Epilogue()

ROWS_AHEAD = 64
"""Elements of a row of A that are fetched ahead, where rows are a page or more apart."""

ENTRIES_BYTES = 8192
"""Bytes from the block of an entry to that which is fetched ahead, where a table says what it is multiplied with:
waiting for that, the processor does not see the blocks behind. Zen 5, two threads, 2048 x 2048 floats, density 0.9,
times 32 columns: blocks of 8 x 8 383 to 501 GFLOP/s, of 32 x 32 213 to 478; within 2 % where the blocks come from a
cache of the core's own."""
NEXT_ROWS = 3
"""Rows of a block from which on the rows that the next entry leads to are fetched: for fewer there are not as many
products as loads and fetches together (one row: 0.9 of the speed)."""

LARGE_BYTES = 1 << 20
"""Operands that spread over more than this hardly come from a cache of one core's own."""


def _spread(nest: Nest, operand: Operand) -> int:
    """Elements from the first to the last that the nest reads of an operand; 0 where an extent is not known."""
    extents = {i: nest.counts[i].extent for i in operand.strides if i in nest.counts}
    strides = {i: stride_of(nest, operand, i) for i in extents}
    if any(e is None for e in extents.values()) or not all(isinstance(s, int) for s in strides.values()):
        return 0
    return 1 + sum(abs(known(strides[i])) * ((e or 1) - 1) for i, e in extents.items())


def constant(extent: isl.PwAff, domain: isl.Set) -> int | None:
    """The value of an extent that is the same for every block; None when it is not."""
    narrowed = extent.intersect_domain(domain)
    low, high = narrowed.min_val(), narrowed.max_val()
    return to_int(low) if low.is_int() and low.eq(high) else None


def microkernel_spec(
    scop: Scop,
    structure: NestLoops,
    call: KernelCall,
    packs: Mapping[str, PackCall],
    start: Expr | None,
    fused: Epilogue = NOTHING_FUSED,
) -> MicrokernelSpec:
    """What the generated microkernel of a structure computes, with the strides of packed copies where there are.
    `start`: the number that all elements start from; None: what is in the output."""
    nest, kernel, found = structure.nest, structure.kernel, structure.nest.contraction
    assert kernel is not None and found is not None
    rows = kernel.rows.iterator if kernel.rows is not None else None
    a, b = operands_of(structure)
    groups = grouping(structure)
    in_place = groups.in_place and "A" not in packs
    word = groups.product.group if in_place else 1

    def stride(role: str, operand: Operand, loop: Loop) -> int | None:
        if role in packs:
            return packs[role].stride(loop)
        if role == "A" and in_place:
            # In words; along the loop with the groups from one to the next.
            return known(stride_of(nest, operand, loop.iterator)) * groups.of(loop) // word
        return given(stride_of(nest, operand, loop.iterator))

    reductions = tuple(
        Reduction(constant(steps_of(groups, call, loop), call.domain), stride("A", a, loop), stride("B", b, loop))
        for loop in kernel.reductions
    ) + tuple(_within(scop, one, groups, of_left=a is found.left) for one in found.within)
    direct = _direct(found, groups, a, b)
    if groups.words > 1 and direct is not None:
        reductions += (Reduction(groups.words, 1, direct.between(groups.product.group)),)
    elif groups.words > 1:
        a_step, b_step = (packs[role].word_stride if role in packs else 1 for role in ("A", "B"))
        reductions += (Reduction(groups.words, a_step, b_step),)
    a_m = 0 if rows is None else packs["A"].width_stride if "A" in packs else given(stride_of(nest, a, rows))
    a_m = known(a_m) // word if in_place and a_m is not None else a_m
    c_m = 0 if rows is None else given(stride_of(nest, found.output, rows))
    size = found.element.bytes
    # Distances that depend on parameters are taken for large ones: a prefetch too many costs little.
    rows_ahead = ROWS_AHEAD if a_m is None or a_m * size >= PAGE_BYTES else 0
    window = found.windows(_columns(structure))
    large = "A" not in packs and _spread(nest, a) * a.element.bytes > LARGE_BYTES
    if a_m is not None and 0 < a_m * size < PAGE_BYTES and large:
        # Rows that follow one another are one stream, which the hardware runs ahead of up to the page's end only: the
        # next block's rows are asked for while this one's are used. 1.2 to 1.9 times as fast on 1x1 convolutions of
        # large images (Zen 5), within 1 % where the data come from a cache.
        rows_ahead = kernel.m * a_m
    blocks = [one.a_stride or 0 for one in reductions if one.b_table and not one.a_table]
    by_entries = bool(blocks) and blocks[0] > 0
    if by_entries:
        # Blocks follow one another; a call may use some of their rows.
        rows_ahead = blocks[0] * max(1, ENTRIES_BYTES // (blocks[0] * a.element.bytes * word))
    return MicrokernelSpec(
        dtype=found.element,
        m=kernel.m,
        n=kernel.n,
        a_m=a_m,
        c_m=c_m,
        reductions=reductions,
        beta=int(start is None),
        negate=found.negate,
        alpha=bool(found.scale),
        remainders=not _always_whole(structure, call),
        prefetch_rows=rows_ahead,
        prefetch_next=by_entries and kernel.m >= NEXT_ROWS and direct is None,
        prefetch_output=c_m is None or c_m * size >= PAGE_BYTES,
        epilogue=fused.lines,
        stores=fused.stores,
        epilogue_parameters=fused.parameters,
        product=groups.product,
        in_place=in_place,
        step=None if found.step is None else _step(found, a, start),
        window=window,
        scalar_b=window > 0 and b.strides[_columns(structure)] != 1,
        long=scop.long,
        direct=direct,
    )


def _within(scop: Scop, one: Within, groups: Grouping, *, of_left: bool) -> Reduction:
    """A reduction within an instance; `of_left`: A is the left operand."""
    strides, tables = (one.left, one.right), (one.left_table, one.right_table)
    types = [scop.arrays[table].element.c if table else "" for table in tables]
    (a, b), (a_table, b_table) = (strides, types) if of_left else (strides[::-1], types[::-1])
    a_step, b_step, group = given(a), given(b), groups.product.group if groups.within else 1
    if one.iterator == groups.within:  # of A the words of a step, of B as many rows as they have elements
        assert one.extent is not None and a_step == 1, "says `grouping`"
        rows = group * groups.words
        return Reduction(one.extent // rows, groups.words, None if b_step is None else b_step * rows)
    return Reduction(one.extent, None if a_step is None else a_step // group, b_step, a_table, b_table)


def _direct(found: Contraction, groups: Grouping, a: Operand, b: Operand) -> DirectReads | None:
    """How operands lie that are read where they are, and have other types than the sum."""
    if found.uniform or not found.within:
        return None
    grouped = next((one for one in found.within if one.iterator == groups.within), None)
    row = 0 if grouped is None else given(grouped.right if a is found.left else grouped.left)
    return DirectReads(a.element, b.element, row)


def _step(found: Contraction, a: Operand, start: Expr | None) -> Step:
    """The step of a contraction as C. Its operations have vectors (`model.contraction`)."""
    names = ("x", "y", "m") if a is found.left else ("y", "x", "m")
    assert found.step is not None
    text = Vectors(found.element, names.__getitem__).text(found.step)
    prologue = (math_prologue(found.element),) if uses_functions(text, found.element) else ()
    plain = scalar_text(found.step, names.__getitem__)
    if start is None:
        return Step(text, plain, prologue=prologue)
    number = scalar_text(start, names.__getitem__)
    return Step(text, plain, f"polydl_{found.element.name}_all({number})", number, prologue)


def steps_of(groups: Grouping, call: KernelCall, loop: Loop) -> isl.PwAff:
    """{ S_mk[…] -> [n] } steps of a reduction inside of a call."""
    extent, group = call.extent(loop), groups.of(loop)
    if group == 1:
        return extent
    return extent.add_constant_val(isl.value(group - 1)).scale_down_val(isl.value(group)).floor()


def _always_whole(structure: NestLoops, call: KernelCall) -> bool:
    """Whether every call has the full block."""
    kernel = structure.kernel
    assert kernel is not None
    rows = kernel.m == 1 if kernel.rows is None else constant(call.extent(kernel.rows), call.domain) == kernel.m
    return rows and constant(call.extent(kernel.columns), call.domain) == kernel.n


def _columns(structure: NestLoops) -> str:
    assert structure.kernel is not None
    return structure.kernel.columns.iterator


def operands_of(structure: NestLoops) -> tuple[Operand, Operand]:
    found = structure.nest.contraction
    assert found is not None
    operands = found.roles(_columns(structure))
    assert operands is not None
    return operands


def start_of(structure: NestLoops, group: Group | None, zeroing: Statement | None) -> Expr | None:
    """The number that the first call for a block starts from; None where it starts from what is in the output. What is
    fused in front of a sum is added to it at its end."""
    first = [] if group is None else [fused.statement for fused in group.before]
    if first and not structure.steps:
        return Const("0")
    bodies = [s.body for s in first or ([] if zeroing is None else [zeroing])]
    if len(bodies) != 1 or not isinstance(bodies[0], Assignment) or bodies[0].op != "=":
        return None
    return bodies[0].value if is_number(bodies[0].value) else None


def fused_epilogue(scop: Scop, structure: NestLoops, group: Group, *, before: bool, after: bool) -> Epilogue:
    """The epilogue of a structure's microkernel. Raises NotVectorised."""
    found = structure.nest.contraction
    assert found is not None
    if found.element not in VECTOR_TYPES and found.element is not I32:
        raise NotVectorised(f"sums of type {found.element}")
    if found.step is not None:
        if before and group.before and start_of(structure, group, None) is None:
            raise NotVectorised("steps that begin with something else than a number")
        before = False

    def stride(iterator: str, elements: Stride) -> Stride:
        sign = -1 if iterator in structure.nest.statements[0].descending else 1
        return multiplied(elements, structure.nest.counts[iterator].stride * sign)

    return epilogue(scop, structure, group, found.element, stride, before=before, after=after)
