"""Charts say what the record says: positions against figures worked out here, scales that hold any numbers."""

from __future__ import annotations

import math
import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydl.base.errors import PolyDLError
from polydl.inspect.report.charts import Axis, Chart, Line, Point, axis, bytes_axis, bytes_text, quantity, swarm
from polydl.inspect.report.draw import document, png, svg
from polydl.inspect.report.figures import agreement, charts, picks, rankers
from polydl.inspect.report.record import ORIGINAL, Measured, Score
from polydl.model.types import F32
from tests.inspect.report.runs import golden_run, golden_scop, hostile_run, with_scop

SVG = "{http://www.w3.org/2000/svg}"


def _charts() -> dict[str, Chart]:
    return {c.name: c for c in charts(golden_scop(), golden_run().machine)}


def _points(chart: Chart) -> list[Point]:
    return [m for m in chart.marks if isinstance(m, Point)]


def test_all_the_charts_are_there() -> None:
    names = set(_charts())
    assert {"distribution", "samples", "predicted-traffic", "predicted-trace", "roofline", "working-sets"} <= names


def test_marks_lie_within_their_scales() -> None:
    for chart in _charts().values():
        for point in _points(chart):
            assert chart.x.low <= point.x <= chart.x.high, (chart.name, point)
            if isinstance(chart.y, Axis):
                assert chart.y.low <= point.y <= chart.y.high, (chart.name, point)
            else:
                assert -0.5 <= point.y <= len(chart.y) - 0.5, (chart.name, point)


def test_every_timed_variant_is_in_the_distribution_at_its_median() -> None:
    drawn_at = {p.variant: p.x for p in _points(_charts()["distribution"]) if abs(p.y) < 0.5}
    assert drawn_at == {m.id: m.median for m in golden_scop().timed()}


def test_samples_are_all_drawn() -> None:
    chart = _charts()["samples"]
    strokes = sorted(m.x0 for m in chart.marks if isinstance(m, Line) and m.x0 == m.x1)
    assert strokes == sorted(t for m in golden_scop().timed() for t in m.samples)


def test_a_ranker_picks_its_best_score() -> None:
    scop = golden_scop()
    assert set(picks(scop)) == set(rankers(scop))
    for name, pick in picks(scop).items():
        least = min(m.scores[name].score for m in scop.measured if m.verified and name in m.scores)
        assert pick.scores[name].score == least
        assert pick.id != ORIGINAL


@pytest.mark.parametrize(
    ("scores", "seconds", "tau"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], 1.0),
        ([4, 3, 2, 1], [1, 2, 3, 4], -1.0),
        ([1, 2, 3, 4], [1, 2, 4, 3], 4 / 6),
        ([1, 1, 2], [1, 2, 3], 2 / math.sqrt(2 * 3)),
        ([1, 1, 1], [1, 2, 3], math.nan),
    ],
)
def test_agreement_is_tau_b(scores: list[float], seconds: list[float], tau: float) -> None:
    measured = tuple(_variant(f"v{n}", s, t) for n, (s, t) in enumerate(zip(scores, seconds, strict=True)))
    found = agreement(with_scop(measured=measured, chosen=ORIGINAL).scops[0], "traffic")
    assert found == pytest.approx(tau, nan_ok=True)


def _variant(name: str, score: float, seconds: float) -> Measured:
    base = golden_scop().measured[0]
    return replace(base, id=name, median=seconds, samples=(seconds,), scores={"traffic": Score(score, None)})


