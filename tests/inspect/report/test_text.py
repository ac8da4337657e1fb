"""Markdown and CSV, and the picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from matplotlib.image import imread

from polydl.inspect.report.draw import png
from polydl.inspect.report.figures import charts
from polydl.inspect.report.markdown import markdown, variants_csv
from polydl.inspect.report.record import ORIGINAL
from tests.inspect.report.runs import HOSTILE, golden_run, golden_scop, hostile_run, with_scop


def test_markdown(golden: Callable[[str, str], None]) -> None:
    golden("report.md", markdown(golden_run()))


def test_hostile_text_is_text_in_markdown() -> None:
    text = markdown(hostile_run())
    outside = [part for n, part in enumerate(text.split("```")) if n % 2 == 0]
    assert not any("<script" in part.replace("\\<", "") for part in outside)
    rows = [line for line in text.splitlines() if line.startswith("| ") and HOSTILE[:3] in line.replace("\\", "")]
    assert rows
    fences = with_scop(before="```\n# heading\n````")
    assert "`````c\n```\n# heading\n````\n`````" in markdown(fences)


def test_csv_has_a_line_for_every_variant() -> None:
    scop = golden_scop()
    rows = list(csv.DictReader(io.StringIO(variants_csv(golden_run()))))
    assert [r["variant"] for r in rows] == [ORIGINAL, *(v.id for v in scop.ranked)]
    by_id = {r["variant"]: r for r in rows}
    assert len(by_id) == len(rows)
    for m in scop.variants():
        row = by_id[m.id]
        assert row["median_seconds"] == ("" if m.median is None else repr(m.median))
        assert row["status"] == m.status
        assert row["samples"] == str(len(m.samples))
        assert all(row[f"score_{name}"] == repr(score.score) for name, score in m.scores.items())
    assert [r["variant"] for r in rows if r["chosen"] == "yes"] == [scop.chosen]
    unmeasured = [v for v in scop.ranked if by_id[v.id]["status"] == "not measured"]
    assert len(unmeasured) == len(scop.ranked) - len(scop.measured)
    assert all(by_id[v.id]["median_seconds"] == "" for v in unmeasured)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x"])
def test_csv_holds_no_formulas(text: str) -> None:
    scop = golden_scop()
    ranked = (replace(scop.ranked[0], loops=text, recipe=text), *scop.ranked[1:])
    rows = list(csv.reader(io.StringIO(variants_csv(with_scop(ranked=ranked, function=text)))))
    assert rows[2][-2:] == [f"'{text}", f"'{text}"]
    assert rows[2][0] == f"'{text}"


def test_the_picture_has_all_charts() -> None:
    run = hostile_run()
    drawn = charts(run.scops[0], run.machine)[-3:]
    one, all_of_them = (imread(io.BytesIO(png(some))) for some in (drawn[-1:], drawn))
    assert one.shape[1] == all_of_them.shape[1] == 2 * 680
    assert all_of_them.shape[0] > one.shape[0] * 1.5
    # Every chart has drawn something: no band of the picture as high as a chart is all white.
    blank = (all_of_them[:, :, :3] == 1).all(axis=(1, 2))
    longest, run_length = 0, 0
    for row in blank:
        run_length = run_length + 1 if row else 0
        longest = max(longest, run_length)
    assert longest < 150
