"""The slow exact twin of a microkernel: plain loops with the same signature, which tests hold it equal to."""

from __future__ import annotations

from polydl.kernels import microkernel
from polydl.kernels.microkernel import MicrokernelSpec


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
    """C statements in terms of a microkernel's parameters that compute what it does.

    Raises ValueError for a specification with an epilogue, whose vector statements have no scalar form.
    """
    if spec.epilogue:
        raise ValueError("an epilogue is written for vectors and has no scalar twin")
    return (
        microkernel.environment()
        .get_template("reference.c.j2")
        .render(
            loops=microkernel.plain_loops(spec),
            ctype=spec.dtype.c,
            a_m=microkernel.stride_text(spec.a_m, "a_m"),
            c_m=microkernel.stride_text(spec.c_m, "c_m"),
            result=_result(spec),
        )
    )


def _result(spec: MicrokernelSpec) -> str:
    """C expression of the new element."""
    product = "alpha * sum" if spec.alpha else "sum"
    old = f"C[i * {microkernel.stride_text(spec.c_m, 'c_m')} + j]" if spec.beta else "0"
    if spec.negate:
        return f"{old} - {product}"
    return f"{old} + {product}" if spec.beta else product
