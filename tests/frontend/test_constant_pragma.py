"""`#pragma polydl constant(W)`: arrays that stay the same from run to run."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.dependences.analysis import dependences
from polydl.dependences.flow import flow
from polydl.dependences.nests import nests
from polydl.frontend import load

CODE = """void f(int n, float W[restrict 9][9], float x[restrict 9], float y[restrict 9])
{{
#pragma scop
#pragma polydl constant({})
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 9; j++)
            y[i] += W[i][j] * x[j];
#pragma endscop
}}
"""


def test_edges_know_it(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(CODE.format("W"))
    (scop,) = load(path).scops
    assert scop.constants == {"W"}
    found = dependences(scop, reads=False)
    edges = flow(scop, nests(scop, found), found).edges
    assert {edge.array: edge.constant for edge in edges} == {"W": True, "x": False}


@pytest.mark.parametrize(
    ("names", "why", "column"),
    [("y", "'y' is written here", 25), ("W, q", "'q' is not an array of this function", 28)],
)
def test_refused(tmp_path: Path, names: str, why: str, column: int) -> None:
    path = tmp_path / "f.c"
    path.write_text(CODE.format(names))
    with pytest.raises(InputErrors, match=why) as raised:
        load(path)
    (error,) = raised.value.errors
    assert error.span is not None
    assert (error.span.line, error.span.column) == (4, column)
