"""A machine as one that has a narrower vector instruction set, and the compiler's flags that keep it to that."""

from __future__ import annotations

from dataclasses import fields, replace

from polydl.base.errors import InputError, one_of
from polydl.model.types import element_type
from polydl.target.isa import LONG, isa
from polydl.target.model import Machine, Provenance, Simd
from polydl.target.products import features_of, vector_features

_NARROWER = {"avx512": ("avx512", "avx2", "generic"), "avx2": ("avx2", "generic"), "none": ("generic",)} | {
    one.name: (one.name, "neon") for one in LONG
}
"""By what a machine has, what its code can be kept to, widest first."""
_OF_ITS_VECTORS = ("register_blocks.", "product_gops.", "observed.")
"""Keys of what was measured with vectors of one width."""
_FLAGS = {"avx512": (), "avx2": ("-mno-avx512f",), "generic": ("-mno-avx",)}
"""Each leaves out what comes after it as well (gcc's manual, x86 options; clang does the same)."""


def narrowed(machine: Machine, name: str) -> Machine:
    """`machine` with no more than the vectors of the instruction set `name` in use, and no matrices. Raises InputError
    where it has not even that.

    A core does as many vector operations per cycle as before, at most those of the instruction set's usual cores
    (target.isa): a peak that was measured on wider vectors is scaled by their widths, unless the pipes are narrower
    than those were.
    """
    known = _NARROWER.get(machine.simd.isa, (machine.simd.isa,))
    if name not in known:
        raise InputError(
            f"{machine.name} has no {name}: its vectors are {machine.simd.isa}",
            hint=one_of(name, known),
        )
    target = isa(name)
    if name == machine.simd.isa:
        features = vector_features(machine.simd.features)
        same = features == machine.simd.features
        return machine if same else replace(machine, simd=replace(machine.simd, features=features))
    width = target.vector_bytes
    most = 2.0 * target.fmas * machine.frequency_ghz
    peaks = {
        element: min(peak, most * width / element_type(element).bytes)
        for element, peak in machine.fma_peak_gflops.items()
    }
    loads = float(target.loads * width)
    first = replace(
        machine.caches[0],
        bandwidth_bytes_per_cycle=min(loads, machine.caches[0].bandwidth_bytes_per_cycle),
        shared_bandwidth_bytes_per_cycle=min(
            loads * machine.caches[0].shared_by_cores, machine.caches[0].shared_bandwidth_bytes_per_cycle
        ),
    )
    provenance = {**machine.provenance, **{f"simd.{item.name}": Provenance.DEFAULT for item in fields(Simd)}}
    return replace(
        machine,
        simd=Simd(
            "none" if name == "generic" else name,
            width,
            target.registers,
            features_of(name, frozenset(machine.simd.features.split())),
        ),
        caches=(first, *machine.caches[1:]),
        fma_peak_gflops=peaks,
        register_blocks={},
        product_gops={},
        observed={},
        provenance={key: source for key, source in provenance.items() if not key.startswith(_OF_ITS_VECTORS)},
    )


def narrowing_flags(name: str | None) -> tuple[str, ...]:
    """What the compiler is told beside -march=native, so that it uses nothing beyond an instruction set."""
    return _FLAGS.get(name or "", ())


def length_flags(machine: Machine) -> tuple[str, ...]:
    """What the compiler of a machine with long vectors is told, so that it uses those of this length."""
    return next((one.flags for one in LONG if one.name == machine.simd.isa), ())
