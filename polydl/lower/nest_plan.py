"""The microkernel and the packed copies of one nest, and how calls of them are printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from polydl.base.errors import InputError
from polydl.dependences.nests import Nest
from polydl.kernels.copy import CopyPiece
from polydl.kernels.families import block_kernel, copy_function
from polydl.kernels.microkernel import Microkernel as GeneratedMicrokernel
from polydl.kernels.microkernel import MicrokernelSpec, Reduction, isa_prologue, parameters, prologues
from polydl.kernels.packing import PackLoop, PackRoutine, pack_prologue
from polydl.kernels.vector_text import NotVectorised
from polydl.lower.ahead import Ahead
from polydl.lower.ctree import Binary, Cast, Declare, Evaluate, Expr, If, Int, Invoke, Name, Node, Text, every, plus
from polydl.lower.epilogue import Epilogue, epilogue
from polydl.lower.instance import Place
from polydl.lower.packing_plan import PackCall, pack_call
from polydl.lower.scratch import Scratch
from polydl.model import isl
from polydl.model.contraction import Operand, Stride, known
from polydl.model.expr import Const, Load
from polydl.model.isl import to_int
from polydl.model.scop import Scop, Statement
from polydl.model.types import I32, ElementType
from polydl.rewrite.conditions import Group
from polydl.schedule.grouping import Grouping, grouping
from polydl.schedule.kernel_call import Edge, KernelCall, edge_rows, kernel_call
from polydl.schedule.structure import Loop, Structure
from polydl.target.isa import VECTOR_TYPES

PAGE_BYTES = 4096
"""Hardware prefetchers stop at the boundary of a (base) page."""


NOTHING_FUSED = Epilogue()

ROWS_AHEAD = 64
"""Elements of a row of A that are fetched ahead, where rows are a page or more apart."""

LARGE_BYTES = 1 << 20
"""Operands that spread over more than this hardly come from a cache of one core's own."""


@dataclass(frozen=True, slots=True)
class NestPlan:
    """Everything that a nest needs beside its loops."""

    call: KernelCall | None
    packs: tuple[PackCall, ...] = ()
    prologue: tuple[str, ...] = ()
    printers: Mapping[str, Callable[[Place], Node]] = field(default_factory=dict)
    """Per isl tuple name, what prints its instances."""
    thread_lines: tuple[Declare, ...] = ()
    ahead: tuple[Ahead, ...] = ()
    """Packs that a function of their own makes; the others are `packs`."""
    edge: Edge | None = None
    """Calls for the rows of blocks that are no boxes."""


def _stride(nest: Nest, operand: Operand, iterator: str) -> Stride:
    """Elements between neighbours along a counted loop (execution order, steps of one)."""
    factor = nest.counts[iterator].stride * (-1 if iterator in nest.statements[0].descending else 1)
    return _times(operand.strides[iterator], factor)


def _times(stride: Stride, factor: int) -> Stride:
    return stride * factor if isinstance(stride, int) else stride.times(factor)


def _given(stride: Stride) -> int | None:
    """A stride that is a constant of a generated function; None: an argument of it."""
    return stride if isinstance(stride, int) else None


def _spread(nest: Nest, operand: Operand) -> int:
    """Elements from the first to the last that the nest reads of an operand; 0 where an extent is not known."""
    extents = {i: nest.counts[i].extent for i in operand.strides if i in nest.counts}
    strides = {i: _stride(nest, operand, i) for i in extents}
    if any(e is None for e in extents.values()) or not all(isinstance(s, int) for s in strides.values()):
        return 0
    return 1 + sum(abs(known(strides[i])) * ((e or 1) - 1) for i, e in extents.items())


def _constant(extent: isl.PwAff, domain: isl.Set) -> int | None:
    """The value of an extent that is the same for every block; None when it is not."""
    narrowed = extent.intersect_domain(domain)
    low, high = narrowed.min_val(), narrowed.max_val()
    return to_int(low) if low.is_int() and low.eq(high) else None


