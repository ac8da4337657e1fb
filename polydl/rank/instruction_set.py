"""The vector instruction set of a machine."""

from __future__ import annotations

from dataclasses import replace

from polydl.model.types import F32
from polydl.target import Machine
from polydl.target.isa import Isa, isa
from polydl.target.products import MEASURED

_STEPS = 20
"""Of a measured rate of an inner product, in one of the FMA: finer ones are the noise of two measurements."""


def target_isa(machine: Machine) -> Isa:
    """The vector instruction set of a machine as the generator knows it, with the machine's own rates: FMAs per cycle
    from its peak, loads per cycle from the bandwidth of its first-level cache, register blocks as they were measured.
    The portable one for an unknown name."""
    try:
        known = isa(machine.simd.isa)
    except KeyError:
        return isa("generic")
    cycles_per_second = machine.frequency_ghz * 1e9
    fmas = machine.peak(F32) / (2 * known.lanes(F32) * cycles_per_second)
    loads = machine.caches[0].bandwidth_bytes_per_cycle / known.vector_bytes
    blocks = ((block.partition("x"), share) for block, share in sorted(machine.register_blocks.items()))
    return replace(
        known,
        # Whole pipes: a measured rate is a little under what they could do, that of 512-bit vectors on pipes of half
        # the width is half of what other cores do.
        fmas=max(1, round(fmas)),
        loads=max(1, round(loads)),
        features=tuple(machine.simd.features.split()),
        measured=tuple((name, _share(machine, name, gops)) for name, gops in sorted(machine.product_gops.items())),
        shares=tuple((int(rows), int(vectors), share) for (rows, _, vectors), share in blocks),
    )


def _share(machine: Machine, product: str, gops: float) -> float:
    """Words per cycle over FMAs per cycle: a word has a product for each neighbour of a group."""
    words = gops * 1e9 / MEASURED[product].group
    return max(1, round(_STEPS * words / machine.peak(F32))) / _STEPS
