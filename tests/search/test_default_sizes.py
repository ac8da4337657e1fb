"""Sizes of the tool's choice for programs whose user gave none."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.options import Options
from polydl.pipeline import load_sized

ROWS = """
void f(int n, int k, const float *restrict a, int lda, float *restrict c, int ldc)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            float s = 0;
            for (int l = 0; l < k; l++)
                s += a[i * lda + l] * a[j * lda + l];
            c[i * ldc + j] += s;
        }
}
"""
REFLECTED = """
static int reflect(int i, int n) { return i < 0 ? -i : i >= n ? 2 * n - 2 - i : i; }
void f(int n, int r, const float *restrict x, const float *restrict k, float *restrict y)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int d = -r; d <= r; d++)
                y[i * n + j] += k[d + r] * x[i * n + reflect(j + d, n)];
}
"""


def sizes_of(folder: Path, code: str, **given: int) -> dict[str, int]:
    """The size that each parameter is timed at: a fourth of the greatest one that ways are compared at."""
    path = folder / "f.c"
    path.write_text(code)
    _, options = load_sized(path, Options(sizes=given))
    return {name: one.stop // 4 if isinstance(one, range) else one for name, one in options.sizes.items()}


@pytest.mark.parametrize("given", [{}, {"k": 24}])
def test_leading_dimensions_are_as_long_as_rows(tmp_path: Path, given: dict[str, int]) -> None:
    found = sizes_of(tmp_path, ROWS, **given)
    assert found["n"] > 1 and found["lda"] == found["k"] and found["ldc"] == found["n"]
    assert found["k"] == given.get("k", found["n"])


def test_what_makes_subscripts_understood_is_kept_to(tmp_path: Path) -> None:
    found = sizes_of(tmp_path, REFLECTED)
    assert 0 < found["r"] < found["n"]


def test_what_no_size_makes_affine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match="the subscript is not affine"):
        sizes_of(tmp_path, "void f(int n, float x[n]) { for (int i = 0; i < n; i++) x[i * (n - i)] = 0; }")


def test_subscripts_stay_inside_of_what_is_declared(tmp_path: Path) -> None:
    code = "static double t[300][300];\nvoid f(int n, double *restrict a)\n{\n"
    code += "    for (int i = 0; i < n; i++)\n        for (int j = 0; j < n; j++)\n"
    code += "            t[i][j] += a[i * n + j];\n}\n"
    assert 100 < sizes_of(tmp_path, code)["n"] <= 300


def test_elements_that_data_choose_may_be_anywhere(tmp_path: Path) -> None:
    code = "void f(int n, const unsigned char *a, int *restrict h)\n{\n    for (int i = 0; i < n; i++)\n"
    code += "        for (int j = 0; j < n; j++)\n            h[i * 256 + a[i * n + j]]++;\n}\n"
    assert sizes_of(tmp_path, code)["n"] > 1
