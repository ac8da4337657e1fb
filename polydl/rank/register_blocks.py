"""The vector instruction set of a machine."""

from __future__ import annotations

from polydl.target import Machine
from polydl.target.isa import Isa, isa


def target_isa(machine: Machine) -> Isa:
    """The vector instruction set of a machine as the generator knows it; the portable one for an unknown name."""
    try:
        return isa(machine.simd.isa)
    except KeyError:
        return isa("generic")
