"""Vector loops in whose iterations instances meet in an element only sometimes: gcc loses their order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from polydl import load
from polydl.lower.emit import generate
from polydl.rewrite.canonical import canonical
from polydl.schedule.as_tree import written
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.transforms import Schedule
from polydl.schedule.tree import Band, Run

HEAD = "void f(int n, float a[restrict 32][32], float x[restrict 32], float y[restrict 32])"


@pytest.mark.parametrize(
    ("body", "vector"),
    [
        pytest.param("a[i][3] = x[i]; y[i] = a[i][3];", True, id="always"),
        pytest.param("a[i][3] = x[i]; y[i] = a[i][4];", True, id="never"),
        pytest.param("a[i][3] = x[i]; y[i] = a[i][i];", False, id="in one iteration"),
        pytest.param("y[i] = a[i][i]; a[i][3] = x[i];", False, id="in one iteration, the read first"),
        pytest.param("a[i][i] = x[i]; a[i][3] = y[i];", False, id="two writes"),
        pytest.param("x[i] = 1; if (i < n) y[i] = x[i];", True, id="where both run"),
        pytest.param("for (int j = 0; j < 4; j++) a[i][j] = a[i][0] + j;", True, id="the iterations inside, always"),
        pytest.param(
            "for (int j = 0; j < 4; j++) { float t = a[i][i] * j; a[i][j] = t > 9.0f ? 9.0f : t; }",
            False,
            id="the iterations inside",
        ),
        pytest.param("for (int j = 0; j < 4; j++) a[i][j] += a[i][j + 1];", True, id="neighbours"),
        pytest.param(
            "for (int j = 0; j < 4; j++) { float t = a[i][j] + a[i][i]; a[i][i] = t > 9.0f ? 9.0f : t; }",
            False,
            id="beside what always meets",
        ),
    ],
)
def test_the_order_in_an_iteration(tmp_path: Path, body: str, vector: bool) -> None:
    path = tmp_path / "s.c"
    path.write_text(f"{HEAD}\n{{\n#pragma scop\nfor (int i = 0; i < 32; i++) {{ {body} }}\n#pragma endscop\n}}\n")
    scop = canonical(load(path, require_sizes=False).scops[0]).scop
    node = written(scop.statements)
    assert isinstance(node, Band)
    outer = replace(node.members[0], run=Run.SIMD)
    inner = tuple(replace(member, unroll=True) for member in node.members[1:])
    tree = Band((outer,), Band(inner, node.child)) if inner else Band((outer,), node.child)
    code = generate(scop, program_tree([Ordered.scheduled(scop.statements, Schedule("unroll"), tree)]))
    assert ("omp simd" in code.region or "polydl_row" in code.region) == vector