def microkernel_spec(
    structure: Structure, call: KernelCall, packs: Mapping[str, PackCall], beta: int, fused: Epilogue = NOTHING_FUSED
) -> MicrokernelSpec:
    """What the generated microkernel of a structure computes, with the strides of packed copies where there are."""
    nest, kernel, found = structure.nest, structure.kernel, structure.nest.contraction
    assert kernel is not None and found is not None
    rows = kernel.rows.iterator if kernel.rows is not None else None
    a, b = _operands(structure)
    groups = grouping(structure)
    in_place = groups.in_place and "A" not in packs
    word = groups.product.group if in_place else 1

    def stride(role: str, operand: Operand, loop: Loop) -> int | None:
        if role in packs:
            return packs[role].stride(loop)
        if role == "A" and in_place:
            # In words; along the loop with the groups from one to the next.
            return known(_stride(nest, operand, loop.iterator)) * groups.of(loop) // word
        return _given(_stride(nest, operand, loop.iterator))

    reductions = tuple(
        Reduction(_constant(_steps(groups, call, loop), call.domain), stride("A", a, loop), stride("B", b, loop))
        for loop in kernel.reductions
    )
    a_m = 0 if rows is None else 1 if "A" in packs else _given(_stride(nest, a, rows))
    a_m = known(a_m) // word if in_place and a_m is not None else a_m
    c_m = 0 if rows is None else _given(_stride(nest, found.output, rows))
    size = found.element.bytes
    # Distances that depend on parameters are taken for large ones: a prefetch too many costs little.
    rows_ahead = ROWS_AHEAD if a_m is None or a_m * size >= PAGE_BYTES else 0
    large = "A" not in packs and _spread(nest, a) * a.element.bytes > LARGE_BYTES
    if a_m is not None and 0 < a_m * size < PAGE_BYTES and large:
        # Rows that follow one another are one stream, which the hardware runs ahead of up to the page's end only: the
        # next block's rows are asked for while this one's are used. 1.2 to 1.9 times as fast on 1x1 convolutions of
        # large images (Zen 5), within 1 % where the data come from a cache.
        rows_ahead = kernel.m * a_m
    return MicrokernelSpec(
        dtype=found.element,
        m=kernel.m,
        n=kernel.n,
        a_m=a_m,
        c_m=c_m,
        reductions=reductions,
        beta=beta,
        negate=found.negate,
        alpha=bool(found.scale),
        remainders=not _always_whole(structure, call),
        prefetch_rows=rows_ahead,
        prefetch_output=c_m is None or c_m * size >= PAGE_BYTES,
        epilogue=fused.lines,
        stores=fused.stores,
        epilogue_parameters=fused.parameters,
        product=groups.product,
        in_place=in_place,
    )


def _steps(groups: Grouping, call: KernelCall, loop: Loop) -> isl.PwAff:
    """{ S_mk[…] -> [n] } steps of a reduction inside of a call."""
    extent, group = call.extent(loop), groups.of(loop)
    if group == 1:
        return extent
    return extent.add_constant_val(isl.value(group - 1)).scale_down_val(isl.value(group)).floor()


def _always_whole(structure: Structure, call: KernelCall) -> bool:
    """Whether every call has the full block."""
    kernel = structure.kernel
    assert kernel is not None
    rows = kernel.m == 1 if kernel.rows is None else _constant(call.extent(kernel.rows), call.domain) == kernel.m
    return rows and _constant(call.extent(kernel.columns), call.domain) == kernel.n


def _columns(structure: Structure) -> str:
    assert structure.kernel is not None
    return structure.kernel.columns.iterator


def _operands(structure: Structure) -> tuple[Operand, Operand]:
    found = structure.nest.contraction
    assert found is not None
    operands = found.roles(_columns(structure))
    assert operands is not None
    return operands


