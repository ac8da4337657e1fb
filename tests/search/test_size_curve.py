"""The curve over sizes: which sizes, what is timed there, what is left out, and that it says so."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest

import polydl
from polydl import pipeline
from polydl.base.errors import InputError, PolyDLError
from polydl.inspect.documents import optimize_json
from polydl.inspect.recording import recorded
from polydl.inspect.report.record import dumps, loads
from polydl.inspect.report.size_curve_chart import curve as chart_of
from polydl.inspect.size_curve_record import curve_json, recorded_curve
from polydl.lower.emit import Generated
from polydl.measure import MeasureOptions, Toolchain
from polydl.measure.time_at_sizes import Place, time_at
from polydl.model.at_sizes import at_sizes
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.results import OptimizeResult
from polydl.search.default_sizes import touched_bytes
from polydl.search.sizes.curve import Curved, curve_sizes, size_curve

PRODUCT = """\
void product(int n, int m, const float A[n][n], const float B[n][m], float C[n][m])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            for (int k = 0; k < n; k++)
                C[i][j] += A[i][k] * B[k][j];
}
"""
OPTIONS = Options(sizes={"n": range(1, 49), "m": 24}, threads=1, space="small", top_k=1, budget=None, curve=3)


@cache
def symbolic() -> Scop:
    return pipeline.load(PRODUCT, require_sizes=False, rows_fit=True).scops[0]


@cache
def timed() -> OptimizeResult:
    return polydl.optimize(PRODUCT, options=OPTIONS)


def test_sizes_are_the_ends_and_what_lies_between() -> None:
    machine = Options(machine="epyc-zen5").target()
    ranges = {"n": range(3, 4097), "m": range(1, 1001)}
    found = curve_sizes(symbolic(), ranges, machine, 16)
    assert found == curve_sizes(symbolic(), ranges, machine, 16)
    kinds = {kind.rpartition(" ")[0] for kind in found}
    assert kinds == {"smallest", "largest", "power of two", "prime", "odd", "past L1", "past L2", "past L3"}
    assert {"n": 3, "m": 1} in found.values()
    assert {"n": 4096, "m": 1000} in found.values()
    assert all(one[name] in values for one in found.values() for name, values in ranges.items())
    for kind, sizes in found.items():
        if kind.startswith("prime"):
            assert not any(sizes["n"] % d == 0 for d in range(2, sizes["n"]))
        if kind.startswith("past"):
            cache_bytes = next(c.bytes for c in machine.caches if f"past L{c.level} " in kind)
            here = touched_bytes(at_sizes(symbolic(), sizes))
            assert 0.5 * cache_bytes < here < 2 * cache_bytes


def test_a_range_of_one_value_has_one_point() -> None:
    machine = Options(machine="epyc-zen5").target()
    assert list(curve_sizes(symbolic(), {"n": range(7, 8), "m": range(5, 6)}, machine, 5).values()) == [
        {"n": 7, "m": 5}
    ]


@pytest.mark.few_sizes
def test_a_run_times_output_original_and_tuned_variant() -> None:
    done = timed().scops[0]
    assert done.curve is not None
    assert not done.curve.estimated
    assert done.curve.left_out == ""
    sizes = [one.sizes["n"] for one in done.curve.points]
    assert sizes == sorted(sizes)
    assert {1, 48} < set(sizes)
    for one in done.curve.points:
        assert {"original", "output", "tuned"} == set(one.measured)
        assert all(m.verified and m.samples and m.median > 0 for m in one.measured.values()), one.measured
        assert one.sizes["m"] == 24
    assert math.isnan(done.curve.points[0].seconds("nothing"))


def test_the_document_the_record_and_the_chart_have_the_same_times() -> None:
    result = timed()
    found = result.scops[0].curve
    assert found is not None
    document = optimize_json(result)
    medians = [one["output"]["median"] for one in document["curve"]["points"]]
    assert medians == [one.seconds("output") for one in found.points]
    assert document["every_size"]["ranges"] == {"n": [1, 48]}
    run = loads(dumps(recorded(result, OPTIONS)).encode(), "run.json")
    (scop,) = run.scops
    assert scop.curve == recorded_curve(found)
    chart = chart_of(scop)
    assert chart is not None
    assert len(chart.rows) == 3
    assert [entry.text for entry in chart.legend] == ["original", "output", "tuned for the size"]
    assert chart_of(replace(scop, curve=None)) is None


@pytest.mark.few_sizes
def test_without_a_run_there_are_estimates_that_are_called_so() -> None:
    done = polydl.optimize(PRODUCT, options=OPTIONS.changed(machine="epyc-zen5"), run=False).scops[0]
    assert done.curve is not None
    assert done.curve.estimated
    assert all(not one.measured and one.tuned is not None for one in done.curve.points)
    data = curve_json(done.curve)
    assert data is not None
    assert data["estimated"]
    assert all(one["output"]["median"] is None for one in data["points"])
    assert all(one["output"]["predicted_seconds"] > 0 for one in data["points"])
    again = polydl.optimize(PRODUCT, options=OPTIONS.changed(machine="epyc-zen5"), run=False).scops[0]
    assert curve_json(again.curve) == data


def test_a_macro_has_no_curve() -> None:
    text = "void f(float x[N]) { for (int i = 0; i < N; i++) x[i] *= 2; }"
    done = polydl.optimize(text, defines={"N": 64}, curve=3, run=False, space="small", machine="epyc-zen5")
    assert done.scops[0].curve is None


def test_an_original_that_takes_too_long_is_left_out() -> None:
    scop = pipeline.load(PRODUCT, sizes={"n": 8, "m": 8}).scops[0]
    places = [Place(scop, ("output",), 1e9), Place(scop, ("output",), 0.0)]
    same = Generated((), scop.source.text[scop.region.start : scop.region.end])
    slow, quick = time_at(places, {"output": same}, Toolchain(), MeasureOptions(threads=1, seconds=600.0))
    assert quick.missing == ""
    assert quick.measurements["output"].verified
    assert slow.measurements == {}
    assert slow.missing.startswith("a run of the original would take about 1e+09 s: the budget has ")
    assert time_at([], {}, Toolchain(), MeasureOptions()) == ()


def test_an_output_that_is_wrong_at_a_size_is_an_error() -> None:
    done = timed().scops[0]
    scop, code = done.ranking.program.read, done.code
    assert code is not None
    of = Curved(
        scop,
        replace(code, otherwise="(void)0;"),
        1e-6,
        done.at,
        lambda sizes: pipeline.load(PRODUCT, sizes=sizes).scops[0],
        lambda there: None,
    )
    with pytest.raises(PolyDLError, match=r"computes something else.* with m = 24, n = 9"):
        size_curve(of, {"odd 0": {"n": 9, "m": 24}}, Toolchain(), MeasureOptions(threads=2))


def test_points_are_no_negative_number() -> None:
    with pytest.raises(InputError, match="curve is -1"):
        Options(curve=-1)
