"""The harness of the experiments: sizes, layouts, peers, statistics and what it writes. Nothing here is timed."""

from __future__ import annotations

import csv
import io
import json
import platform
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from bench import Bound, Contender, Problem, Row, Settings, Timings, WrongResult, compare, geomean, measure, run_peak
from blocked import blocked_inputs, blocked_output
from native import FLAGS, KERNELS, Floats, bound_call, bound_packed, openmp_runtimes, placed, polydl_callable
from output import document, plot, summary, table, write_csv
from rich.console import Console
from sizes import ConvLayer, GemmSize, channel_block, conv_layers, gemm_sizes

from tests.compiling import run_compiler

LAYERS = [
    ConvLayer("tiny", "plain", 7, 6, 32, 16, 3, 3, 1, 1, 1),
    ConvLayer("tiny", "strided", 9, 9, 16, 48, 3, 3, 1, 1, 2),
    ConvLayer("tiny", "leftover", 8, 8, 16, 16, 1, 1, 0, 0, 2),
    ConvLayer("tiny", "odd", 10, 9, 3, 24, 7, 5, 3, 2, 2),
]


def by_name(layer: ConvLayer) -> str:
    return layer.name


def integers(shape: tuple[int, ...], seed: int = 0) -> Floats:
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


def inputs(layer: ConvLayer, images: int = 2) -> tuple[Floats, Floats]:
    return (
        integers((images, layer.C, layer.ifh, layer.ifw), 1),
        integers((layer.K, layer.C, layer.kh, layer.kw), 2),
    )


