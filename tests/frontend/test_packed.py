"""Packed triangles: counters that grow by rows of different lengths, and subscripts that are polynomials."""

from __future__ import annotations

import re
from pathlib import Path

import islpy as isl
import pytest

from polydl.base.errors import InputErrors
from polydl.frontend import load
from polydl.lower.entry_checks import entry_checks
from polydl.model.at_sizes import at_sizes
from polydl.model.scop import Access, Scop
from tests.frontend.reading import scop

HEAD = "void f(int n, int m, double *restrict p, const double *restrict x, double *restrict y)"
COUNTED = {
    "for (int i = 0; i < n; i++) for (int j = i; j < n; j++) p[k++] = x[j];": 0,
    "for (int i = 0; i < n; i++) for (int j = 0; j <= i; j++) p[k++] = x[j];": 0,
    "for (int i = 0; i < n; i++) for (int j = 0; j < i; j++) { p[k] = x[j]; k += 1; }": 0,
    "for (int i = 0; i < n; i++) for (int j = i + 1; j < n; j++) p[k++] = x[j];": 0,
    "for (int i = 1; i < n; i++) for (int j = i; j >= 1; j--) p[k++] = x[j];": 0,
    "for (int i = n - 1; i >= 0; i--) for (int j = 0; j <= i; j++) p[k++] = x[j];": 0,
    "for (int i = 0; i < n; i++) for (int j = 0; j < i + 3; j++) p[k++] = x[j];": 0,
    "for (int i = 0; i < n; i++) for (int j = i; j < 2 * n; j++) p[k++] = x[j];": 0,
    "for (int i = 0; i < n; i++) for (int j = 0; j <= i; j++) for (int l = 0; l <= j; l++) p[k++] = x[l];": 0,
    "for (int i = 0; i < n; i++) for (int j = 0; j <= i; j++) for (int l = 0; l <= i; l++) p[k++] = x[l];": 0,
    "for (int i = 0; i < n; i++) for (int j = i; j < n; j++) for (int l = 0; l < 3; l++) p[k++] = x[l];": 0,
    "for (int i = 0; i < n; i++) { int j = i; do { p[k++] = x[j]; } while (++j < n); }": 0,
    "for (int i = 0; i < n; i++) { for (int j = i; j < n; j++) p[k++] = x[j]; k += 2; }": None,
}
"""Nests that count with k -> the address of the first element; None: not every address is used."""


def addresses(found: Scop, access: Access, iterators: tuple[str, ...], descending: frozenset[str]) -> list[int]:
    """Addresses of what an access of a program without parameters touches, in the order of its iterations."""
    points: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def add(point: isl.Point) -> None:
        values = [int(point.get_coordinate_val(isl.dim_type.set, d).to_python()) for d in range(width)]
        inside, element = values[: len(iterators)], values[len(iterators) :]
        time = tuple(-v if name in descending else v for name, v in zip(iterators, inside, strict=True))
        points.append((time, tuple(element)))

    wrapped = access.relation.wrap().flatten()
    width = wrapped.dim(isl.dim_type.set)
    wrapped.foreach_point(add)
    layout = found.arrays[access.array].layout
    return [layout.offset(element) for _, element in sorted(points)]


@pytest.mark.parametrize("body", COUNTED)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_each_element_has_the_place_that_the_counter_says(tmp_path: Path, body: str, n: int) -> None:
    found = at_sizes(scop(tmp_path, f"{HEAD} {{ int k = 0; {body} }}"), {"n": n})
    (statement,) = found.statements
    (written,) = (access for access in statement.accesses if access.write)
    places = addresses(found, written, statement.iterators, statement.descending)
    assert places == sorted(set(places))
    assert COUNTED[body] is None or places == list(range(len(places)))


