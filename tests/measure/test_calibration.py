"""The calibration of register blocks: measured on this machine, stored with it, used by the estimate."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

import pytest

from polydl.base import resources
from polydl.base.errors import InputErrors, ToolchainError
from polydl.measure import calibration
from polydl.model.types import F32, I8, U8
from polydl.options import Options
from polydl.rank.instruction_set import target_isa
from polydl.target import Provenance, detect, preset
from polydl.target.isa import isa
from polydl.target.machine_files import dumps, loads
from polydl.target.narrower import narrowed
from polydl.target.products import MEASURED, TILE_8
from polydl.target.register_blocks import block_cycles


def test_blocks_are_measured_and_found_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(calibration, "SAMPLES", 2)
    monkeypatch.setattr(calibration, "SAMPLE_FLOPS", 1e6)
    monkeypatch.setattr(calibration, "LEAST", 0.9)
    monkeypatch.setattr(calibration, "calibrate", lambda known, *_: known)  # tests/target/test_calibrate.py has that
    known = detect(calibrations=tmp_path)
    found = calibration.calibrated(Options().toolchain(), known, tmp_path)
    assert found.register_blocks
    assert all(0 < share <= 1 for share in found.register_blocks.values())
    assert detect(calibrations=tmp_path) == found
    some = next(iter(found.register_blocks))
    assert found.provenance[f"register_blocks.{some}"] is Provenance.MEASURED
    assert set(found.product_gops) == {name for name, one in MEASURED.items() if target_isa(known).has(one)}
    assert all(gops > 0 for gops in found.product_gops.values())
    assert found.provenance["product_gops.dot_bf16"] is Provenance.MEASURED
    assert loads(dumps(found)) == found
    assert found.fingerprint != known.fingerprint


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the vectors beside tiles are of x86")
def test_products_of_matrices_are_measured_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """Emulated, which is slow: estimates with these figures take vectors."""
    monkeypatch.setattr(calibration, "SAMPLES", 1)
    monkeypatch.setattr(calibration, "SAMPLE_FLOPS", 1e6)
    machine, plain = preset("xeon-8480plus"), Options().toolchain()
    emulated = replace(plain, cflags=(*plain.cflags, "-DPOLYDL_EMULATE", f"-I{resources.headers()}"))
    found = calibration.product_peaks(machine, emulated)
    assert set(found) == {"dot_bf16", "dot_i16", "dot_u8i8", "tile_bf16", "tile_u8i8"}
    assert all(gops > 0 for gops in found.values())
    slow = target_isa(replace(machine, product_gops=found))
    assert slow.multiplying(TILE_8[I8, U8]).fmas < target_isa(machine).multiplying(TILE_8[I8, U8]).fmas / 10
    # Where the compiler, or the system, has no tiles there is no figure.
    narrow = replace(plain, cflags=(*plain.cflags, "-mno-amx-tile"))
    assert set(calibration.product_peaks(machine, narrow)) == {"dot_bf16", "dot_i16", "dot_u8i8"}


def test_a_measured_block_has_the_cycles_that_were_measured() -> None:
    plain = preset("xeon-8280")
    measured = replace(plain, register_blocks={"6x4": 0.5})
    lanes = isa("avx512").lanes(F32)
    cycles = [block_cycles(target_isa(m), F32, 6, 4 * lanes, 6, 4 * lanes) for m in (plain, measured)]
    assert cycles[1] == pytest.approx(6 * 4 / 2 / 0.5)
    assert cycles[0] < cycles[1]
    other = [block_cycles(target_isa(m), F32, 8, 3 * lanes, 8, 3 * lanes) for m in (plain, measured)]
    assert other[0] == other[1]


def test_pipes_are_the_machines() -> None:
    """Zen 4 has AVX-512 on pipes of 256 bits, Neoverse V1 four pipes of 128."""
    rates = {name: (target_isa(preset(name)).fmas, target_isa(preset(name)).loads)
             for name in ("epyc-zen4", "epyc-zen5", "graviton-3", "core-i9-12900k")}  # fmt: skip
    assert rates == {"epyc-zen4": (1, 1), "epyc-zen5": (2, 2), "graviton-3": (4, 3), "core-i9-12900k": (2, 3)}


def test_blocks_of_wider_vectors_are_not_those_of_narrower_ones() -> None:
    measured = replace(
        preset("xeon-8280"),
        register_blocks={"6x4": 0.5},
        provenance={"register_blocks.6x4": Provenance.MEASURED},
    )
    narrow = narrowed(measured, "avx2")
    assert not narrow.register_blocks
    assert "register_blocks.6x4" not in narrow.provenance


def test_faults_of_the_file_have_a_place() -> None:
    text = 'base = "epyc-zen4"\n[register_blocks]\n"6x4" = 0.9\n"six" = 0.9\n"4x4" = 1.5\n'
    with pytest.raises(InputErrors) as caught:
        loads(text, "m.toml")
    assert [(error.span.line, error.reason) for error in caught.value.errors if error.span] == [
        (4, "'six' is no register block"),
        (5, "'4x4' must be a fraction of the FMA peak, above 0 and at most 1"),
    ]


def test_a_program_that_fails_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'internal error: reason' >&2\nexit 3\n", encoding="utf-8")
    broken.chmod(0o755)
    toolchain = replace(Options().toolchain(), cc=str(broken))
    with pytest.raises(ToolchainError, match=r"(?s)compiling the register blocks failed with code 3.*internal error"):
        calibration.block_shares(preset("xeon-8280"), toolchain)
