"""Rows that write elements which earlier columns have read."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.kernels import families
from polydl.kernels.innermost import Innermost, RowOptions, printed
from polydl.kernels.row_loops import RowLoops, RowStatement
from polydl.kernels.vector_text import NotVectorised
from polydl.model import isl
from polydl.model.time import map_from_affs
from tests.frontend.reading import scop
from tests.oracle.native import compile_c

FUNCTION = """#include <math.h>
void f(float *restrict a, float *restrict b)
{{
    for (int {loop}) {{ {body} }}
}}
"""
UP = "i = 8; i < 408; i++"
DOWN = "i = 407; i >= 8; i--"


def row(folder: Path, loop: str, body: str) -> Innermost:
    found = scop(folder, FUNCTION.format(loop=loop, body=body))
    sign = -1 if loop == DOWN else 1
    statements = [
        RowStatement(s, map_from_affs(s.domain, [aff.scale_val(isl.value(sign)) for aff in isl.coordinates(s.domain)]))
        for s in found.statements
    ]
    return printed(found.arrays, frozenset(), RowLoops((0,), ()), statements, RowOptions())


IN_PLACE = {
    "next": "a[i] = expf(a[i] - a[i + 1]);",
    "far": "a[i] = a[i] * a[i + 3] - a[i + 7];",
    "two statements": "b[i] = a[i + 1] * 0.5f; a[i] = b[i] + a[i];",
    "both": "a[i] = a[i] + b[i + 1]; b[i] = b[i] - a[i];",
}


@pytest.mark.parametrize("body", IN_PLACE.values(), ids=IN_PLACE)
def test_what_is_read_before_it_is_written_is_a_row(body: str, tmp_path: Path) -> None:
    piece = row(tmp_path, UP, body)
    assert piece.in_place
    made = families.row_function(piece)
    assert made is not None
    names = [piece.statements[a.statement].accesses[a.access] for a in made.arguments]
    offsets = [isl.offset(isl.pieces(isl.components(one.relation.as_pw_multi_aff())[0])[0][1]) for one in names]
    given = ", ".join(f"{one.array} + 8 + {offset}" for one, offset in zip(names, offsets, strict=True))
    call = f"{made.name}(n, {given});"
    loop = f"for (long i = 8; i < 8 + n; i++) {{ {body} }}"
    texts = [
        f"void {name}(long n, float *a, float *b) {{ {run} (void)b; }}"
        for name, run in (("before", loop), ("after", call))
    ]
    check = """
    int differ(void)
    {
        static float a[2][440], b[2][440];
        for (long n = 0; n < 420; n++) {
            for (int s = 0; s < 2; s++) for (int i = 0; i < 440; i++) a[s][i] = i % 13 * 0.25f, b[s][i] = i % 7 * 0.5f;
            before(n, a[0], b[0]), after(n, a[1], b[1]);
            for (int i = 0; i < 440; i++)
                if (!(fabsf(a[0][i] - a[1][i]) <= 1e-5f * fabsf(a[0][i]) && b[0][i] == b[1][i])) return 1 + n;
        }
        return 0;
    }
    """
    text = "\n".join(("#include <math.h>", "#include <stddef.h>", *made.prologue, made.text, *texts, check))
    for machine in ("-march=x86-64", "-march=x86-64-v3", "-march=native"):
        assert compile_c([text], ("-std=gnu11", "-O2", "-ffp-contract=off", machine)).differ() == 0


@pytest.mark.parametrize(
    ("loop", "body"),
    [
        (UP, "a[i] = a[i] + a[i - 1];"),
        (UP, "a[i + 1] = a[i] * 2;"),
        (UP, "a[i] = a[i + 1] + a[i - 1];"),
        (UP, "a[i] = b[i]; a[i + 1] = b[i + 1];"),
        (DOWN, "a[i] = a[i] + a[i + 1];"),
        (DOWN, "a[i] = a[i] + a[i - 1];"),  # legal, downwards
        (UP, "b[i] = a[i + 1]; a[i] = b[i - 1];"),
    ],
)
def test_others_are_none(loop: str, body: str, tmp_path: Path) -> None:
    with pytest.raises(NotVectorised):
        row(tmp_path, loop, body)


def test_other_families_are_not_asked(tmp_path: Path) -> None:
    piece = row(tmp_path, UP, IN_PLACE["next"])
    assert [type(one).__name__ for one in families._asked(piece)] == ["GeneralRow"]