@dataclass(frozen=True, slots=True)
class _Versions:
    """The microkernels of a nest: the first call for a block may start from zero, the last one may finish it."""

    first: GeneratedMicrokernel
    between: GeneratedMicrokernel
    last: GeneratedMicrokernel
    fused_first: Epilogue
    fused_last: Epilogue
    only: GeneratedMicrokernel | None = None
    """For a block that has one call at some sizes and several at others; None: `first` does."""
    fused_only: Epilogue = NOTHING_FUSED

    def distinct(self, *, repeats: bool) -> list[GeneratedMicrokernel]:
        """Those that are called, each once."""
        called = [self.first, self.between, self.last] if repeats else [self.first]
        called += [] if self.only is None else [self.only]
        return list({m.name: m for m in called}.values())


def _versions(
    scop: Scop | None,
    structure: Structure,
    call: KernelCall,
    packs: Mapping[str, PackCall],
    zeroed: bool,
    group: Group | None,
) -> _Versions:
    repeats = _repeats(structure)
    family, use, block = block_kernel(structure)

    def made(*, first: bool, last: bool) -> tuple[GeneratedMicrokernel, Epilogue]:
        fused = NOTHING_FUSED
        if group is not None and scop is not None:
            fused = fused_epilogue(scop, structure, group, before=first, after=last)
        starts = first and (zeroed or (group is not None and bool(group.before)))
        spec = microkernel_spec(structure, call, packs, 0 if starts else 1, fused)
        return family.emit(replace(use, spec=spec), block), fused

    first, fused_first = made(first=True, last=not repeats)
    between, _ = made(first=False, last=False)
    last, fused_last = made(first=False, last=True)
    if not repeats or _repeats_always(structure) or last.name == between.name:
        return _Versions(first, between, last, fused_first, fused_last)
    only, fused_only = made(first=True, last=True)
    return _Versions(first, between, last, fused_first, fused_last, only, fused_only)


def fused_epilogue(scop: Scop, structure: Structure, group: Group, *, before: bool, after: bool) -> Epilogue:
    """The epilogue of a structure's microkernel. Raises NotVectorised."""
    found = structure.nest.contraction
    assert found is not None
    if found.element not in VECTOR_TYPES and found.element is not I32:
        raise NotVectorised(f"sums of type {found.element}")

    def stride(iterator: str, elements: Stride) -> Stride:
        sign = -1 if iterator in structure.nest.statements[0].descending else 1
        return _times(elements, structure.nest.counts[iterator].stride * sign)

    return epilogue(scop, structure, group, found.element, stride, before=before, after=after)


def obstacle(scop: Scop, structure: Structure, group: Group) -> str | None:
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


def plan_nest(
    structure: Structure,
    scratch: Scratch,
    *,
    zeroed: bool = False,
    scop: Scop | None = None,
    group: Group | None = None,
) -> NestPlan:
    """Microkernel and packs of a structure; nothing for one without a microkernel.

    zeroed=True: the output holds nothing yet, and the first call for each block starts from zero (beta = 0).
    `group` (with its scop): what is fused into the nest. Raises NotVectorised.
    """
    kernel, found = structure.kernel, structure.nest.contraction
    if kernel is None or found is None:
        return NestPlan(None)
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
        prologue, printers = ((), {}) if edge is None else _rows(edge, element)
        return NestPlan(call, (), prologue, printers, edge=edge)
    packs = {p.operand: pack_call(structure, p, call) for p in structure.packs}
    versions = _versions(scop, structure, call, packs, zeroed, group)
    needed = versions.distinct(repeats=_repeats(structure))
    product = versions.between.spec.product
    word = product.word(element)
    texts = list(prologues(versions.between.spec))
    converts = any(p.operand.element is not word for p in packs.values())
    texts += [pack_prologue(word)] if packs and word in VECTOR_TYPES else []
    texts += [pack_prologue(I32)] if converts else []
    texts += [*versions.fused_first.prologue, *versions.fused_last.prologue, *(m.text for m in needed)]
    buffers = {r: f"polydl_{p.name}" if p.pack.function else scratch.add(p, word) for r, p in packs.items()}
    printers = {call.name: _call_printer(structure, call, versions, packs, buffers)}
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
        more, row_printers = _rows(edge, element)
        texts += more
        printers |= row_printers
    return NestPlan(call, now, tuple(texts), printers, thread_lines, tuple(ahead), edge)