@pytest.mark.parametrize(
    ("body", "subscripts"),
    [
        # a triangular solve: elements and diagonal
        (
            (
                "for (int i = 0; i < n; i++) { for (int j = 0; j < i; j++) y[i] -= p[i * (i + 1) / 2 + j] * y[j];"
                " y[i] /= p[i * (i + 1) / 2 + i]; }"
            ),
            ["[n] -> { S0[i, j] -> p[i, j] : 0 <= j < i < n }", "[n] -> { S1[i] -> p[i, i] : 0 <= i < n }"],
        ),
        # by columns
        (
            "for (int i = 0; i < n; i++) for (int j = i; j < n; j++) y[i] += p[i + j * (j + 1) / 2];",
            ["[n] -> { S0[i, j] -> p[j, i] : 0 <= i <= j < n }"],
        ),
        # both halves of what is symmetric
        (
            (
                "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++)"
                " y[i] += j <= i ? p[i * (i + 1) / 2 + j] : p[j * (j + 1) / 2 + i];"
            ),
            [
                "[n] -> { S0[i, j] -> p[i, j] : 0 <= j <= i < n }",
                "[n] -> { S0[i, j] -> p[j, i] : 0 <= i < j < n }",
            ],
        ),
        # rows from the end: where rows begin to count, and where columns do, is open
        (
            "for (int l = 0; l < n; l++) for (int j = 0; j < n - l; j++) y[l] += p[(n - 1 - l) * (n - l) / 2 + j];",
            ["[n] -> { S0[l, j] -> p[2 * n - l, l + j - 2 * n] : 0 <= l and 0 <= j < n - l }"],
        ),
        # every second element of every third row
        (
            "for (int i = 0; i < n; i += 3) for (int j = 0; j <= i; j += 2) y[i] += p[i * (i + 1) / 2 + j];",
            ["[n] -> { S0[i, j] -> p[i, j] : 0 <= j <= i < n and i mod 3 = 0 and j mod 2 = 0 }"],
        ),
        # a shift in place of a division
        (
            "for (int i = 0; i < n; i++) for (int j = 0; j <= i; j++) y[i] += p[(i * (i + 1) >> 1) + j];",
            ["[n] -> { S0[i, j] -> p[i, j] : 0 <= j <= i < n }"],
        ),
    ],
)
def test_the_same_layout_by_hand(tmp_path: Path, body: str, subscripts: list[str]) -> None:
    found = scop(tmp_path, f"{HEAD} {{ {body} }}")
    assert found.arrays["p"].layout.packed is not None
    relations = [a.relation for s in found.statements for a in s.accesses if a.array == "p"]
    expected = [isl.Map(text) for text in subscripts]
    assert len(relations) == len(expected)
    for one, other in zip(relations, expected, strict=True):
        assert one.is_equal(other)


REFUSED = {
    "p[i * (i + 1) / 2 + j]": "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) p[i * (i + 1) / 2 + j] = x[j];",
    "p[i * (i + 1) / 3 + j]": "for (int i = 0; i < n; i++) for (int j = 0; j <= i; j++) p[i * (i + 1) / 3 + j] = x[j];",
    "p[(unsigned)i * (i - 3u) / 2 + j]": "for (int i = 0; i < n; i++) for (int j = 0; j <= i; j++)"
    " p[(unsigned)i * (i - 3u) / 2 + j] = x[j];",
    "p[k * 1]": "int k = 0, l = 0; for (int i = 0; i < n; i++) {"
    " for (int j = i; j < n; j++) { p[k * 1] = x[j]; k += l; } l++; }",
}
MESSAGES = {
    "p[i * (i + 1) / 2 + j]": "no packed shape of 'p' is proven",
    "p[i * (i + 1) / 3 + j]": "it multiplies 'i'",
    "p[(unsigned)i * (i - 3u) / 2 + j]": "may go below zero",
    "p[k * 1]": "no packed shape of 'p' is proven",
}


@pytest.mark.parametrize("access", REFUSED)
def test_what_is_not_shown_to_be_one_to_one_is_refused(tmp_path: Path, access: str) -> None:
    with pytest.raises(InputErrors, match=re.escape(MESSAGES[access])) as caught:
        scop(tmp_path, f"{HEAD}\n{{ {REFUSED[access]} }}")
    assert all(error.span is not None and error.hint for error in caught.value.errors)


def test_rows_that_are_shown_to_have_elements(tmp_path: Path) -> None:
    body = "int k = 0;\n#pragma scop\n#pragma polydl assume(m >= 0)\nfor (int i = 0; i < n; i++)\n"
    body += "for (int j = 0; j < m + i; j++) p[k++] = x[j];\n#pragma endscop\n"
    assert scop(tmp_path, f"{HEAD} {{ {body} }}").arrays["p"].layout.packed is not None


def test_a_counter_that_is_read_behind_the_region(tmp_path: Path) -> None:
    """It is data, which chooses elements."""
    loops = "for (int i = 0; i < n; i++) for (int j = i; j < n; j++) p[k++] = i;"
    found = scop(tmp_path, f"int f(int n, double *p) {{ int k = 0; {loops} return k; }}")
    assert found.arrays["p"].layout.packed is None and "k" in found.live_out


def test_the_value_of_a_counter(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        f"{HEAD} {{ int k = 7; for (int i = 0; i < n; i++) for (int j = 0; j <= i; j++) {{ p[k] = k; k++; }} }}",
    )
    assert found.arrays["p"].layout.packed is not None and {*found.arrays} == {"p"}


def test_where_it_may_overlap_others(tmp_path: Path) -> None:
    """The output asks from the first element that is touched to the last one."""
    loops = "for (int i = 0; i < n; i++) for (int j = i; j < n; j++) p[k++] = A[i * n + j];"
    code = f"void f(int n, double *A, double *p) {{ int k = 0; {loops} }}"
    path = tmp_path / "o.c"
    path.write_text(code)
    (found,) = load(path, require_sizes=False, rows_fit=True).scops
    (check,), _ = entry_checks(at_sizes(found, {"n": 10}))
    assert found.apart and "sizeof(double)" in check.condition and "55 * sizeof(double)" in check.condition
