"""Strides against addresses that are counted out, and questions about literals."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from polydl.model import isl
from polydl.model.expr import AffineValue, Const, Load, Unary, is_zero
from polydl.model.scop import Scop, Statement
from polydl.model.strides import ByExtents, affine_rows, known_strides, strides_of
from polydl.model.types import literal_value
from tests.frontend.reading import scop

PACKAGE = Path(__file__).parents[2] / "polydl"
SUBSCRIPTS = [
    "A[i][j]",
    "A[j][i]",
    "A[2 * i + j][j]",
    "A[3][2 * j + 1]",
    "A[i + j][i - j + 9]",
    "B[10 * i + j]",
    "C[0]",
]


def program(
    folder: Path, place: str, head: str = "float A[40][20], float B[200], float C[1]"
) -> tuple[Scop, Statement]:
    found = scop(
        folder, f"void f({head})\n{{ for (int i = 0; i < 9; i++) for (int j = 0; j < 9; j++) {place} = 1; }}\n"
    )
    return found, found.statements[0]


def address(found: Scop, statement: Statement, at: tuple[int, int]) -> int:
    """Elements from the array's start to what an instance writes, in C's order."""
    access = statement.accesses[0]
    i, j = at
    point = access.relation.intersect_domain(isl.Set(f"{{ {statement.name}[{i}, {j}] }}"))
    total = 0
    for dimension, extent in enumerate(found.arrays[access.array].shape):
        low = isl.least(point.range(), dimension)
        assert low is not None
        total = total * (extent or 0) + low
    return total


@pytest.mark.parametrize("place", SUBSCRIPTS)
def test_strides_are_differences_of_addresses(place: str, tmp_path: Path) -> None:
    found, statement = program(tmp_path, place)
    strides = known_strides(found, statement, statement.accesses[0])
    assert strides is not None and strides == strides_of(found, statement, statement.accesses[0])
    for i, j in itertools.product((0, 3, 7), repeat=2):
        here = address(found, statement, (i, j))
        assert strides["i"] == address(found, statement, (i + 1, j)) - here
        assert strides["j"] == address(found, statement, (i, j + 1)) - here


@pytest.mark.parametrize("place", ["A[i % 3][j]", "A[i / 2][j]", "A[i < 4 ? i : 8 - i][j]"])
def test_no_single_stride(place: str, tmp_path: Path) -> None:
    found, statement = program(tmp_path, place)
    assert strides_of(found, statement, statement.accesses[0]) is None
    assert affine_rows(statement, statement.accesses[0]) is None


def test_strides_by_extents(tmp_path: Path) -> None:
    found, statement = program(tmp_path, "A[2 * i][j]", "int n, float A[40][n]")
    access = statement.accesses[0]
    assert strides_of(found, statement, access) == {"i": ByExtents("A", (2, 0)), "j": 1}
    assert known_strides(found, statement, access) is None


def test_a_start_that_sizes_move(tmp_path: Path) -> None:
    """It changes no stride; what tells rows and constants needs to know it."""
    found, statement = program(tmp_path, "A[i + n][j]", "int n, float A[40][20]")
    assert known_strides(found, statement, statement.accesses[0]) == {"i": 20, "j": 1}
    assert affine_rows(statement, statement.accesses[0]) is None


def test_literal_zeros() -> None:
    assert all(is_zero(Const(text)) for text in ("0", "0.0f", "0.", "0u", "0L", "-0.0", "0e5"))
    assert is_zero(Const("0.0"), signed=False) and not is_zero(Const("-0.0"), signed=False)
    others = [Const("1"), Const("1e-300"), Const("INFINITY"), Const("0x0.8p0"), Load(0), Unary("-", Const("0"))]
    assert not any(map(is_zero, [*others, AffineValue(isl.PwAff("{ [0] }"))]))
    assert [literal_value(text) for text in ("2.5f", "10ull", "x", "M_PI")] == [2.5, 10.0, None, None]


def test_said_once() -> None:
    """No other module takes suffixes off literals to see what they are."""
    found = [p.name for p in PACKAGE.rglob("*.py") if 'rstrip("fFlLuU")' in p.read_text(encoding="utf-8")]
    assert found == ["types.py"]
