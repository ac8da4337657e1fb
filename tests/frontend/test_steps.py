"""Integers and pointers that loops step, as functions of the loops' variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.frontend import load
from tests.frontend.reading import same_map, scop, write

HEAD = "void f(int n, int w, float a[restrict n], float *restrict y, const float *restrict x)"
LOOP = "for (int i = 0; i < n; i++)"


def written(tmp_path: Path, body: str, **sizes: int) -> object:
    found = scop(tmp_path, f"{HEAD} {{ {body} }}", sizes=sizes)
    return write(found.statements[0])


@pytest.mark.parametrize(
    ("body", "relation"),
    [
        (f"int k = 3; {LOOP} {{ y[k] = x[i]; k += 2; }}", "[n] -> { S0[i] -> y[1 + i, 1] : 0 <= i < n }"),
        (f"int k = 3; {LOOP} {{ y[k++] = x[i]; }}", "[n] -> { S0[i] -> y[3 + i] : 0 <= i < n }"),
        (f"int k = 0; {LOOP} y[++k] = x[i];", "[n] -> { S0[i] -> y[1 + i] : 0 <= i < n }"),
        (f"int k = n; {LOOP} {{ k = k - 1; y[k] = x[i]; }}", "[n] -> { S0[i] -> y[n - 1 - i] : 0 <= i < n }"),
        ("int k = 0; for (int i = 8; i > 0; i -= 3) y[k++] = x[i];",
         "[n] -> { S0[i] -> y[k] : 0 < i <= 8 and i + 3k = 8 }"),
        ("unsigned long k = 0; for (int i = 0; i < n; i++) y[k++] = x[i];",
         "[n] -> { S0[i] -> y[i] : 0 <= i < n }"),
        ("int k = 0; for (int i = 0; i < n; i++) for (int j = 0; j < 4; j++) y[k++] = x[i];",
         "[n] -> { S0[i, j] -> y[i, j] : 0 <= i < n and 0 <= j < 4 }"),
        (f"float *p = y; {LOOP} *p++ = x[i];", "[n] -> { S0[i] -> y[i] : 0 <= i < n }"),
        (f"{LOOP} {{ *y = x[i]; y += 2; }}", "[n] -> { S0[i] -> y[i, 0] : 0 <= i < n }"),
        ("for (int i = 0; i < n; i++, y++) y[1] = x[i];", "[n] -> { S0[i] -> y[1 + i] : 0 <= i < n }"),
        (f"{LOOP} {{ float *p = y + i; for (int j = 0; j < 3; j++) *p++ += x[j]; }}",
         "[n] -> { S0[i, j] -> y[i + j] : 0 <= i < n and 0 <= j < 3 }"),
        ("for (int c = 0; c < n; c++) for (int i = c & 1; i < n; i += 2) y[i] = x[i];",
         "[n] -> { S0[c, i] -> y[i] : 0 <= c < n and 0 <= i < n and (i - c) mod 2 = 0 }"),
    ],
)  # fmt: skip
def test_the_element_that_is_written(tmp_path: Path, body: str, relation: str) -> None:
    access = written(tmp_path, body)
    parameters = relation if relation.startswith("[n]") else f"[n] -> {relation}"
    assert same_map(access.relation, parameters)  # type: ignore[attr-defined]


def test_a_second_loop_goes_on(tmp_path: Path) -> None:
    body = "int k = 0; for (int i = 0; i < 5; i++) y[k++] = 1; for (int i = 0; i < n; i++) y[k++] = 2;"
    found = scop(tmp_path, f"{HEAD} {{ {body} }}")
    assert same_map(write(found.statements[1]).relation, "[n] -> { S1[i] -> y[5 + i] : 0 <= i < n }")


def test_rows_of_a_width_that_is_open(tmp_path: Path) -> None:
    """What a loop inside adds is known where it runs, in which alone the integer is used."""
    body = "int k = 0; for (int i = 0; i < n; i++) for (int j = 0; j < w; j++) y[k++] = x[j];"
    found = scop(tmp_path, f"{HEAD} {{ {body} }}")
    assert same_map(
        write(found.statements[0]).relation, "[n, w] -> { S0[i, j] -> y[i, j] : 0 <= i < n and 0 <= j < w }"
    )


@pytest.mark.parametrize(
    "body",
    [
        f"int k = 0; {LOOP} {{ if (x[i] > 0) y[k++] = x[i]; }}",
        f"int k = 0; {LOOP} {{ if (i > 3) k++; y[k] = x[i]; }}",
        f"int k = 0; {LOOP} {{ y[k] = x[i]; k = 2 * k; }}",
        "int k = 0; for (int i = 0; i < n; i++) for (int j = 2; j < i; j++) y[k++] = 1;",
        "int k = 0; for (int i = 0; i < n; i++) { for (int j = 0; j < w; j++) k++; y[k] = 1; }",
        f"unsigned k = 9; {LOOP} {{ y[k] = x[i]; k--; }}",
        f"int k = 0; {LOOP} y[k++] = x[i]; a[k] = 1;",
    ],
)
def test_what_counts_in_another_way_chooses_elements(tmp_path: Path, body: str) -> None:
    path = tmp_path / "k.c"
    path.write_text(f"{HEAD}\n{{\n{body}\n}}\n")
    (found,) = load(path, require_sizes=False).scops
    stores = [access for s in found.statements for access in s.accesses if access.array == "y"]
    assert stores and not any(access.exact for access in stores)


@pytest.mark.parametrize(
    "body",
    [
        f"int k = 0; {LOOP} {{ y[k] = x[i]; k += i; }}",
        f"int k = 0; int *p = &k; {LOOP} {{ y[k] = x[i]; k++; }}",
        f"int k = 0; {LOOP} y[k++] = x[k];",
        f"int k = 0; {LOOP} y[i > 4 ? k++ : 0] = x[i];",
        f"float *p = y; {LOOP} *p++ = x[i]; *p = 1;",
    ],
)
def test_what_is_no_such_integer(tmp_path: Path, body: str) -> None:
    path = tmp_path / "k.c"
    path.write_text(f"{HEAD}\n{{\n{body}\n}}\n")
    try:
        found = load(path, require_sizes=False).scops
    except InputErrors as several:
        assert all(error.span is not None and error.span.line == 3 for error in several.errors)  # noqa: PT017
    else:
        assert all(access.array != "y" for one in found for s in one.statements for access in s.accesses)
