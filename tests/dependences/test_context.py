"""What is known about parameters decides which dependences there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.dependences.analysis import Kind, dependences
from polydl.frontend import load
from polydl.inspect.analyses import parallel_loops

SHIFT = """
void shift(int n, int t, float x[restrict 2 * n])
{{
#pragma polydl assume({known})
#pragma scop
    for (int i = 0; i < n; i++)
        x[i] = x[i] + x[i + t];
#pragma endscop
}}
"""


@pytest.mark.parametrize(
    ("known", "kinds"),
    [
        ("t >= n", set()),
        ("t >= 1", {Kind.WAR, Kind.RAR}),
        ("n >= 1", {Kind.RAW, Kind.WAR, Kind.RAR}),
        ("t >= n - 1 && t >= 1", {Kind.WAR, Kind.RAR}),
    ],
)
def test_shifts(known: str, kinds: set[Kind], tmp_path: Path) -> None:
    path = tmp_path / "shift.c"
    path.write_text(SHIFT.format(known=known))
    (scop,) = load(path, require_sizes=False).scops
    found = dependences(scop)
    assert {d.kind for d in found if d.array == "x" and d.carried_by == "i"} == kinds
    assert parallel_loops(scop, found) == (() if kinds else ("i",))