def _rows(edge: Edge, element: ElementType) -> tuple[tuple[str, ...], dict[str, Callable[[Place], Node]]]:
    """The microkernel for single rows: its text, and what prints its calls."""
    versions = _versions(None, edge.structure, edge.call, {}, False, None)
    printer = _call_printer(edge.structure, edge.call, versions, {}, {})
    return (isa_prologue(element), versions.between.text), {edge.call.name: printer}


def _copy(structure: Structure, role: str, pack: PackCall, element: ElementType) -> CopyPiece:
    nest, operand = structure.nest, pack.operand
    width = None if pack.width is None else pack.width.iterator
    loops = tuple(
        PackLoop(_constant(extent, pack.domain), _given(_stride(nest, operand, loop.iterator)))
        for loop, extent in zip(pack.reductions, pack.extents, strict=False)
    )
    stride, groups = 1 if width is None else _given(_stride(nest, operand, width)), pack.grouping
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
    )


def _copy_printer(structure: Structure, pack: PackCall, routine: PackRoutine, buffer: str) -> Callable[[Place], Node]:
    statement = structure.nest.statements[0]
    loops = (*structure.loops[: pack.depth], *pack.panels)
    relation = statement.accesses[pack.operand.access].relation.as_pw_multi_aff()

    def print_copy(at: Place) -> Node:
        width = at.affine(pack.extents[-1]) if pack.width is not None else Int(1)
        source = at.address(pack.operand.array, relation.pullback_pw_multi_aff(pack.corner))
        run_time = _stride_at(at, structure.nest, pack.operand, pack.width) if pack.width is not None else []
        for extent, loop, spec in zip(pack.extents, pack.reductions, routine.spec.loops, strict=False):
            run_time += [at.affine(extent)] if spec.extent is None else []
            run_time += _stride_at(at, structure.nest, pack.operand, loop)
        target = plus(Name(buffer), at.affine(pack.offset(pack.domain, loops)))
        return Evaluate(Invoke(routine.name, (width, source, target, *run_time)))

    return print_copy


def _stride_at(at: Place, nest: Nest, operand: Operand, loop: Loop) -> list[Expr]:
    """The argument for a stride that a generated function is not made for; nothing for one that it is made for."""
    stride = _stride(nest, operand, loop.iterator)
    return [] if isinstance(stride, int) else [at.distance(stride)]


def _repeated(structure: Structure) -> list[int]:
    """Positions of the loops around the calls that come back to the same block of the output."""
    found = structure.nest.contraction
    assert found is not None
    return [d for d, loop in enumerate(structure.loops) if found.output.strides[loop.iterator] == 0]


def _repetitions(structure: Structure, call: KernelCall) -> list[isl.PwAff]:
    """{ S_mk[t…] -> [t] } the loops around the calls that come back to the same block of the output."""
    counters = (isl.coordinate(call.domain, d) for d in _repeated(structure))
    return [isl.PwAff.from_aff(counter).intersect_domain(call.domain) for counter in counters]


def _last_repetitions(structure: Structure, call: KernelCall) -> list[isl.PwAff]:
    """{ S_mk[t…] -> [t] } the values of `_repetitions` in the last call for a block."""
    repeated = _repeated(structure)
    kept = (d for d in range(len(structure.loops)) if d not in repeated)
    same = isl.agree(isl.Map.from_domain_and_range(call.domain, call.domain), kept)
    last = isl.components(same.lexmax_pw_multi_aff())
    return [last[d] for d in repeated]


def _repeats(structure: Structure) -> bool:
    """Whether a block of the output is visited by more than one call, at some sizes."""
    loops = (structure.loops[position] for position in _repeated(structure))
    extents = ((structure.nest.counts[i.iterator].extent if i.within is None else i.within, i.step) for i in loops)
    return any(extent is None or extent > step for extent, step in extents)


