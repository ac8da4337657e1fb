"""Expressions of hundreds of terms, as generators write them, and as temporaries become that are put in."""

from __future__ import annotations

from pathlib import Path

import polydl
from tests.efforts import FEW

TERMS = 400


def summed(folder: Path) -> Path:
    terms = " + ".join(f"x[{k % 7}][i] * {k}" for k in range(TERMS))
    file = folder / "f.c"
    loop = f"    for (int i = 0; i < 40; i++)\n        y[i] = {terms};"
    file.write_text(f"void f(const float x[restrict 7][40], float y[restrict 40])\n{{\n{loop}\n}}\n")
    return file


def test_a_long_sum_is_optimized_and_explained(tmp_path: Path) -> None:
    done = polydl.optimize(summed(tmp_path), tmp_path / "out.c", run=False, effort=FEW)
    assert done.output is not None
    assert str(TERMS - 1) in (tmp_path / "out.c").read_text()
    assert polydl.explain(summed(tmp_path), str(polydl.rank(summed(tmp_path)).variants[0].id))