def reference_conv(layer: ConvLayer, image: Floats, filters: Floats) -> Floats:
    """By definition, with NumPy."""
    padded = np.pad(image, ((0, 0), (0, 0), (layer.pad_h, layer.pad_h), (layer.pad_w, layer.pad_w)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (layer.kh, layer.kw), axis=(2, 3))
    windows = windows[:, :, :: layer.stride, :: layer.stride]
    return np.einsum("nchwyx,kcyx->nkhw", windows, filters).astype(np.float32)


# --- sizes


def test_sizes_are_those_of_the_paper() -> None:
    layers = conv_layers()
    assert len(layers) == 147
    first, second = conv_layers(networks=("resnet",))[:2]
    assert (first.ofh, first.ofw, first.padded) == (112, 112, (229, 229))
    assert (second.ofh, second.ofw, second.operations(1)) == (56, 56, 2.0 * 256 * 64 * 56 * 56)
    assert GemmSize("DeepBench", 1024, 16, 500000) in gemm_sizes()
    with pytest.raises(ValueError, match="no network vgg"):
        conv_layers(networks=("vgg",))


def test_channel_blocks_divide() -> None:
    assert [channel_block(c) for c in (64, 256, 112, 160, 48, 24, 3, 1, 73)] == [64, 64, 16, 32, 48, 24, 3, 1, 1]
    for layer in conv_layers():
        assert layer.C % layer.ifm_block == 0
        assert layer.K % layer.ofm_block == 0


# --- kernels and peers compute the same


@pytest.mark.parametrize("layer", LAYERS, ids=by_name)
def test_conv_source_and_layouts(layer: ConvLayer) -> None:
    from conv import defines

    image, filters = inputs(layer)
    arrays = blocked_inputs(layer, image, filters)
    flags = [f"-D{name}={value}" for name, value in defines(layer, 2).items()]
    polydl_callable(KERNELS / "conv.c", "conv2d", flags)((arrays[2], arrays[0], arrays[1]), ())
    np.testing.assert_array_equal(blocked_output(arrays[2]), reference_conv(layer, image, filters))


@pytest.mark.parametrize("layer", LAYERS, ids=by_name)
def test_conv_peers(layer: ConvLayer) -> None:
    from peers import onednn, xsmm

    image, filters = inputs(layer)
    expected = reference_conv(layer, image, filters)
    contenders = [*onednn.conv_contenders(layer), *([xsmm.conv_contender(layer)] if xsmm.available() else [])]
    assert len(contenders) >= 3
    for contender in contenders:
        bound = contender.bind((image, filters), np.random.default_rng(0))
        bound.run()
        np.testing.assert_array_equal(bound.result(), expected, err_msg=contender.name)


@pytest.mark.parametrize(("m", "n", "k"), [(70, 130, 33), (64, 16, 200), (1, 1, 1)])
def test_gemm_peers_and_source(m: int, n: int, k: int) -> None:
    """With remainders of LIBXSMM's blocks, and sizes below one block."""
    from gemm import from_c
    from peers import onednn, xsmm

    a, b = integers((m, k), 1), integers((k, n), 2)
    contenders = [*onednn.gemm_contenders(), *([xsmm.gemm_contender()] if xsmm.available() else [])]
    contenders.append(from_c("plain", KERNELS / "gemm.c", [f"-DM={m}", f"-DN={n}", f"-DK={k}"]))
    for contender in contenders:
        bound = contender.bind((a, b), np.random.default_rng(0))
        bound.run()
        np.testing.assert_array_equal(bound.result(), a @ b, err_msg=contender.name)


def test_onednn_runs_in_the_layouts_it_is_named_for() -> None:
    """Blocked data really are blocked, and nothing but weights is reordered within the timed call."""
    import torch
    from peers import onednn

    if "AVX512" not in torch.backends.cpu.get_cpu_capability():
        pytest.skip("formats differ on other instruction sets")
    layer = ConvLayer("tiny", "formats", 14, 14, 64, 64, 3, 3, 1, 1, 1)
    steps = {}
    for contender in onednn.conv_contenders(layer):
        bound = contender.bind(inputs(layer), np.random.default_rng(0))
        bound.run()
        steps[contender.name] = list(onednn.executed(bound.run))
        assert bound.correction is not None
        share, reason = bound.correction()
        assert 0 < share <= 1, reason
    (channels_last,) = steps["oneDNN channels-last"]
    assert channels_last.kind == "convolution"
    assert channels_last.formats[0] == channels_last.formats[-1] == "acdb"
    *reorders, blocked = steps["oneDNN blocked"]
    assert blocked.kind == "convolution"
    assert blocked.formats[0] == blocked.formats[-1] == "aBcd16b"
    assert all(r.kind == "reorder" and r.problem == "64x64x3x3" for r in reorders)


def test_peak_kernel_stays_in_registers() -> None:
    """As many fused multiply-adds as chains, none with a memory operand: otherwise it is no peak."""
    if platform.machine() != "x86_64" or "fma" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip("the mnemonics are those of x86 with FMA")
    listing = run_compiler(["cc", *FLAGS, "-S", "-o", "-", str(KERNELS / "support.c")]).stdout
    fused = [line for line in listing.splitlines() if re.search(r"vfmadd\d+ps", line)]
    assert len(fused) == 12
    assert not [line for line in fused if "(" in line]


def test_one_openmp_runtime() -> None:
    """PyTorch's and the compiler's are one library, whichever comes first."""
    import peers.onednn  # noqa: F401

    polydl_callable(KERNELS / "support.c", "fma_peak")
    assert len(openmp_runtimes()) == 1


def test_placements_differ_and_are_aligned() -> None:
    rng = np.random.default_rng(0)
    values = integers((5, 7))
    copies = [placed(values, rng) for _ in range(8)]
    assert all(c.ctypes.data % 64 == 0 and c.flags.c_contiguous for c in copies)
    assert len({c.ctypes.data % 4096 for c in copies}) > 1
    for copy in copies:
        np.testing.assert_array_equal(copy, values)


# --- the harness itself


def contender(name: str, value: float, calls: list[str] | None = None) -> Contender:
    def bind(data: Sequence[Floats], rng: np.random.Generator) -> Bound:
        out = np.zeros(3, dtype=np.float32)

        def run() -> None:
            out[:] = data[0] * value
            if calls is not None:
                calls.append(name)

        return Bound(run, lambda: out.copy())

    return Contender(name, bind)


def problem(*contenders: Contender) -> Problem:
    def data(rng: np.random.Generator, integral: bool) -> Sequence[Floats]:
        return [np.ones(3, dtype=np.float32)]

    return Problem("p", 1e9, 1e6, data, contenders)


def test_wrong_results_are_refused() -> None:
    compare(problem(contender("a", 1), contender("b", 1)), np.random.default_rng(0))
    with pytest.raises(
        WrongResult, match=r"p: b differs from a in 3 of 3 elements, most at \(0,\): 2.0 instead of 1.0"
    ):
        compare(problem(contender("a", 1), contender("b", 2)), np.random.default_rng(0))


def test_contenders_alternate() -> None:
    """Once each for the comparison; then two calls to choose how many, and two each turn, in an order that rotates."""
    calls: list[str] = []
    settings = Settings(rounds=2, allocations=1, turn_seconds=0.0, cold_rounds=0)
    row = measure(problem(contender("a", 1, calls), contender("b", 1, calls)), settings)
    assert "".join(calls) == "ab" + "aabb" + "aabb" + "bbaa"
    assert all(len(t.hot) == 1 and len(t.hot[0]) == 2 and t.cold == [[]] for t in row.timings.values())
    assert row.peak > 1


def rows() -> list[Row]:
    """polydl takes half of fast's time in each round, while the clock drifts by a factor of ten."""
    timings = {
        "fast": Timings([[2.0, 20.0], [4.0, 2.0]], [[4.0], [4.0]]),
        "slow": Timings([[3.0, 30.0], [6.0, 3.0]], [[1.0], [1.0]], "why"),
        "polydl": Timings([[1.0, 10.0], [2.0, 1.0]], [[2.0], [2.0]]),
    }
    return [Row(problem(contender("fast", 1)), timings, [[2.0, 0.2], [1.0, 1.0]])]


def test_ratios_are_medians_within_rounds() -> None:
    (row,) = rows()
    assert row.ratio("fast") == 2.0
    assert row.ratio("slow") == 3.0
    assert row.ratio_to_best_peer() == 2.0
    assert row.ratio_to_best_peer(cold=True) == 0.5
    assert row.gflops("polydl") == pytest.approx(1 / 1.5)
    assert run_peak([row]) == pytest.approx(1.0)
    assert row.fraction_of_peak() == pytest.approx(0.5)
    assert row.fraction_of_peak("unknown") is None
    assert row.timings["polydl"].placement == pytest.approx(5.5 / 1.5)
    assert geomean([1.0, 4.0]) == pytest.approx(2.0)
    assert geomean([]) is None


def test_json_document() -> None:
    done = json.loads(json.dumps(document(rows(), 2, 10.0)))
    assert set(done) >= {"machine", "commit", "command", "peak_gflops", "rows", "geomean"}
    (row,) = done["rows"]
    assert set(row) >= {"name", "polydl", "peers", "ratio_to_best_peer", "fraction_of_peak"}
    assert set(row["peers"]) == {"fast", "slow"}
    assert row["corrections"] == {"slow": "why"}
    assert row["cold"]["ratio_to_best_peer"] == 0.5
    assert done["geomean"]["ratio_to_best_peer"] == pytest.approx(2.0)
    assert done["geomean"]["fraction_of_peak"] == pytest.approx(0.5)


def without_polydl() -> list[Row]:
    (row,) = rows()
    return [Row(row.problem, {name: t for name, t in row.timings.items() if name != "polydl"}, row.peaks)]


def test_peers_alone() -> None:
    assert set(summary(without_polydl()).values()) == {None}
    assert document(without_polydl(), 2, 10.0)["rows"][0]["polydl"] is None


@pytest.mark.parametrize("make", [rows, without_polydl])
def test_table_csv_and_plot(make: Callable[[], list[Row]], tmp_path: Path) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table(make(), "title"))
    text = console.export_text()
    assert "fast" in text
    assert ("2.00x" in text) == (make is rows)
    write_csv(tmp_path / "r.csv", make())
    lines = list(csv.DictReader((tmp_path / "r.csv").read_text(encoding="utf-8").splitlines()))
    assert [line["contender"] for line in lines] == list(make()[0].timings)
    assert lines[0]["polydl_over_it"] == ("2.0000" if make is rows else "")
    plot(tmp_path / "r.png", make(), "title")
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")


