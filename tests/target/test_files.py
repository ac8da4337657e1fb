"""Machine files: round trip, presets, and every fault with its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from polydl.base.errors import InputError, InputErrors
from polydl.model.types import F16, F32, F64
from polydl.rank.instruction_set import target_isa
from polydl.target import Provenance, dumps, load, loads, preset, preset_names, save
from polydl.target.machine_files import PRESETS
from polydl.target.narrower import narrowed
from polydl.target.products import DOT_8, DOT_BF16, DOT_I16

EXPECTED_PRESETS = {
    "a64fx", "core-i9-12900k", "default", "epyc-zen2", "epyc-zen3", "epyc-zen4", "epyc-zen5", "graviton-2",
    "graviton-3", "graviton-3-sve", "graviton-4", "graviton-4-sve", "ryzen-7950x", "ryzen-ai-hx370", "xeon-8280",
    "xeon-8380", "xeon-8480plus", "xeon-e5-2680v3",
}  # fmt: skip


def test_presets_are_there() -> None:
    assert set(preset_names()) == EXPECTED_PRESETS


@pytest.mark.parametrize("name", sorted(EXPECTED_PRESETS))
def test_presets_are_plausible(name: str) -> None:
    machine = preset(name)
    assert [cache.level for cache in machine.caches] == [1, 2, 3][: 2 if name == "a64fx" else 3]
    for near, far in zip(machine.caches, machine.caches[1:], strict=False):
        assert near.bytes < far.bytes
        assert near.latency_cycles < far.latency_cycles
        assert near.bandwidth_bytes_per_cycle >= far.bandwidth_bytes_per_cycle
    for cache in machine.caches:
        assert cache.sets * cache.ways * cache.line_bytes == cache.bytes, "capacity is sets times ways times line"
        assert cache.shared_bandwidth_bytes_per_cycle <= cache.shared_by_cores * cache.bandwidth_bytes_per_cycle
    last = machine.caches[-1]
    assert machine.memory.latency_ns > last.latency_cycles / machine.frequency_ghz
    assert machine.memory_bandwidth(1) <= machine.cache_bandwidth(last, 1)
    assert machine.fma_peak_gflops[F64.c] * 2 == pytest.approx(machine.fma_peak_gflops[F32.c])
    assert loads(dumps(machine)) == machine


@pytest.mark.parametrize("name", sorted(EXPECTED_PRESETS))
def test_presets_say_where_their_figures_come_from(name: str) -> None:
    text = (PRESETS / f"{name}.toml").read_text(encoding="utf-8")
    if name != "default" and "\nbase = " not in text:
        figures = [line for line in text.splitlines() if "=" in line and not line.lstrip().startswith("#")]
        memory = [line for line in figures if line.split(" =")[0].strip() in ("latency_ns", "bandwidth_gbs")]
        assert len(memory) == 2
        assert all("#" in line for line in memory)
    assert text.startswith("#")


def test_round_trip_through_a_file(tmp_path: Path) -> None:
    machine = preset("epyc-zen4")
    save(machine, tmp_path / "deep" / "m.toml")
    assert load(tmp_path / "deep" / "m.toml") == machine


def test_what_is_for_people_is_kept_and_changes_nothing() -> None:
    plain = preset("epyc-zen4")
    seen = replace(plain, observed={"streams": 24.0, "overlap_L2": 0.5})
    assert loads(dumps(seen)).observed == seen.observed
    assert seen.fingerprint == plain.fingerprint
    assert "observed" not in plain.as_data()
    assert seen.as_data()["observed"] == {"overlap_L2": 0.5, "streams": 24.0}
    assert not narrowed(seen, "avx2").observed, "they are of wide vectors"


def test_faults_of_what_is_for_people() -> None:
    text = 'base = "epyc-zen4"\n[observed]\nstream = 8\noverlap_L2 = -1\nstreams = "8"\n'
    assert faults(text) == [
        (3, 1, "unknown key 'stream' in [observed]"),
        (4, 1, "'overlap_L2' must be a number, at least 0"),
        (5, 1, "'streams' must be a number, at least 0"),
    ]


def test_names_are_escaped() -> None:
    from dataclasses import replace

    machine = replace(preset("epyc-zen4"), name='a "strange"\\ name\t\x01')
    assert loads(dumps(machine)).name == machine.name


def test_base_fills_what_is_left_out() -> None:
    machine = loads('base = "epyc-zen4"\ncores = 3\n[[cache]]\nlevel = 2\nbytes = 2097152\n[memory]\nlatency_ns = 77\n')
    zen4 = preset("epyc-zen4")
    assert (machine.cores, machine.caches[1].bytes, machine.memory.latency_ns) == (3, 2097152, 77.0)
    assert machine.caches[1].ways == zen4.caches[1].ways
    assert machine.caches[0] == zen4.caches[0]
    assert machine.provenance["cache.2.bytes"] is Provenance.FILE


def faults(text: str) -> list[tuple[int, int, str]]:
    with pytest.raises(InputErrors) as caught:
        loads(text, "m.toml")
    return [(e.span.line, e.span.column, e.reason) for e in caught.value.errors if e.span is not None]


def test_all_faults_are_reported_with_their_places() -> None:
    text = (
        'base = "epyc-zen4"\n'
        "cors = 3\n"
        "[simd]\n"
        'vector_bytes = "64"\n'
        "[[cache]]\n"
        "level = 1\n"
        "bytes = 0\n"
        "[[cache]]\n"
        "level = 1\n"
        "  sise = 4\n"
        "[[cache]]\n"
        "bytes = 5\n"
        "[provenance]\n"
        'cores = "guessed"\n'
    )
    assert faults(text) == [
        (2, 1, "unknown key 'cors'"),
        (4, 1, "'vector_bytes' must be an integer"),
        (7, 1, "'bytes' must be positive"),
        (10, 3, "unknown key 'sise' in [cache]"),
        (9, 1, "two caches of level 1"),
        (11, 1, "this cache has no 'level'"),
        (14, 1, "'guessed' is not a provenance"),
    ]


def test_unknown_key_names_the_nearest() -> None:
    with pytest.raises(InputErrors) as caught:
        loads('base = "epyc-zen4"\n[memory]\nlatency_n = 3\n', "m.toml")
    assert "did you mean 'latency_ns'?" in caught.value.render()
    assert caught.value.exit_code == 2


def test_broken_toml_has_line_and_column() -> None:
    with pytest.raises(InputError) as caught:
        loads('name = "x"\ncores = = 3\n', "m.toml")
    assert caught.value.span is not None
    assert (caught.value.span.line, caught.value.span.column) == (2, 9)


def test_missing_figures_are_named() -> None:
    (fault, no_cache, no_peak) = faults('name = "x"\n')
    assert "cores" in fault[2]
    assert "memory.latency_ns" in fault[2]
    assert no_cache[2] == "missing: a [[cache]]"
    assert no_peak[2] == "missing: a figure in [fma_peak_gflops]"


def test_peaks_are_of_element_types() -> None:
    text = 'base = "epyc-zen4"\n[fma_peak_gflops]\n"signed char" = 400\nflaot = 3\ndouble = "x"\n'
    assert faults(text) == [(4, 1, "'flaot' is no element type"), (5, 1, "'double' must be a number")]
    with pytest.raises(InputErrors) as caught:
        loads(text)
    assert "did you mean 'float'?" in caught.value.render()


def test_peaks_that_are_left_out_follow_from_the_width() -> None:
    """As many vectors per second: twice the operations in elements of half the size."""
    machine = preset("epyc-zen4")
    assert machine.peak(F32) == machine.fma_peak_gflops[F32.c] * 1e9
    assert machine.peak(F64) == machine.fma_peak_gflops[F64.c] * 1e9
    assert replace(machine, fma_peak_gflops={F32.c: 100.0}).peak(F64) == 50e9
    assert replace(machine, fma_peak_gflops={F32.c: 100.0}).peak(F16) == 200e9


def test_unknown_presets_are_refused() -> None:
    with pytest.raises(InputError, match="epyc-zen9") as caught:
        preset("epyc-zen9")
    assert caught.value.hint is not None
    assert "epyc-zen" in caught.value.hint
    assert faults('base = "xeon-8281"\n') == [(1, 1, "no machine preset 'xeon-8281'")]


def test_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path / "none.toml")


def test_fingerprint_is_of_the_figures_only() -> None:
    from dataclasses import replace

    machine = preset("epyc-zen4")
    assert machine.fingerprint == replace(machine, name="other", provenance={}).fingerprint
    assert machine.fingerprint != replace(machine, cores=1).fingerprint
    assert machine.fingerprint == loads(dumps(machine)).fingerprint


def test_peaks_of_inner_products_are_read_and_written() -> None:
    machine = replace(preset("epyc-zen4"), product_gops={"dot_bf16": 200.0, "dot_u8i8": 400.5})
    text = dumps(machine)
    assert loads(text).product_gops == machine.product_gops
    assert machine.fingerprint != preset("epyc-zen4").fingerprint
    for wrong, message in (
        ("dot_bf17 = 1", "no inner product 'dot_bf17'"),
        ("dot_i16 = 0", "must be a number above 0"),
    ):
        with pytest.raises(InputErrors) as caught:
            loads(text.replace('"dot_bf16" = 200.0', wrong))
        (error,) = caught.value.errors
        assert message in error.reason and error.span is not None
        assert error.span.line == 1 + text.splitlines().index('"dot_bf16" = 200.0')
    assert narrowed(machine, "avx2").product_gops == {}


def test_estimates_use_the_measured_rates_of_inner_products() -> None:
    zen4 = preset("epyc-zen4")
    fma = zen4.peak(F32) / 1e9
    slow = target_isa(replace(zen4, product_gops={"dot_bf16": 2 * 0.25 * fma, "dot_u8i8": 4 * 0.5 * fma}))
    known, wide = target_isa(zen4), slow.fmas
    assert slow.multiplying(DOT_BF16).fmas == 0.25 * wide < known.multiplying(DOT_BF16).fmas == wide
    assert slow.multiplying(DOT_I16).fmas == wide
    assert all(slow.multiplying(p).fmas == 0.5 * wide for p in DOT_8.values())
    assert slow.ways(DOT_BF16) == known.ways(DOT_BF16), "what is written does not depend on what was measured"
