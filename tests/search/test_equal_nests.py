"""Nests that are equal up to names are searched once, with the same result as one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import polydl
from polydl.dependences.analysis import dependences
from polydl.dependences.equal_nests import first_equal
from polydl.dependences.nests import Nest, nests
from polydl.frontend import load
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.pipeline import with_fused
from polydl.rank import estimator, whole
from polydl.rank.estimator import Estimator
from polydl.rank.traffic import TrafficRanker
from polydl.rank.tree_estimate import tree_estimate
from polydl.search import legal_ways

PRODUCT = "for (int i = 0; i < {m}; i++) for (int j = 0; j < 48; j++) for (int k = 0; k < 32; k++) {c} += {a} * {b};\n"
FIRST = PRODUCT.format(m=40, c="C[i][j]", a="A[i][k]", b="B[k][j]")
HEAD = (
    "void f(float A[restrict 40][32], float B[restrict 32][48], float C[restrict 40][48], float D[restrict 40][32],\n"
    "       float E[restrict 32][48], float F[restrict 40][48], double G[restrict 32][48], float H[restrict 32][64])\n"
)


def scop_of(folder: Path, *loops: str) -> Scop:
    path = folder / "f.c"
    path.write_text(f"{HEAD}{{\n#pragma scop\n{''.join(loops)}#pragma endscop\n}}\n")
    (found,) = load(path).scops
    return found


def found_in(scop: Scop) -> Mapping[str, str]:
    parts = nests(scop, dependences(scop, reads=False))
    return {name: one.name for name, one in first_equal(scop, parts).items()}


@pytest.mark.parametrize(
    ("second", "equal"),
    [
        (PRODUCT.format(m=40, c="F[i][j]", a="D[i][k]", b="E[k][j]"), True),
        (PRODUCT.format(m=40, c="F[i][j]", a="A[i][k]", b="B[k][j]"), True),
        (PRODUCT.format(m=40, c="C[i][j]", a="D[i][k]", b="E[k][j]"), True),
        (PRODUCT.format(m=39, c="F[i][j]", a="D[i][k]", b="E[k][j]"), False),
        (PRODUCT.format(m=40, c="F[i][j]", a="E[k][j]", b="D[i][k]"), False),  # other operands
        (PRODUCT.format(m=40, c="F[i][j]", a="D[i][k]", b="G[k][j]"), False),  # another type
        (PRODUCT.format(m=40, c="F[i][j]", a="D[i][k]", b="H[k][j]"), False),  # other rows
        (PRODUCT.format(m=40, c="F[i][j]", a="D[i][k]", b="E[k][47 - j]"), False),
        (PRODUCT.format(m=40, c="F[i][j]", a="D[i][k]", b="E[k][j]").replace("+=", "-="), False),
        (PRODUCT.format(m=40, c="F[i][j]", a="A[i][k]", b="A[j % 40][k]"), False),  # one array in two places
        (
            PRODUCT.format(m=40, c="F[i][j]", a="D[i][k]", b="E[k][j]").replace("int k", "int l").replace("k", "l"),
            False,
        ),
    ],
)
def test_equal_up_to_names(tmp_path: Path, second: str, equal: bool) -> None:
    assert found_in(scop_of(tmp_path, FIRST, second)) == {"S0": "S0", "S1": "S0" if equal else "S1"}


SMOOTH = "for (int i = 1; i < 39; i++) for (int j = 1; j < 31; j++) {}[i][j] = {};\n"


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ("0.3f * A[i][j] + 0.7f * A[i][j - 1]", "0.25f * A[i][j] + 0.9f * A[i][j - 1]", True),
        ("0.3f * A[i][j] + 0.3f * A[i][j - 1]", "0.25f * A[i][j] + 0.25f * A[i][j - 1]", True),
        ("0.3f * A[i][j] + 0.3f * A[i][j - 1]", "0.25f * A[i][j] + 0.9f * A[i][j - 1]", False),  # one number or two
        ("0.3f * A[i][j]", "0.3 * A[i][j]", False),  # of another type
        ("0.3f * A[i][j]", "2.0f * A[i][j]", False),
        ("0.3f * A[i][j]", "0.0f * A[i][j]", False),
        ("A[i][j] / 0.3f", "A[i][j] / 0.5f", False),  # a power of two is multiplied by
    ],
)
def test_equal_up_to_numbers(tmp_path: Path, first: str, second: str, equal: bool) -> None:
    loops = SMOOTH.format("D", first), SMOOTH.format("D", second)
    assert found_in(scop_of(tmp_path, *loops)) == {"S0": "S0", "S1": "S0" if equal else "S1"}


ROWS_OF = "for (int i = 0; i < 40; i++) {{ {t} = 0; for (int k = 0; k < 32; k++) {t} += {a}[i][k]; {out} = {t}; }}\n"


@pytest.mark.parametrize(
    ("second", "equal"),
    [
        (ROWS_OF.format(t="u[i]", a="D", out="F[i][0]"), True),
        (ROWS_OF.format(t="u[i]", a="own", out="F[i][0]"), True),  # that others know, wherever it lies
        (ROWS_OF.format(t="u[i]", a="D", out="wide[i][0]"), True),
        (ROWS_OF.format(t="last[i]", a="D", out="F[i][0]"), False),  # no temporary of the nest alone
    ],
)
def test_arrays_that_others_know_lie_anywhere(tmp_path: Path, second: str, equal: bool) -> None:
    path = tmp_path / "f.c"
    begin, end = (
        "for (int i = 0; i < 40; i++) own[i][3] = 1;\n",
        "for (int i = 0; i < 40; i++) C[i][1] = last[i] + wide[i][0];\n",
    )
    first = ROWS_OF.format(t="t[i]", a="A", out="C[i][0]")
    statics = "static float own[40][32], wide[40][48], t[40], u[40], last[40];\n"
    path.write_text(f"{HEAD}{{\n{statics}#pragma scop\n{begin}{first}{second}{end}#pragma endscop\n}}\n")
    (found,) = load(path).scops
    same = found_in(found)
    assert same["S1"] == "S1" and same["S4"] == ("S1" if equal else "S4")


def test_values_that_name_their_statement_are_not_compared(tmp_path: Path) -> None:
    loop = "for (int i = 0; i < 40; i++) for (int j = 0; j < 48; j++) {}[i][j] = i + j;\n"
    assert found_in(scop_of(tmp_path, loop.format("C"), loop.format("F"))) == {"S0": "S0", "S1": "S1"}


STEP = (
    "for (int i = 1; i < {n}; i++) for (int j = 1; j < {n}; j++) {b}[i][j] = {c}f * ({a}[i - 1][j] + {a}[i][j + 1]);\n"
)


def test_whole_programs_are_estimated_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each variant with rows, fused or not, nests by nests: with equal ones once, and each by itself."""
    body = "".join(
        STEP.format(n=1500, a=a, b=b, c=c) for a, b, c in (("A", "B", 0.3), ("B", "A", 0.4), ("A", "C", 0.7))
    )
    path = tmp_path / "steps.c"
    names = ", ".join(f"float {name}[restrict 1501][1501]" for name in "ABC")
    path.write_text(f"void steps({names})\n{{\n#pragma scop\n{body}#pragma endscop\n}}\n")
    o = Options(machine="epyc-zen5", threads=2)
    (scop,) = load(path).scops
    found = with_fused(polydl.rank(scop, options=o), o).variants
    origin = next(variant.origin for variant in found if any(part.rows for part in variant.parts))
    program = origin.scop
    parts = nests(program, origin.dependences)
    own = [one for one in found if one.program is program]
    made: list[object] = []

    def counted(*given: object) -> object:
        made.append(given)
        return tree_estimate(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(whole, "tree_estimate", counted)
    each, together = (
        Estimator(program, parts, o.target(), 2, TrafficRanker(), equal)
        for equal in ({nest.name: nest.name for nest in parts}, None)
    )
    expected = [each.whole(one.tree) for one in own]
    one_by_one = len(made)
    assert [together.whole(one.tree) for one in own] == expected
    assert len(made) - one_by_one < 0.75 * one_by_one
    assert [together.alone(part) for part in own[0].parts] == [each.alone(part) for part in own[0].parts]


def alone(scop: Scop, parts: Sequence[Nest]) -> Mapping[str, Nest]:
    """No nest is taken for equal to another."""
    return {nest.name: nest for nest in parts}


def ranked(scop: Scop) -> list[tuple[str, float, dict[str, float]]]:
    ranking = polydl.rank(scop, "default", "epyc-zen5", threads=2)
    return [(variant.id, variant.score, dict(variant.features)) for variant in ranking.variants]


LAYER = "for (int i = 0; i < 300; i++) for (int j = 0; j < 600; j++) for (int k = 0; k < 600; k++) {} += {} * {};\n"
RELU = "for (int i = 0; i < 300; i++) for (int j = 0; j < 600; j++) {0} = {0} > 0 ? {0} : 0;\n"


def layers(folder: Path) -> Scop:
    """Three equal products with what runs between them, of which data come from other levels of the caches."""
    names = [("X", "W"), ("P", "V"), ("Q", "U")]
    body = "".join(
        LAYER.format(f"{out}[i][j]", f"{x}[i][k]", f"{w}[k][j]") + RELU.format(f"{out}[i][j]")
        for (x, w), out in zip(names, "PQR", strict=True)
    )
    given = ", ".join(f"float {name}[restrict {600 if name in 'WVU' else 300}][600]" for name in "XWVUPQR")
    path = folder / "layers.c"
    path.write_text(f"void layers({given})\n{{\n#pragma scop\n{body}#pragma endscop\n}}\n")
    (found,) = load(path).scops
    return found


def test_the_result_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scop = layers(tmp_path)
    parts = nests(scop, dependences(scop, reads=False))
    assert [first_equal(scop, parts)[nest.name].name for nest in parts] == ["S0", "S1", "S0", "S1", "S0", "S1"]
    together = ranked(scop)
    monkeypatch.setattr(legal_ways, "first_equal", alone)
    monkeypatch.setattr(estimator, "first_equal", alone)
    assert ranked(scop) == together
    assert len(together) > 1000
