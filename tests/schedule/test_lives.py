"""Values of private scalars may not live at the same time: the check against an enumeration of all instances."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from polydl import load
from polydl.dependences.analysis import Kind, dependences
from polydl.dependences.legality import InTime
from polydl.dependences.scalars import private_scalars
from polydl.model import isl
from polydl.schedule.tree_check import _mixed

N = 3
PROGRAM = f"""
void f(float b[restrict {N}][{N}], const float a[restrict {N}][{N}])
{{
#pragma scop
    for (int i = 0; i < {N}; i++)
        for (int j = 0; j < {N}; j++) {{
            float s = 0;
            for (int k = 0; k < {N}; k++)
                s += a[i][k];
            b[i][j] = s;
        }}
#pragma endscop
}}
"""
TIMES = {
    "as written": ("[i, j, 0, 0]", "[i, j, 1, k]", "[i, j, 2, 0]"),
    "interchanged": ("[j, i, 0, 0]", "[j, i, 1, k]", "[j, i, 2, 0]"),
    "each loop by itself": ("[0, i, j, 0]", "[1, i, j, k]", "[2, i, j, 0]"),
    "the inner one by itself": ("[i, 0, j, 0]", "[i, 1, j, k]", "[i, 2, j, 0]"),
    "sums outside": ("[i, 0, j, 0]", "[i, k, j, 1]", f"[i, {N}, j, 2]"),
    "one time for all that begins alike": ("[0, i, j, 0]", "[0, i, j, 1 + k]", f"[0, i, j, {N + 1}]"),
    "what begins alike is not the same": ("[i, 0, j, 0]", "[i, 0, j, k + 1]", f"[i, 0, j, {N + 2}]"),
    "backwards": ("[-i, -j, 0, 0]", "[-i, -j, 1, k]", "[-i, -j, 2, 0]"),
    "skewed": ("[i, i + j, 0, 0]", "[i, i + j, 1, k]", "[i, i + j, 2, 0]"),
    "two at a time": ("[i, 0, 0, 0]", "[i, 0, 1, k]", "[i, 0, 2, 0]"),
}


def times(texts: tuple[str, ...]) -> dict[str, isl.Map]:
    given = ("S0[i, j]", "S1[i, j, k]", "S2[i, j]")
    return {f"S{at}": isl.Map(f"{{ {of} -> {text} }}") for at, (of, text) in enumerate(zip(given, texts, strict=True))}


def overlap(texts: tuple[str, ...]) -> bool:
    """Whether another iteration writes between a write and a read of what it wrote."""

    def at(text: str, cell: tuple[int, int], k: int = 0) -> tuple[int, ...]:
        return tuple(eval(text, {"i": cell[0], "j": cell[1], "k": k}))

    zero, add, store = texts
    cells = list(product(range(N), range(N)))
    writes = [(c, at(zero, c)) for c in cells] + [(c, at(add, c, k)) for c in cells for k in range(N)]
    lives = []
    for c in cells:
        chain = [at(zero, c), *(at(add, c, k) for k in range(N)), at(store, c)]
        lives += [(c, chain[x], chain[y]) for x in range(len(chain) - 1) for y in range(x + 1, len(chain))]
    return any(c != other and begin <= when <= end for c, begin, end in lives for other, when in writes)


@pytest.mark.parametrize("name", TIMES)
def test_lives_that_overlap_are_found(name: str, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(PROGRAM)
    (scop,) = load(tmp_path / "f.c").scops
    assert private_scalars(scop) == {"s": 2}
    of = {s.name: s for s in scop.statements}
    found = [d for d in dependences(scop) if d.kind is not Kind.RAR]
    schedule = {name: at.intersect_domain(of[name].domain) for name, at in times(TIMES[name]).items()}
    assert (_mixed(scop, of, schedule, [(d, InTime(d, schedule)) for d in found]) is not None) == overlap(TIMES[name])


def test_both_answers_are_tried() -> None:
    assert {overlap(texts) for texts in TIMES.values()} == {False, True}
