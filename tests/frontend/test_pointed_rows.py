"""Arrays of pointers to rows become arrays of two dimensions, of what the region reaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from polydl.base.errors import InputErrors
from polydl.frontend import load
from polydl.model.scop import Array, Storage
from tests.frontend.reading import scop

HEAD = "void f(int n, int m, float **A, const double *B[restrict 9], const int *c)"


def array(folder: Path, body: str, name: str = "A", **options: Any) -> Array:
    return scop(folder, f"static float **G;\n{HEAD}\n{{\n{body}\n}}\n", **options).arrays[name]


def test_extents_are_what_is_reached(tmp_path: Path) -> None:
    body = "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) A[i][j] = 0;"
    known = array(tmp_path, body, sizes={"n": 5, "m": 7})
    assert known.shape == (5, 7) and known.layout.strides == (7, 1) and known.declaration == "float A[5][7]"
    assert (
        known.rows is not None
        and known.rows.first == 0
        and str(known.rows.lengths) == "[row] -> { [(7)] : 0 <= row <= 4 }"
    )
    symbolic = array(tmp_path, body)
    assert symbolic.shape == (None, None) and str(symbolic.extents[1]).endswith("{ [(m)] : n > 0 and m > 0 }")
    assert symbolic.rows is not None and symbolic.rows.lengths is None


def test_an_interior_has_a_border(tmp_path: Path) -> None:
    found = array(tmp_path, "for (int i = 1; i < 8; i++) for (int j = 2; j < 8; j++) A[i][j] = B[i][j];")
    assert found.shape == (8, 10) and found.rows is not None and found.rows.first == 1
    const = array(tmp_path, "for (int i = 1; i < 8; i++) for (int j = 2; j < 8; j++) A[i][j] = B[i][j];", "B")
    assert const.declaration == "const double B[8][10]" and not const.restrict


def test_rows_of_a_triangle_are_copied_as_long_as_they_are(tmp_path: Path) -> None:
    found = array(tmp_path, "for (int i = 0; i < 6; i++) for (int j = 0; j <= i; j++) A[i][j] = 0;")
    assert found.rows is not None and str(found.rows.lengths) == "[row] -> { [(1 + row)] : 0 <= row <= 5 }"


def test_what_data_decide_about_is_not_copied(tmp_path: Path) -> None:
    body = "for (int i = 0; i < 6; i++) { A[i][1] = 0; for (int j = 0; j < 6; j++) if (c[j]) A[i][j] += c[j]; }"
    found = array(tmp_path, body)
    assert found.rows is not None and found.rows.lengths is None and found.shape == (6, 6)


def test_globals_are_handed_on_like_parameters(tmp_path: Path) -> None:
    assert array(tmp_path, "for (int i = 0; i < 6; i++) G[i][i] = 0;", "G").storage is Storage.PARAMETER


def test_characters_may_be_parts_of_pointers(tmp_path: Path) -> None:
    code = "void f(char **A) { for (int i = 0; i < 6; i++) A[i][0] = 1; }"
    assert "writing to 'A' leaves the pointers in 'A' alone" in scop(tmp_path, code).assumptions


def test_a_row_that_the_function_points_to_is_not_taken_for_another_array(tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match="'a' points into 'A'"):
        array(tmp_path, "float *a = A[2]; for (int i = 0; i < 6; i++) A[i][0] = a[i];")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("for (int i = 0; i < 6; i++) A[c[i]][0] = 0;", "data choose an element of 'A'"),
        ("for (int i = 0; i < 6; i++) A[i][0] = B[c[i]][0];", "data choose an element of 'B'"),
        ("for (int i = 0; i < 6; i++) A[i][0] = A[i][i - 1];", "may be below 0 of 'A'"),
        ("for (int i = 0; i < 6; i++) A[i] = A[i + 1];", "a row of 'A' is used as a whole"),
        ("for (int i = 0; i < n; i++) A[i][0] = 0;", "no element is reached of 'A'"),
    ],
)
def test_refused(body: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(f"{HEAD}\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    with pytest.raises(InputErrors, match=reason) as caught:
        load(tmp_path / "f.c", sizes={"n": 0} if "< n" in body else {}, require_sizes=False)
    assert all(error.span is not None and error.hint for error in caught.value.errors)
