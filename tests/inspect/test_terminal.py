"""What is printed for people: tables that fit a page, words instead of names of ours, and the reason of a choice."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path

import pytest

import polydl
from polydl import pipeline
from polydl.base.units import difference_text
from polydl.inspect.documents import flops
from polydl.inspect.terminal import WIDTH, page, show_optimized
from polydl.measure import Measurement, Report, Status
from polydl.schedule.transforms import Schedule

WAVE = """
void wave(double A[restrict 40][60][60], double B[restrict 40][60][60]) {
#pragma scop
  for (int t = 1; t < 9; t++)
    for (int i = 1; i < 39; i++)
      for (int j = 1; j < 59; j++)
        for (int k = 1; k < 59; k++)
          A[i][j][k] = 0.25 * (A[i - 1][j][k] + A[i][j + 1][k] + A[i][j][k - 1] + B[i][j][k]);
#pragma endscop
}
"""


def timed(name: str, seconds: float, spread: float = 0.0) -> Measurement:
    return Measurement(
        name, Status.VERIFIED, samples=(seconds,) * 9, median=seconds, undisturbed=seconds, spread=spread,
        speedup=1 / seconds, faster=seconds < 1 if name != "original" else None,
    )  # fmt: skip


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> polydl.OptimizeResult:
    def measured(scop: object, codes: dict[str, object], *more: object) -> Report:
        some = tuple(timed(name, 0.5 - 0.1 * i, spread=33.877) for i, name in enumerate(codes))
        return Report(timed("original", 1.0), some, 0.3, 0, 0, 0)

    monkeypatch.setattr(pipeline, "measure", measured)
    return polydl.optimize(WAVE, tmp_path / "out.c", space="small", machine="epyc-zen5", threads=2, top_k=2, seed=0)


def test_tables_fit_a_page_and_lose_nothing(done: polydl.OptimizeResult) -> None:
    text = io.StringIO()
    show_optimized(done, ran=True, console=page(text))
    lines = text.getvalue().splitlines()
    table = [line for line in lines if any(m.id in line for m in done.scops[0].report.measurements)]  # type: ignore[union-attr]
    assert all(len(line) <= WIDTH for line in table)
    words = "".join(text.getvalue().split())
    variants = {v.id: v for v in done.scops[0].ranking.variants}
    report = done.scops[0].report
    assert report is not None
    for measured in report.measurements:
        assert "".join(variants[measured.id].loops.split())[:20] in words
    assert len(done.scops[0].why_timed) == 2
    for name, reason in done.scops[0].why_timed.items():
        assert f"timed {name}: {reason}" in " ".join(text.getvalue().split())
    assert "> 100 %" in text.getvalue() and "3387" not in text.getvalue()
    assert "spread: of a line's samples, how far apart the middle half lie" in text.getvalue()
    assert "pluto" not in text.getvalue()


def test_operations_are_counted_where_there_is_no_contraction(done: polydl.OptimizeResult) -> None:
    assert flops(done.scops[0].ranking) == 4 * 8 * 38 * 58 * 58


def test_the_reason_of_a_choice() -> None:
    quiet = Report(timed("original", 1.0), (replace(timed("a", 0.5), length=10), timed("b", 0.4)), 0.3, 0, 0, 0)
    short = replace(quiet, measurements=(quiet.measurements[0], replace(quiet.measurements[1], length=20)))
    assert short.best().id == "a"
    assert short.why("a") == "a is within the noise of 30 % of b, and its C is shorter"
    assert short.why("b") == "", "the times did not choose it"
    lucky = replace(quiet, measurements=(replace(timed("a", 0.5), faster=False),))
    assert lucky.why("original") == "a did not win more rounds against the original than chance explains"
    near = replace(quiet, measurements=(timed("a", 0.9),))
    assert near.why("original") == "the advantage of a is within the noise of 30 %"
    assert replace(quiet, noise=0.01).why("b") == ""
    short_lived = Report(timed("original", 1.0), (timed("a", 0.25),), 0.01, 0, 0, 0, resolution=0.8)
    assert short_lived.best().id == "original"
    assert short_lived.why("original") == "a gains 750 ms of a run, and the clock tells no less than 800 ms apart"


def test_schedules_are_named_for_people() -> None:
    assert Schedule("pluto-max", (4, 4, 128), outer=16, unroll=True).described == (
        "fused by isl, tiles of 4x4x128, 16 of them each way in larger ones, short loops written out"
    )
    assert Schedule("skewed", (32,), diagonal=True).described == "skewed in time, tiles of 32, along diagonals"
    assert Schedule("written", (96,), block=(12, 32)).described == "order as written, tiles of 96, microkernel 12x32"
    assert Schedule("file.yaml").described == "file.yaml"


def test_differences_are_said_in_percent_or_as_a_factor() -> None:
    said = [difference_text(x) for x in (0.043, 0.999, 33.877, math.nan)]
    assert said == ["4.3 %", "a factor of 2", "a factor of 35", "-"]
