"""The slow exact twin of a microkernel: plain loops with the same signature, which tests hold it equal to."""

from __future__ import annotations

from polydl.kernels import microkernel
from polydl.kernels.microkernel_spec import MicrokernelSpec
from polydl.model.types import I8, I16, I32, U8, U32


def reference_name(spec: MicrokernelSpec) -> str:
    """C name of the twin."""
    return microkernel.generate(spec).name.replace("polydl_mk_", "polydl_ref_", 1)


def reference(spec: MicrokernelSpec) -> str:
    """C text of `reference_name(spec)`: same arguments, same result for data on which every sum is exact.

    Needs <stddef.h>. Raises ValueError for a specification with an epilogue.
    """
    head = f"static inline __attribute__((unused)) void {reference_name(spec)}({microkernel.signature(spec)})"
    return f"/* Plain loops: what {microkernel.generate(spec).name} computes. */\n{head}\n{{\n{loops(spec)}}}\n"


def loops(spec: MicrokernelSpec) -> str:
    """C statements in terms of a microkernel's parameters that compute what it does; those on bf16 need the functions
    of `packing.pack_prologue` for words.

    Raises ValueError for a specification with an epilogue, whose vector statements have no scalar form.
    """
    if spec.epilogue:
        raise ValueError("an epilogue is written for vectors and has no scalar twin")
    return (
        microkernel.environment()
        .get_template("reference.c.j2")
        .render(
            loops=microkernel.plain_loops(spec),
            ctype=U32.c if spec.dtype is I32 else spec.dtype.c,
            start=_start(spec),
            added=_added,
            spec=spec,
            along=microkernel.along_text(spec),
            a_m=microkernel.stride_text(spec.a_m, "a_m"),
            c_m=microkernel.stride_text(spec.c_m, "c_m"),
            result=_result(spec),
        )
    )


def _start(spec: MicrokernelSpec) -> str:
    """C expression of what the sum starts from."""
    if spec.step is not None:
        return spec.step.plain_start or f"C[i * {microkernel.stride_text(spec.c_m, 'c_m')} + j]"
    behind = microkernel.start_text(spec)
    return f"B[j + {behind}]" if behind else "0"


def _added(spec: MicrokernelSpec, a: str, b: str) -> list[str]:
    """C expressions of what is added to the sum for two elements or words, in this order."""
    match spec.product.call:
        case "dot_i16":
            return [f"({U32})(({I16}){a} * ({I16}){b})", f"({U32})(({a} >> 16) * ({b} >> 16))"]
        case "dot_u8i8" | "dot_i8u8" as which:
            kinds = (U8, I8) if which == "dot_u8i8" else (I8, U8)
            return [f"({U32})(({kinds[0]})({a} >> {k}) * ({kinds[1]})({b} >> {k}))" for k in (0, 8, 16, 24)]
        case "dot_signed" | "dot_unsigned" as which:
            kind = I8 if which == "dot_signed" else U8
            return [f"({U32})(({kind})({a} >> {k}) * ({kind})({b} >> {k}))" for k in (0, 8, 16, 24)]
        case "dot_bf16":
            halves = (f"polydl_widened((uint16_t)({{}} >> {k}))" for k in (16, 0))
            return [f"{half.format(a)} * {half.format(b)}" for half in halves]
        case _:
            # Sums of integers are modulo 2^32, as the instructions make them.
            return [f"({U32}){a} * ({U32}){b}" if spec.dtype is I32 else f"{a} * {b}"]


def _result(spec: MicrokernelSpec) -> str:
    """C expression of the new element."""
    if spec.step is not None:
        return "sum"
    unsigned = f"({U32})" if spec.dtype is I32 else ""
    product = f"{unsigned}alpha * sum" if spec.alpha else "sum"
    old = f"{unsigned}C[i * {microkernel.stride_text(spec.c_m, 'c_m')} + j]" if spec.beta else "0"
    if spec.negate:
        return f"{old} - {product}"
    return f"{old} + {product}" if spec.beta else product
