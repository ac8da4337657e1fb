"""What one nest needs beside its schedule tree: microkernel, packed copies, and how their calls are printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import islpy as isl

from polydl.codegen.ast import Instance
from polydl.codegen.kernel_call import KernelCall, kernel_call
from polydl.codegen.microkernel import MicrokernelSpec, Reduction, isa_prologue
from polydl.codegen.microkernel import generate as generate_microkernel
from polydl.codegen.packing_plan import PackCall, pack_call
from polydl.model.contraction import Operand
from polydl.model.isl import to_int
from polydl.variants.nests import Nest
from polydl.variants.structure import Structure


@dataclass(slots=True)
class Scratch:
    """The packed copies of a region: one allocation, kept by the calling thread, shared part first."""

    buffers: list[tuple[str, PackCall, str]] = field(default_factory=list)
    """(C name, pack, element type)."""

    def add(self, pack: PackCall, ctype: str) -> str:
        """Reserve a buffer; returns its C name."""
        name = f"polydl_{pack.name}"
        self.buffers.append((name, pack, ctype))
        return name


@dataclass(frozen=True, slots=True)
class NestPlan:
    """Everything that is printed for a nest beside its loops."""

    call: KernelCall | None
    packs: tuple[PackCall, ...] = ()
    prologue: tuple[str, ...] = ()
    printers: Mapping[str, Callable[[Instance], str]] = field(default_factory=dict)
    """Per isl tuple name, what prints its instances."""
    thread_lines: tuple[str, ...] = ()


def _stride(nest: Nest, operand: Operand, iterator: str) -> int:
    """Elements between neighbours along a counted loop (execution order, steps of one)."""
    sign = -1 if iterator in nest.statements[0].descending else 1
    return operand.strides[iterator] * nest.counts[iterator].stride * sign


def _constant(extent: isl.PwAff, domain: isl.Set) -> int | None:
    """The value of an extent that is the same for every block; None when it is not."""
    narrowed = extent.intersect_domain(domain)
    low, high = narrowed.min_val(), narrowed.max_val()
    return to_int(low) if low.is_int() and low.eq(high) else None


def microkernel_spec(structure: Structure, call: KernelCall, packs: Mapping[str, PackCall]) -> MicrokernelSpec:
    """What the generated microkernel of a structure computes, with the strides of packed copies where there are."""
    nest, kernel, found = structure.nest, structure.kernel, structure.nest.contraction
    assert kernel is not None and found is not None
    first = len(structure.inside) - len(kernel.reduce)
    rows = structure.inside[0].iterator if kernel.rows is not None else None
    a, b = _operands(structure)

    def stride(role: str, operand: Operand, index: int) -> int:
        loop = structure.inside[index]
        return packs[role].stride(loop) if role in packs else _stride(nest, operand, loop.iterator)

    reductions = tuple(
        Reduction(_constant(call.extents[i], call.domain), stride("A", a, i), stride("B", b, i))
        for i in range(first, len(structure.inside))
    )
    a_m = 0 if rows is None else 1 if "A" in packs else _stride(nest, a, rows)
    c_m = 0 if rows is None else _stride(nest, found.output, rows)
    return MicrokernelSpec(
        dtype="double" if found.dtype == "double" else "float",
        m=kernel.m,
        n=kernel.n,
        a_m=a_m,
        c_m=c_m,
        reductions=reductions,
        beta=1,
        negate=found.negate,
    )


def _operands(structure: Structure) -> tuple[Operand, Operand]:
    kernel, found = structure.kernel, structure.nest.contraction
    assert kernel is not None and found is not None
    columns = structure.inside[1 if kernel.rows is not None else 0].iterator
    operands = found.roles(columns)
    assert operands is not None
    return operands


def plan_nest(structure: Structure, scratch: Scratch) -> NestPlan:
    """Microkernel and packs of a structure; nothing for one without a microkernel."""
    kernel, found = structure.kernel, structure.nest.contraction
    if kernel is None or found is None:
        return NestPlan(None)
    call = kernel_call(structure, structure.nest.statements[0])
    if call.domain.is_empty():
        return NestPlan(call)
    packs: dict[str, PackCall] = {}
    spec = microkernel_spec(structure, call, packs)
    made = generate_microkernel(spec)
    first = len(structure.inside) - len(kernel.reduce)
    a, b = _operands(structure)
    statement = structure.nest.statements[0]

    def print_call(at: Instance) -> str:
        m = at.affine(call.extents[0]) if kernel.rows is not None else "1"
        n = at.affine(call.extents[first - 1])
        pointers = [
            f"&{at.element(o.array, statement.accesses[o.access].relation.as_pw_multi_aff().pullback_pw_multi_aff(call.corner))}"
            for o in (a, b, found.output)
        ]
        run_time = [
            at.affine(e) for e, r in zip(call.extents[first:], spec.reductions, strict=True) if r.extent is None
        ]
        return f"{made.name}({', '.join([m, n, *pointers, *run_time])});"

    return NestPlan(call, (), (isa_prologue(spec.dtype), made.text), {call.name: print_call})