def test_the_roofline_is_operations_over_time_and_bytes() -> None:
    scop, chart, machine = golden_scop(), _charts()["roofline"], golden_run().machine
    # Bias: copies. Product: two a step. Residual: an addition each. ReLU: none, it compares.
    work = 512 * 1024 * (2 * 768 + 1)
    assert scop.operations is not None and scop.compulsory_bytes is not None
    assert scop.operations.at_least == scop.operations.at_most == work
    assert scop.compulsory_bytes.at_most == 4 * (2 * 512 * 1024 + 512 * 768 + 768 * 1024 + 1024)
    for variant in (scop.winner(), scop.original):
        found = sorted((p.x, p.y) for p in _points(chart) if p.variant == variant.id)
        wanted = [size for size in variant.moved.values() if size > 0] + [scop.compulsory_bytes.at_most]
        assert variant.median is not None
        assert [x for x, _ in found] == pytest.approx(sorted(work / size for size in wanted))
        assert {y for _, y in found} == {work / variant.median}
    peak = machine.fma_peak_gflops[F32.c] * 1e9 * 2
    roofs = [m for m in chart.marks if isinstance(m, Line)]
    assert max(m.y1 for m in roofs) == peak
    memory = next(m for m in roofs if "memory" in m.text)
    assert memory.y0 / memory.x0 == pytest.approx(machine.memory_bandwidth(2) * 2)
    assert memory.x1 == pytest.approx(peak / (machine.memory_bandwidth(2) * 2))


def test_without_counts_the_charts_do_with_less() -> None:
    uncounted = with_scop(compulsory_bytes=None)
    roofline = next(c for c in charts(uncounted.scops[0], uncounted.machine) if c.name == "roofline")
    assert not any("each byte" in p.text for p in _points(roofline))
    assert any("traffic model" in p.text for p in _points(roofline))


def test_working_sets_stand_at_their_sizes_beside_the_caches() -> None:
    scop, chart, machine = golden_scop(), _charts()["working-sets"], golden_run().machine
    sizes = {(p.variant, p.x) for p in _points(chart)}
    for variant in (scop.winner(), scop.original):
        assert {x for name, x in sizes if name == variant.id} <= {
            b.at_most for w in variant.working_sets for b in (w.min, w.max)
        }
        assert any(name == variant.id for name, _ in sizes)
    walls = [m.x0 for m in chart.marks if isinstance(m, Line) and m.dashed]
    assert walls == [c.bytes for c in machine.caches]


def test_charts_without_figures_are_left_out() -> None:
    alone = with_scop(measured=(), chosen=ORIGINAL, operations=None)
    kept = {c.name for c in charts(alone.scops[0], alone.machine)}
    assert kept == {"working-sets"}
    bare = with_scop(
        measured=(), chosen=ORIGINAL, dtype="", original=replace(golden_scop().original, working_sets=(), median=None)
    )
    assert charts(bare.scops[0], bare.machine) == ()


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=6), st.sampled_from([None, True, False]))
def test_scales_hold_any_numbers(values: list[float], log: bool | None) -> None:
    scale = axis("x", values, unit="s", log=log)
    assert math.isfinite(scale.low)
    assert scale.low < scale.high < math.inf
    assert len(scale.ticks) <= 12
    assert all(scale.low <= v <= scale.high or math.isclose(v, scale.low) for v, _ in scale.ticks)
    assert [v for v, _ in scale.ticks] == sorted({v for v, _ in scale.ticks})
    assert all(0 <= scale.fraction(v) <= 1 for v in values if not math.isnan(v) and (not scale.log or v > 0))


@given(st.lists(st.floats(min_value=1e-9, max_value=1e3), min_size=1, max_size=5))
def test_scales_have_ticks(values: list[float]) -> None:
    texts = [text for _, text in axis("time", values, unit="s").ticks]
    assert len(texts) >= 2
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.25e-3, "s", "1.25 ms"), (0.99996, "s", "1 s"), (6.48e-5, "s", "64.8 µs"), (123.4, "s", "123 s"),
        (4.73e11, "FLOP/s", "473 GFLOP/s"), (999.9e-6, "s", "1 ms"), (0.0, "s", "0 s"), (math.nan, "s", "–"),
        (0.00193, "", "0.00193"), (438_100_000.0, "", "438,100,000"),
    ],
)  # fmt: skip
def test_quantities(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (48 << 10, "48 KiB"), (1.5 * 2**20, "1.5 MiB"), (2**40, "1 TiB")]
)
def test_bytes(value: float, text: str) -> None:
    assert bytes_text(value) == text


def test_bytes_have_ticks_at_powers_of_two() -> None:
    assert all(math.log2(v).is_integer() for v, _ in bytes_axis("b", [100, 1 << 25]).ticks)


