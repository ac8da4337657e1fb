"""Figures in README.md and docs/comparison.md are those of experiments/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

MEASURED = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "experiments").glob("*.md")))


def figures(path: Path) -> list[str]:
    """Every number with a decimal point in the tables of a page."""
    rows = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return [number for row in rows for number in re.findall(r"(?<![\w.])\d+\.\d+(?![\w.])", row)]


@pytest.mark.parametrize("page", ["README.md", "docs/comparison.md"])
def test_figures_stand_in_experiments(page: str) -> None:
    found = figures(ROOT / page)
    assert len(found) > 10
    assert [figure for figure in found if not re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", MEASURED)] == []


def test_rows_of_matrix_products_are_the_measured_ones() -> None:
    """Whole rows, so that no figure stands in the wrong place."""
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+ x \d+ x \d+) \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) == 8
    for size, shown in rows:
        measured = re.findall(rf"^\| {size.replace(' ', '')} \| (.*) \|$", MEASURED, re.MULTILINE)
        assert [row for row in measured if row.split(" | ")[:5] == shown.split(" | ")], (size, measured)
