"""Calibration: the generated program runs, its figures land in the machine, failures are explained."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

from polydl.base.errors import ToolchainError
from polydl.target import Provenance, calibrate, calibration_path, detect, load, preset

module = importlib.import_module("polydl.target.calibrate")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RUNS", 3)
    monkeypatch.setattr(module, "RUN_SECONDS", 1e-4)
    monkeypatch.setattr(module, "_memory_bytes", lambda machine: 2 * machine.caches[-1].bytes)


def test_the_generated_program_measures_this_machine(quick: None, tmp_path: Path) -> None:
    known = detect(calibrations=tmp_path)
    measured = calibrate(known, tmp_path)
    assert detect(calibrations=tmp_path) == measured, "stored, and found again"
    assert measured.provenance["memory.latency_ns"] is Provenance.MEASURED
    for was, found in zip(known.caches, measured.caches, strict=True):
        key = f"cache.{was.level}.bytes"
        if found.bytes == was.bytes:
            assert measured.provenance[key] == known.provenance[key]
        else:  # of what several cores share a virtual machine may get a part
            assert was.shared_by_cores > 1 and found.bytes < was.bytes
            assert measured.provenance[key] is Provenance.MEASURED
    near, far = measured.caches[0], measured.caches[-1]
    # Loose limits: the machine may be busy, and nothing here may depend on how fast it is.
    assert 1 <= near.latency_cycles < far.latency_cycles
    assert 1 <= near.bandwidth_bytes_per_cycle <= 1024
    assert all(peak > 0.1 for peak in measured.fma_peak_gflops.values())
    assert measured.memory.latency_ns > near.latency_cycles / measured.frequency_ghz
    hidden = [measured.observed[f"overlap_{level}"] for level in ("L2", "L3", "memory")]
    assert all(0 <= share <= 1 for share in hidden)
    assert 1 <= measured.observed["streams"] <= 64
    assert measured.tlb.walk_cycles >= measured.tlb.l2_latency_cycles >= 1


FIGURES = {
    "frequency_ghz": 2.0, "fma_peak_gflops.float": 100.0, "fma_peak_gflops.double": 50.0, "call_ns": 5.0,
    "parallel_region_us": 1.5, "memory.bandwidth_gbs": 20.0, "memory.shared_bandwidth_gbs": 300.0,
    "memory.latency_ns": 99.0,
} | {
    f"cache.{level}.{key}": value * level
    for level in (1, 2, 3)
    for key, value in {"bandwidth": 64.0, "all_bandwidth": 960.0, "latency_ns": 2.5}.items()
}  # fmt: skip


def test_figures_are_turned_into_cycles_and_instances(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "measure", lambda machine, compiler, isa: FIGURES)
    known = preset("epyc-zen4")  # 96 cores, twelve core complexes
    measured = calibrate(known, tmp_path)
    assert measured.frequency_ghz == 2.0
    assert measured.caches[1].latency_cycles == 2 * 2.5 * 2.0
    assert measured.caches[1].bandwidth_bytes_per_cycle == 2 * 64 / 2.0
    assert measured.caches[0].shared_bandwidth_bytes_per_cycle == 960 / 2.0 / 96
    assert measured.caches[2].shared_bandwidth_bytes_per_cycle == 3 * 960 / 2.0 / 12
    assert measured.call_cycles == 10.0
    assert load(calibration_path(known, tmp_path)) == measured


OBSERVED_FIGURES = {
    "tlb.second_ns": 4.0, "tlb.walk_ns": 20.0, "observed.overlap_L2": 0.9, "observed.overlap_memory": 0.75,
    "observed.streams": 16.0, "observed.huge_walk_ns": -0.5,
}  # fmt: skip


def test_translation_and_what_is_for_people(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "measure", lambda machine, compiler, isa: FIGURES | OBSERVED_FIGURES)
    known = preset("epyc-zen4")
    measured = calibrate(known, tmp_path)
    assert (measured.tlb.l2_latency_cycles, measured.tlb.walk_cycles) == (8.0, 40.0)
    assert (measured.tlb.l1_entries, measured.tlb.l2_entries) == (known.tlb.l1_entries, known.tlb.l2_entries)
    assert measured.provenance["tlb.walk_cycles"] is Provenance.MEASURED
    assert measured.provenance["tlb.l2_entries"] is Provenance.FILE
    # A difference of two times that came out negative is none.
    assert measured.observed == {"overlap_L2": 0.9, "overlap_memory": 0.75, "streams": 16.0, "huge_walk_cycles": 0.0}
    assert measured.provenance["observed.streams"] is Provenance.MEASURED
    assert load(calibration_path(known, tmp_path)) == measured


def test_a_walk_is_no_shorter_than_the_second_level(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    noisy = FIGURES | OBSERVED_FIGURES | {"tlb.second_ns": -1.0, "tlb.walk_ns": -2.0}
    monkeypatch.setattr(module, "measure", lambda machine, compiler, isa: noisy)
    tlb = calibrate(preset("epyc-zen4"), tmp_path).tlb
    assert tlb.l2_latency_cycles == tlb.walk_cycles == 1.0


def test_where_base_pages_cannot_be_asked_for_translation_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "measure", lambda machine, compiler, isa: FIGURES)
    known = preset("epyc-zen4")
    measured = calibrate(known, tmp_path)
    assert measured.tlb == known.tlb
    assert measured.provenance["tlb.walk_cycles"] is Provenance.FILE
    assert not measured.observed


def test_buffers_fit_their_level() -> None:
    for name in ("epyc-zen4", "xeon-8280", "graviton-3", "default"):
        machine = preset(name)
        before = 0
        for cache, level in zip(machine.caches, module._levels(machine), strict=True):
            sharers = min(machine.cores, cache.shared_by_cores)
            assert before < level.alone_bytes <= cache.bytes
            assert 0 < level.shared_bytes * sharers <= cache.bytes
            before = cache.bytes
        assert module._memory_bytes(machine) >= 4 * before


def test_no_compiler() -> None:
    with pytest.raises(ToolchainError, match="no C compiler 'cc-that-is-not'") as caught:
        module.measure(preset("default"), "cc-that-is-not")
    assert caught.value.hint is not None


def test_failing_compiler_is_shown(tmp_path: Path) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'internal error: reason' >&2\nexit 3\n", encoding="utf-8")
    broken.chmod(0o755)
    with pytest.raises(ToolchainError, match="internal error: reason"):
        module.measure(preset("default"), os.fspath(broken))