def test_calls_go_to_the_arrays_given() -> None:
    a, b, c = integers((2, 3), 1), integers((3, 4), 2), np.zeros((2, 4), dtype=np.float32)
    call = bound_call(KERNELS / "gemm.c", "matmul", ["-DM=2", "-DN=4", "-DK=3"], (a, b, c))
    call()
    np.testing.assert_array_equal(c, a @ b)
    a += 1  # the call goes on reading the same memory
    call()
    np.testing.assert_array_equal(c, a @ b)


PACKED = """
#include <stddef.h>
void scale(const float *weight, float *out) { out[0] = weight[0]; }
size_t scale_pack_bytes(void) { return 2 * sizeof(float); }
void scale_pack(const float *weight, void *memory) { ((float *)memory)[0] = ((float *)memory)[1] = 2 * weight[0]; }
void scale_packed(const float *weight, float *out, const void *memory) { out[0] = ((const float *)memory)[1]; }
"""


def test_constants_are_packed_into_memory_of_the_caller(tmp_path: Path) -> None:
    """Once: what the operand holds later is not seen. Without a function for it, calls read the operand."""
    (tmp_path / "packed.c").write_text(PACKED)
    (tmp_path / "plain.c").write_text("".join(PACKED.splitlines(keepends=True)[:3]))
    weight, out = np.ones(1, dtype=np.float32), np.zeros(1, dtype=np.float32)
    calls = [bound_packed(tmp_path / name, "scale", (), (weight, out), weight) for name in ("packed.c", "plain.c")]
    weight[0] = 5
    for call, expected in zip(calls, (2, 5), strict=True):
        call()
        assert out[0] == expected