def _repeats_always(structure: Structure) -> bool:
    """Whether a block of the output is visited by more than one call, at all sizes."""
    if any(isl.involved_parameters(statement.domain) for statement in structure.statements):
        return False
    return _repeats(structure)


def _factor(factor: Const | Load, at: Place, statement: Statement) -> Expr:
    """A scale factor."""
    if isinstance(factor, Const):
        return Text(factor.text)
    access = statement.accesses[factor.access]
    return at.element(access.array, access.relation.as_pw_multi_aff())


def _call_printer(
    structure: Structure,
    call: KernelCall,
    versions: _Versions,
    packs: Mapping[str, PackCall],
    buffers: Mapping[str, str],
) -> Callable[[Place], Node]:
    kernel, found, statement = structure.kernel, structure.nest.contraction, structure.nest.statements[0]
    assert kernel is not None and found is not None
    a, b = _operands(structure)
    groups, spec = grouping(structure), versions.between.spec

    def address(at: Place, role: str, operand: Operand) -> Expr:
        if role in packs:
            return plus(Name(buffers[role]), at.affine(packs[role].offset(call.domain, structure.loops)))
        relation = statement.accesses[operand.access].relation.as_pw_multi_aff()
        found_at = at.address(operand.array, relation.pullback_pw_multi_aff(call.corner))
        return Cast(parameters(spec)[2].ctype, found_at) if role == "A" and spec.in_place else found_at

    def print_call(at: Place) -> Node:
        m = at.affine(call.extent(kernel.rows)) if kernel.rows is not None else Int(1)
        n = at.affine(call.extent(kernel.columns))
        pointers = [address(at, role, operand) for role, operand in (("A", a), ("B", b), ("C", found.output))]
        nest = structure.nest
        run_time = [] if kernel.rows is None or "A" in packs else _stride_at(at, nest, a, kernel.rows)
        run_time += [] if kernel.rows is None else _stride_at(at, nest, found.output, kernel.rows)
        for loop, reduction in zip(kernel.reductions, spec.reductions, strict=True):
            run_time += [at.affine(_steps(groups, call, loop))] if reduction.extent is None else []
            for role, operand in (("A", a), ("B", b)):
                run_time += [] if role in packs else _stride_at(at, nest, operand, loop)
        factors = [_factor(f, at, statement) for f in found.scale]
        scale = [reduce(lambda left, right: Binary("*", left, right), factors)] if factors else []
        arguments = [m, n, *pointers, *run_time, *scale]

        def called(which: GeneratedMicrokernel, fused: Epilogue = NOTHING_FUSED) -> Node:
            return Evaluate(Invoke(which.name, (*arguments, *fused.arguments(at, call))))

        again = [at.affine(t) for t in _repetitions(structure, call)] if _repeats(structure) else []
        fresh = tuple(Binary("==", t, Int(0)) for t in again if t != Int(0))
        finishes = versions.last.name != versions.between.name and bool(again)
        ends = [at.affine(t) for t in _last_repetitions(structure, call)] if finishes else []
        done = tuple(Binary("==", t, end) for t, end in zip(again, ends, strict=False) if t != end)
        cases: list[tuple[tuple[Binary, ...], Node]] = []
        if versions.only is not None:
            cases.append(((*fresh, *done), called(versions.only, versions.fused_only)))
        if not fresh or versions.first.name != versions.between.name:
            cases.append((fresh, called(versions.first, versions.fused_first)))
        if finishes:
            cases.append((done, called(versions.last, versions.fused_last)))
        return _chosen([*cases, ((), called(versions.between))])

    return print_call


def _chosen(cases: Sequence[tuple[tuple[Binary, ...], Node]]) -> Node:
    """The first of the cases whose conditions hold; the last one has none."""
    (conditions, node), *others = cases
    return If(every(conditions), node, _chosen(others), short=True) if conditions else node
