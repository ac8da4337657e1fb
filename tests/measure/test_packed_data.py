"""Data of packed matrices."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from polydl.frontend import load
from polydl.measure.input_data import _diagonal, _layout
from polydl.model import isl

SOLVE = """void f(int n, const double *restrict ap, double *restrict x)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++)
            x[i] -= ap[i * (i + 1) / 2 + j] * x[j];
        x[i] /= ap[i * (i + 1) / 2 + i];
    }
}
"""


def test_as_many_elements_as_are_used_and_a_diagonal(tmp_path: Path) -> None:
    path = tmp_path / "solve.c"
    path.write_text(SOLVE)
    (scop,) = load(path, sizes={"n": 5}).scops
    array = scop.arrays["ap"]
    assert _layout(scop, [array]).shape == (15,)
    diagonal = _diagonal(scop, array)
    assert diagonal is not None
    places = sorted(array.layout.offset(point) for point in isl.points(diagonal))
    assert np.array_equal(places, [0, 2, 5, 9, 14])
    assert _diagonal(scop, scop.arrays["x"]) is None
