"""target.narrower: a machine as one with narrower vectors."""

from __future__ import annotations

import dataclasses

import pytest

import polydl
from polydl.base.errors import InputError
from polydl.options import Options
from polydl.target import Machine, calibration_path, narrowed, preset

WIDE = preset("epyc-zen5")


def test_narrower_registers_and_pipes() -> None:
    narrow = narrowed(WIDE, "avx2")
    assert (narrow.simd.isa, narrow.simd.vector_bytes, narrow.simd.registers) == ("avx2", 32, 16)
    assert narrow.fma_peak_gflops["float"] == pytest.approx(WIDE.fma_peak_gflops["float"] / 2)
    assert narrow.fingerprint != WIDE.fingerprint
    assert narrow.caches[1:] == WIDE.caches[1:]


def test_pipes_narrower_than_the_registers_lose_nothing() -> None:
    zen4 = preset("epyc-zen4")  # 512-bit operations go through 256-bit pipes twice
    assert narrowed(zen4, "avx2").fma_peak_gflops == zen4.fma_peak_gflops


def test_its_own_instruction_set_changes_nothing() -> None:
    assert narrowed(WIDE, "avx512") is WIDE


@pytest.mark.parametrize(("machine", "isa"), [("epyc-zen3", "avx512"), ("graviton-3", "avx2"), ("epyc-zen3", "neon")])
def test_a_machine_without_it(machine: str, isa: str) -> None:
    with pytest.raises(InputError, match=f"has no {isa}"):
        Options(machine=machine, isa=isa).target()


def test_an_unknown_name() -> None:
    with pytest.raises(InputError, match="no isa called 'avx3'"):
        Options(isa="avx3")


def test_the_compiler_is_kept_to_it() -> None:
    assert "-mno-avx512f" in Options(isa="avx2").toolchain().cflags
    assert "-mno-avx512f" not in Options().toolchain().cflags
    assert Options(isa="avx2", cflags=("-O2",)).toolchain().cflags[-1] == "-O2"


def test_calibrations_are_kept_apart(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("machines")
    assert calibration_path(WIDE, folder) != calibration_path(WIDE, folder, "avx2")


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_blocks_fit_the_registers(isa: str) -> None:
    machine: Machine = dataclasses.replace(narrowed(WIDE, isa), cores=2)
    program = polydl.load("examples/matmul.c", defines={"M": 256, "N": 256, "K": 256})
    found = polydl.rank(program.scops[0], "small", machine, threads=2)
    lanes = machine.simd.vector_bytes // 4
    blocks = {
        (kernel.m, -(-kernel.n // lanes))
        for variant in found.variants
        for structure in variant.structures
        if (kernel := structure.kernel) is not None
    }
    assert blocks
    assert all(rows * vectors < machine.simd.registers for rows, vectors in blocks)