def test_equal_values_are_set_apart() -> None:
    scale = axis("x", [1.0, 2.0])
    offsets = swarm([1.0] * 9 + [2.0], scale)
    assert len(set(offsets[:9])) == 9
    assert all(abs(o) <= 0.4 for o in offsets)
    assert offsets[9] == 0


@pytest.mark.parametrize("width", [344, 640])
def test_svg_text_stays_inside(width: int) -> None:
    """As wide as the average of what a browser draws; the browser tests look at the pixels."""
    for chart in _charts().values():
        root = ET.fromstring(svg(chart, width))
        assert root.get("viewBox") == f"0 0 {width} {root.get('height')}"
        for text in root.iter(f"{SVG}text"):
            x, size = float(text.get("x", "0")), len(text.text or "") * 6.2
            left = {"end": x - size, "middle": x - size / 2}.get(text.get("text-anchor", ""), x)
            assert left >= -6 and left + size <= width + 6, (chart.name, text.text)


def test_svg_is_named_and_described() -> None:
    for chart in _charts().values():
        root = ET.fromstring(svg(chart, 640, "p-"))
        title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
        assert title is not None and description is not None
        assert (root.get("aria-labelledby"), root.get("aria-describedby")) == (title.get("id"), description.get("id"))
        assert title.text == chart.title
        assert len(root.findall(f".//{SVG}g[@class]/{SVG}title")) >= len(_points(chart))


def test_marks_are_drawn_where_they_lie() -> None:
    """What matplotlib drew, read back: every point of the roofline at its intensity and rate, in its colour."""
    chart = _charts()["roofline"]
    assert isinstance(chart.y, Axis)
    drawn = [group for group in ET.fromstring(svg(chart, 640)).iter(f"{SVG}g") if group.get("class") == "point"]
    places = []
    for group, point in zip(drawn, _points(chart), strict=True):
        (path,) = group.iter(f"{SVG}path")
        x, y = map(float, path.get("transform", "").removeprefix("translate(").rstrip(")").split())
        places.append((chart.x.fraction(point.x), x, chart.y.fraction(point.y), y))
        assert group.get("data-variant") == point.variant
        assert group.findtext(f"{SVG}title") == point.text
        inside, edge = path.get("fill"), path.get("stroke")
        colour = f"var(--s{point.series})" if point.series else "var(--soft)"
        assert (inside, edge) == (("var(--paper)", colour) if point.hollow else (colour, "var(--paper)"))
    for across, up in ((0, 1), (2, 3)):
        (low, first), (high, last) = (f((p[across], p[up]) for p in places) for f in (min, max))
        assert high > low
        slope = (last - first) / (high - low)
        assert [p[up] for p in places] == pytest.approx([first + slope * (p[across] - low) for p in places], abs=0.01)
        assert slope > 300 if across == 0 else slope < -300


def test_no_style_is_inline_and_every_colour_has_a_dark_one() -> None:
    """The page forbids inline styles, and its style sheet has two colours for each variable."""
    text = svg(_charts()["roofline"], 640)
    assert "style=" not in text and "#" not in text
    assert {"var(--paper)", "var(--soft)", "var(--rule)", "var(--s3)"} <= set(re.findall(r"var\(--\w+\)", text))


def test_the_same_chart_is_the_same_text() -> None:
    chart = _charts()["samples"]
    assert svg(chart, 344) == svg(chart, 344)


def test_without_matplotlib_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (lambda: svg(_charts()["roofline"], 640), lambda: png([_charts()["roofline"]])):
        with pytest.raises(PolyDLError, match="matplotlib, which is not installed") as caught:
            draw()
        assert "polydl[report]" in str(caught.value.hint) and "--format md" in str(caught.value.hint)


def test_hostile_text_stays_text_in_svg() -> None:
    run = hostile_run()
    root = ET.fromstring(document(charts(run.scops[0], run.machine)).encode())
    kinds = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert kinds <= {"svg", "g", "path", "rect", "text", "title", "desc", "style"}
    assert not any(key.startswith("on") for element in root.iter() for key in element.attrib)
