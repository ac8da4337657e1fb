"""From a scop and one structure per nest to C: the code that replaces the region and the helpers it needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from polydl.codegen.ast import Names, Writer
from polydl.codegen.cexpr import HELPER_TEXT, Helpers
from polydl.codegen.microkernel import MicrokernelSpec, Reduction, isa_prologue
from polydl.codegen.microkernel import generate as generate_microkernel
from polydl.codegen.tree import KernelCall, nest_tree
from polydl.model.contraction import Contraction, Operand
from polydl.model.isl import quota, to_int
from polydl.model.scop import Scop, Storage
from polydl.variants.nests import Nest
from polydl.variants.structure import Structure

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_INT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Generated:
    """C text of a variant."""

    prologue: tuple[str, ...]
    """File-scope pieces (includes, helper functions, microkernels), in order; equal pieces are needed once."""
    region: str
    """Statements that replace the scop's region, without a newline at the end."""


def _names(scop: Scop) -> Names:
    """Names that no identifier of the source has."""
    taken = set(_IDENTIFIER.findall(scop.source.text))

    def free(stem: str, pattern: str) -> str:
        number = 0
        while any(re.fullmatch(pattern.format(stem=stem + (str(number) if number else "")), t) for t in taken):
            number += 1
        return stem + (str(number) if number else "")

    iterator = next(s for s in ("c", "t", "polydl_c") if not any(re.fullmatch(s + r"\d+", t) for t in taken))
    return Names(iterator, free("polydl", r"{stem}_\w*") + "_", _integer_type(scop))


def _integer_type(scop: Scop) -> str:
    """`int` where every subscript, linear address and loop value stays within it, else `long`."""
    for array in scop.arrays.values():
        elements = 1
        for extent in array.extents:
            if extent is None:
                continue
            if not extent.is_cst():
                return "long"
            elements *= max(to_int(extent.max_val()), 1)
        if elements > _INT_MAX or (not array.is_scalar and array.extents[0] is None):
            return "long"
    for statement in scop.statements:
        for d in range(statement.depth):
            for value in (statement.domain.dim_max_val(d), statement.domain.dim_min_val(d)):
                if not value.is_int() or abs(to_int(value)) > _INT_MAX // 4:
                    return "long"
    return "int"


def _stride(nest: Nest, operand: Operand, iterator: str) -> int:
    """Elements between neighbours along a counted loop (execution order, steps of one)."""
    sign = -1 if iterator in nest.statements[0].descending else 1
    return operand.strides[iterator] * nest.counts[iterator].stride * sign


def microkernel_spec(structure: Structure, call: KernelCall) -> MicrokernelSpec:
    """What the generated microkernel of a structure must compute."""
    nest, kernel = structure.nest, structure.kernel
    assert kernel is not None
    found = nest.contraction
    assert found is not None
    operands = found.roles(kernel.columns)
    assert operands is not None
    a, b = operands
    reductions = []
    first = len(structure.inside) - len(kernel.reduce)
    for loop, extent in zip(structure.inside[first:], call.extents[first:], strict=True):
        value = extent.intersect_domain(call.domain).max_val() if _constant(extent, call.domain) else None
        reductions.append(
            Reduction(
                None if value is None else to_int(value),
                _stride(nest, a, loop.iterator),
                _stride(nest, b, loop.iterator),
            )
        )
    rows = _row_iterator(structure)
    return MicrokernelSpec(
        dtype=found.dtype,
        m=kernel.m,
        n=kernel.n,
        a_m=_stride(nest, a, rows) if rows else 0,
        c_m=_stride(nest, found.output, rows) if rows else 0,
        reductions=tuple(reductions),
        beta=1,
        negate=found.negate,
    )


def _row_iterator(structure: Structure) -> str | None:
    kernel = structure.kernel
    return None if kernel is None or kernel.rows is None else structure.inside[0].iterator


def _constant(extent: isl.PwAff, domain: isl.Set) -> bool:
    narrowed = extent.intersect_domain(domain)
    low, high = narrowed.min_val(), narrowed.max_val()
    return bool(low.is_int() and low.eq(high))


def _call_text(
    structure: Structure, found: Contraction, spec: MicrokernelSpec, name: str
) -> Callable[[KernelCall, Callable[[int], str], list[str]], str]:
    def text(call: KernelCall, address: Callable[[int], str], extents: list[str]) -> str:
        kernel = structure.kernel
        assert kernel is not None
        operands = found.roles(kernel.columns)
        assert operands is not None
        m = extents[0] if kernel.rows is not None else "1"
        n = extents[1] if kernel.rows is not None else extents[0]
        first = len(structure.inside) - len(kernel.reduce)
        run_time = [e for e, r in zip(extents[first:], spec.reductions, strict=True) if r.extent is None]
        pointers = [address(operands[0].access), address(operands[1].access), address(found.output.access)]
        return f"{name}({', '.join([m, n, *pointers, *run_time])});"

    return text


def generate(scop: Scop, structures: Sequence[Structure]) -> Generated:
    """C text that runs the nests one after the other, each in the order of its structure.

    Raises QuotaExceeded. Assumes that the structures are legal.
    """
    names = _names(scop)
    helpers = Helpers(names.prefix, set())
    prologue: list[str] = []
    lines: list[str] = []
    base = _indentation(scop)
    for array in scop.arrays.values():
        if array.storage is Storage.REGION:
            lines.append(f"  {array.declaration};")
    with quota("code generation"):
        for structure in structures:
            part = nest_tree(structure)
            calls = {}
            if part.call is not None and not part.call.domain.is_empty():
                found = structure.nest.contraction
                assert found is not None
                spec = microkernel_spec(structure, part.call)
                kernel = generate_microkernel(spec)
                prologue += [isa_prologue(spec.dtype), kernel.text]
                calls[part.call.name] = (part.call, _call_text(structure, found, spec, kernel.name))
            lines += Writer(scop, names, helpers, calls).write(part.tree, 1)
    for helper in sorted(helpers.used):
        prologue.append(HELPER_TEXT[helper].format(type=names.integer, prefix=names.prefix))
    text = "\n".join(base + line if line.strip() and not line.startswith("#") else line for line in ["{", *lines, "}"])
    return Generated(tuple(_reprefix(p, names) for p in dict.fromkeys(prologue)), _reprefix(text, names))


def _reprefix(text: str, names: Names) -> str:
    """Use the free prefix in text that was written with the reserved one."""
    stem = names.prefix[:-1]
    if stem == "polydl":
        return text
    return re.sub(r"\b(_*)polydl_", rf"\1{stem}_", re.sub(r"\b(_*)POLYDL_", rf"\1{stem.upper()}_", text))


def _indentation(scop: Scop) -> str:
    """White space in front of the region's first line of code."""
    for line in scop.source.text[scop.region.start : scop.region.end].splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            return line[: len(line) - len(line.lstrip())]
    return ""


def merged(pieces: Sequence[Generated]) -> Mapping[str, None]:
    """The prologue pieces of several scops of one file, each once, in order."""
    return dict.fromkeys(p for g in pieces for p in g.prologue)
