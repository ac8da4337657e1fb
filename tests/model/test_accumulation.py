"""Reductions are found however they are spelled, with the right combiner, and nothing else is."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from polydl import load
from polydl.model import combiners
from polydl.model.accumulation import Accumulation, accumulation, places
from polydl.model.combiners import Combiner, Regrouping
from polydl.model.scop import Scop

HEAD = (
    "#include <math.h>\n"
    "void f(float m[restrict 4], float x[restrict 9], double d[restrict 9], int k[restrict 4], int p[restrict 9], "
    "unsigned u[restrict 9], signed char b[restrict 9], _Bool t[restrict 4], unsigned char c[restrict 9])"
)


def scop_of(folder: Path, body: str) -> Scop:
    path = folder / "s.c"
    path.write_text(f"{HEAD}\n{{\n#pragma scop\nfor (int i = 0; i < 9; i++) {{ {body} }}\n#pragma endscop\n}}\n")
    return load(path).scops[0]


def found(folder: Path, body: str) -> Accumulation | None:
    scop = scop_of(folder, body)
    return accumulation(scop, scop.statements[-1])


@pytest.mark.parametrize(
    ("body", "row"),
    [
        ("m[0] += x[i];", combiners.SUM),
        ("m[0] = m[0] - x[i];", combiners.SUM),
        ("k[0] = p[i] * k[0];", combiners.PRODUCT),
        ("m[0] = x[i] > m[0] ? x[i] : m[0];", combiners.MAX),
        ("m[0] = m[0] < x[i] ? x[i] : m[0];", combiners.MAX),
        ("m[0] = x[i] < m[0] ? x[i] : m[0];", combiners.MIN),
        ("m[0] = m[0] > x[i] ? x[i] : m[0];", combiners.MIN),
        ("m[0] = p[i] > 2 && x[i] > m[0] ? x[i] : m[0];", combiners.MAX),
        ("m[0] = x[i] > m[0] && p[i] > 2 ? x[i] : m[0];", combiners.MAX),
        ("m[0] = x[i] > m[0] || isnan(m[0]) ? x[i] : m[0];", combiners.MAX_NUMBER),
        ("m[0] = !isnan(x[i]) && (x[i] > m[0] && p[i] > 2) ? x[i] : m[0];", combiners.MAX),
        ("m[0] = p[i] > 2 ? x[i] > m[0] ? x[i] : m[0] : m[0];", combiners.MAX),
        ("m[0] = p[i] > 2 ? m[0] : x[i] < m[0] ? x[i] : m[0];", combiners.MIN),
        ("m[0] = fmaxf(x[i], m[0]);", combiners.FMAX),
        ("m[0] = fminf(m[0], fabsf(x[i]));", combiners.FMIN),
        ("m[0] = d[i] > m[0] ? d[i] : m[0];", combiners.MAX),
        ("k[0] = p[i] >= k[0] ? p[i] : k[0];", combiners.MAX),
        ("k[0] = k[0] > p[i] ? k[0] : p[i];", combiners.MAX),
        ("k[0] = k[0] >= p[i] ? p[i] : k[0];", combiners.MIN),
        ("k[0] = k[0] <= p[i] ? k[0] : p[i];", combiners.MIN),
        ("k[0] = b[i] > k[0] ? b[i] : k[0];", combiners.MAX),
        ("k[0] = k[0] & p[i];", combiners.AND),
        ("k[0] |= u[i];", combiners.OR),
        ("k[0] = p[i] ^ k[0];", combiners.XOR),
        ("t[0] |= p[i];", combiners.OR),
    ],
)
def test_spellings(tmp_path: Path, body: str, row: Combiner) -> None:
    how = found(tmp_path, body)
    assert how is not None and how.combiner is row
    assert len(how.guards) == ("> 2" in body) + ("!isnan" in body)
    if body.startswith(("k", "t")):
        assert how.regrouping is Regrouping.EXACT
    else:
        assert how.regrouping is (Regrouping.FIRST if row.better else Regrouping.ROUNDS)


@pytest.mark.parametrize(
    "body",
    [
        "m[0] = m[0] > x[i] ? m[0] : x[i];",  # forgets m where x is no number
        "m[0] = x[i] >= m[0] ? x[i] : m[0];",  # takes the last of zeros
        "m[0] = x[i] > m[0] ? m[0] : m[0];",
        "m[0] = x[i] > m[0] ? d[i] : m[0];",
        "m[0] = x[i] > m[1] ? x[i] : m[0];",
        "m[0] = m[0] > 2 ? x[i] > m[0] ? x[i] : m[0] : m[0];",  # asks for m itself
        "m[0] = x[i] > m[0] && m[0] > 2 ? x[i] : m[0];",
        "m[0] = x[i] - m[0];",
        "m[0] = fmaxf(m[0], m[0]);",
        "m[0] = fmaf(m[0], x[i], 1.0f);",
        "k[0] += x[i];",  # cut off each time
        "k[0] = x[i] > k[0] ? x[i] : k[0];",
        "k[0] = u[i] > k[0] ? u[i] : k[0];",  # wraps around
        "b[0] = p[i] > b[0] ? p[i] : b[0];",
        "t[0] += p[i];",  # a truth
        "t[0] ^= p[i];",
        "m[0] = x[i];",
    ],
)
def test_what_is_none(tmp_path: Path, body: str) -> None:
    assert found(tmp_path, body) is None


@pytest.mark.parametrize(
    ("body", "function", "values"),
    [
        ("t[0] |= p[i];", lambda t, p: bool(t | p), (0, 1, 2, -4)),
        ("t[0] &= p[i];", lambda t, p: bool(t & p), (0, 1, 2, 3)),
        ("c[0] += p[i];", lambda c, p: (c + p) % 256, (0, 100, -300, 255)),
        ("c[0] *= p[i];", lambda c, p: c * p % 256, (3, 100, -300, 255)),
    ],
)
def test_groups_of_what_wraps_around(
    tmp_path: Path, body: str, function: Callable[[int, int], int], values: tuple[int, ...]
) -> None:
    """Groups start from the neutral value in the type of the target."""
    how = found(tmp_path, body)
    assert how is not None and how.combiner.neutral is not None
    start = int(function(1, -1)) if how.combiner.neutral == "~0" else int(how.combiner.neutral)
    for a, b, c in itertools.product(values, repeat=3):
        for m in (0, 1):
            in_order = function(function(function(m, a), b), c)
            group = function(function(start, b), c)
            assert function(function(m, a), group) == in_order


def test_fast_math_leaves_zeros_open(tmp_path: Path) -> None:
    path = tmp_path / "s.c"
    scop_of(tmp_path, "m[0] = m[0] > x[i] ? m[0] : x[i];")
    (scop,) = load(path, fast_math=True).scops
    how = accumulation(scop, scop.statements[0])
    assert how is not None and how.combiner is combiners.MAX and how.regrouping is Regrouping.EXACT


def test_a_product_of_floats_keeps_its_order(tmp_path: Path) -> None:
    """In another one it may overflow on the way; with --fast-math it is regrouped."""
    path = tmp_path / "s.c"
    assert found(tmp_path, "m[0] = x[i] * m[0];") is None
    (scop,) = load(path, fast_math=True).scops
    how = accumulation(scop, scop.statements[0])
    assert how is not None and how.combiner is combiners.PRODUCT and how.regrouping is Regrouping.ROUNDS


@pytest.mark.parametrize(
    ("condition", "row", "last", "guards"),
    [
        ("x[i] > m[0]", combiners.MAX, False, 0),
        ("m[0] > x[i]", combiners.MIN, False, 0),
        ("x[i] >= m[0]", combiners.MAX, True, 0),
        ("p[i] && m[0] >= x[i]", combiners.MIN, True, 1),
    ],
)
def test_places(tmp_path: Path, condition: str, row: Combiner, last: bool, guards: int) -> None:
    scop = scop_of(tmp_path, f"k[0] = {condition} ? i : k[0]; m[0] += 1;")
    one = next(one for one in places(scop.statements[0]) if one.extreme == "m")
    assert (one.combiner, one.last, len(one.guards)) == (row, last, guards)


def test_no_place(tmp_path: Path) -> None:
    for body in ("k[0] = x[i] > m[0] ? k[0] : i;", "k[0] = x[i] != m[0] ? i : k[0];", "k[0] = k[0] > 2 ? i : k[0];"):
        scop = scop_of(tmp_path, body)
        assert not [one for one in places(scop.statements[0]) if one.extreme == "m"], body
