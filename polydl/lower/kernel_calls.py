"""The microkernels that a nest calls: for the first, the last and other calls of a block; and how calls are printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from polydl.base.records import dataclass
from polydl.dependences.nests import Nest
from polydl.kernels.families import block_kernel
from polydl.kernels.microkernel import Microkernel as GeneratedMicrokernel
from polydl.kernels.microkernel import parameters
from polydl.lower.ctree import Binary, Cast, Evaluate, Expr, If, Int, Invoke, Name, Node, Text, every, plus
from polydl.lower.epilogue import Epilogue
from polydl.lower.instance import Place
from polydl.lower.kernel_spec import (
    NOTHING_FUSED,
    fused_epilogue,
    microkernel_spec,
    operands_of,
    start_of,
    steps_of,
)
from polydl.lower.packing_plan import PackCall
from polydl.lower.segment_arguments import segment_arguments
from polydl.model import isl
from polydl.model.contraction import Operand, first_element
from polydl.model.expr import Const, Load
from polydl.model.scop import Scop, Statement
from polydl.schedule.fusion_conditions import Group
from polydl.schedule.grouping import grouping
from polydl.schedule.kernel_call import KernelCall
from polydl.schedule.loops import Loop, NestLoops, stride_of


@dataclass(frozen=True, slots=True)
class Versions:
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


def versions_of(
    scop: Scop,
    structure: NestLoops,
    call: KernelCall,
    packs: Mapping[str, PackCall],
    zeroing: Statement | None,
    group: Group | None,
) -> Versions:
    repeats = visits_again(structure)
    family, use, block = block_kernel(structure)

    def made(*, first: bool, last: bool) -> tuple[GeneratedMicrokernel, Epilogue]:
        fused = NOTHING_FUSED
        if group is not None:
            fused = fused_epilogue(scop, structure, group, before=first, after=last)
        start = start_of(structure, group, zeroing) if first else None
        spec = microkernel_spec(scop, structure, call, packs, start, fused)
        return family.emit(replace(use, spec=spec), block), fused

    first, fused_first = made(first=True, last=not repeats)
    between, _ = made(first=False, last=False)
    last, fused_last = made(first=False, last=True)
    if not repeats or _visits_always(structure) or last.name == between.name:
        return Versions(first, between, last, fused_first, fused_last)
    only, fused_only = made(first=True, last=True)
    return Versions(first, between, last, fused_first, fused_last, only, fused_only)


def stride_at(at: Place, nest: Nest, operand: Operand, loop: Loop) -> list[Expr]:
    """The argument for a stride that a generated function is not made for; nothing for one that it is made for."""
    stride = stride_of(nest, operand, loop.iterator)
    return [] if isinstance(stride, int) else [at.distance(stride)]


def _repeated(structure: NestLoops) -> list[int]:
    """Positions of the loops around the calls that come back to the same block of the output."""
    found = structure.nest.contraction
    assert found is not None
    return [d for d, loop in enumerate(structure.loops) if found.output.strides[loop.iterator] == 0]


def _repetitions(structure: NestLoops, call: KernelCall) -> list[isl.PwAff]:
    """{ S_mk[t…] -> [t] } the loops around the calls that come back to the same block of the output."""
    counters = (isl.coordinate(call.domain, d) for d in _repeated(structure))
    return [isl.PwAff.from_aff(counter).intersect_domain(call.domain) for counter in counters]


def _last_repetitions(structure: NestLoops, call: KernelCall) -> list[isl.PwAff]:
    """{ S_mk[t…] -> [t] } the values of `_repetitions` in the last call for a block."""
    repeated = _repeated(structure)
    kept = (d for d in range(len(structure.loops)) if d not in repeated)
    same = isl.agree(isl.Map.from_domain_and_range(call.domain, call.domain), kept)
    last = isl.components(same.lexmax_pw_multi_aff())
    return [last[d] for d in repeated]


def visits_again(structure: NestLoops) -> bool:
    """Whether a block of the output is visited by more than one call, at some sizes."""
    loops = (structure.loops[position] for position in _repeated(structure))
    extents = ((structure.nest.counts[i.iterator].extent if i.within is None else i.within, i.step) for i in loops)
    return any(extent is None or extent > step for extent, step in extents)


def _visits_always(structure: NestLoops) -> bool:
    """Whether a block of the output is visited by more than one call, at all sizes."""
    if any(isl.involved_parameters(statement.domain) for statement in structure.statements):
        return False
    return visits_again(structure)


def _factor(factor: Const | Load, at: Place, statement: Statement) -> Expr:
    """A scale factor."""
    if isinstance(factor, Const):
        return Text(factor.text)
    access = statement.accesses[factor.access]
    return at.element(access.array, access.relation.as_pw_multi_aff())


def call_printer(
    structure: NestLoops,
    call: KernelCall,
    versions: Versions,
    packs: Mapping[str, PackCall],
    buffers: Mapping[str, str],
) -> Callable[[Place], Node]:
    kernel, found, statement = structure.kernel, structure.nest.contraction, structure.nest.statements[0]
    assert kernel is not None and found is not None
    a, b = operands_of(structure)
    groups, spec = grouping(structure), versions.between.spec
    segment = segment_arguments(statement, found, call.corner, a, groups)

    def address(at: Place, role: str, operand: Operand) -> Expr:
        if role in packs:
            return plus(Name(buffers[role]), at.affine(packs[role].offset(call.domain, structure.loops)))
        relation = first_element(statement, operand.access).as_pw_multi_aff()
        found_at = at.address(operand.array, relation.pullback_pw_multi_aff(call.corner))
        if segment is not None and operand is not found.output:
            found_at = plus(found_at, segment.start(operand, at))
        return Cast(parameters(spec)[2].ctype, found_at) if role == "A" and spec.in_place else found_at

    def print_call(at: Place) -> Node:
        m = at.affine(call.extent(kernel.rows)) if kernel.rows is not None else Int(1)
        n = at.affine(call.extent(kernel.columns))
        pointers = [address(at, role, operand) for role, operand in (("A", a), ("B", b), ("C", found.output))]
        nest = structure.nest
        run_time = [] if kernel.rows is None or "A" in packs else stride_at(at, nest, a, kernel.rows)
        run_time += [] if kernel.rows is None else stride_at(at, nest, found.output, kernel.rows)
        # Behind the loops come those within a segment, or within a step.
        for loop, reduction in zip(kernel.reductions, spec.reductions, strict=False):
            run_time += [at.affine(steps_of(groups, call, loop))] if reduction.extent is None else []
            for role, operand in (("A", a), ("B", b)):
                run_time += [] if role in packs else stride_at(at, nest, operand, loop)
        run_time += [] if segment is None else [*segment.strides(at), *segment.tables]
        factors = [_factor(f, at, statement) for f in found.scale]
        scale = [reduce(lambda left, right: Binary("*", left, right), factors)] if factors else []
        arguments = [m, n, *pointers, *run_time, *scale]

        def called(which: GeneratedMicrokernel, fused: Epilogue = NOTHING_FUSED) -> Node:
            made = Evaluate(Invoke(which.name, (*arguments, *fused.arguments(at, call))))
            return made if segment is None else segment.around(made, at)

        again = [at.affine(t) for t in _repetitions(structure, call)] if visits_again(structure) else []
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
