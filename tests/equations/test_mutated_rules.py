"""Rules with a mistake in them: what they propose is refused, and the program stays what it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from polydl.equations import substitution
from polydl.model.scop import Scop
from polydl.rewrite import detiling, expressions, linear, materialise, reduction_fission, reroll, split
from polydl.rewrite.canonical import canonical
from tests.equations.interpreter import left_by, same
from tests.equations.test_equality import PROGRAMS, scop_of

MORE = {
    "not from zero": (
        "for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) { double s = 1;"
        " for (int k = 0; k < 4; k++) s += A[i][k] * B[k][j]; C[i][j] += s; }"
    ),
    "paths": (
        "for (int k = 0; k < 4; k++) for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++)"
        " C[i][j] = C[i][j] < C[i][k] + C[k][j] ? C[i][j] : C[i][k] + C[k][j];"
    ),
    "unrolled": (
        "for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) for (int k = 0; k < 4; k += 2)"
        " { C[i][j] += A[i][k] * B[k][j]; C[i][j] += A[i][k + 1] * B[k + 1][j]; }"
    ),
    "tiled": (
        "for (int ii = 0; ii < 4; ii += 2) for (int i = ii; i < ii + 2; i++) for (int j = 0; j < 4; j++)"
        " C[i][j] = A[i][j] + alpha;"
    ),
    "two products": (
        "for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) for (int k = 0; k < 4; k++)"
        " C[i][j] += A[i][k] * B[j][k] - B[i][k] * A[j][k];"
    ),
}
Real = Callable[..., Any]
MISTAKES: dict[str, tuple[str, ModuleType, str, Callable[[Real], Real]]] = {
    "a subtracted sum is added": ("two sums", linear, "taken_away", lambda real: lambda op: op),
    "a factor is forgotten": (
        "alpha and beta", linear, "_adding", lambda real: lambda s, last, negative, _: real(s, last, negative, ()),
    ),
    "what a sum begins with is forgotten": ("not from zero", materialise, "is_zero", lambda real: lambda value: True),
    "an element next to it": (
        "in place", materialise, "prefix",
        lambda real: lambda s, depth: real(s, depth).subtract(real(s, depth).lexmin()),
    ),
    "another value is substituted": (
        "a hoisted factor", substitution, "stored_value", lambda real: lambda scop, s: real(scop, s).right,
    ),
    "a product is a sum": (
        "fma", expressions, "Binary", lambda real: lambda op, left, right: real("+", left, right),
    ),
    "a piece is forgotten": ("paths", split, "_pieces", lambda real: lambda s, plane: real(s, plane)[1:]),
    "a part is one too far": (
        "unrolled", reroll, "on_instances",
        lambda real: lambda *whole: replace(
            (one := real(*whole)), domain=one.domain.subtract(one.domain.lexmax())
        ),
    ),
    "a tile is left out": (
        "tiled", detiling, "_plainer",
        lambda real: lambda s: replace(s, domain=s.domain.subtract(s.domain.lexmin())),
    ),
    "a term has the wrong sign": (
        "two products", reduction_fission, "summands",
        lambda real: lambda *value, **how: [(one, False) for one, _ in real(*value, **how)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_a_mistake_is_refused(mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, module, function, wrong = MISTAKES[mistake]
    monkeypatch.setitem(PROGRAMS, name, MORE.get(name, PROGRAMS.get(name, "")))
    scop = scop_of(name, tmp_path)
    asked: list[str] = []
    made = wrong(getattr(module, function))

    def counted(*arguments: Any, **named: Any) -> Any:
        asked.append(function)
        return made(*arguments, **named)

    monkeypatch.setattr(module, function, counted)
    found: Scop = canonical(scop).scop
    assert asked, "the rule has been tried"
    assert same(left_by(found), left_by(scop))
