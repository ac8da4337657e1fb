"""How elements that data choose move along loops."""

from __future__ import annotations

import pytest

import polydl
from polydl.model.chosen_strides import Moves, chosen_strides
from polydl.rank.plain import Work

CODE = """
void f(int n, int d, const int *restrict ids, const int ids2[restrict {n}][{d}], const float *restrict flat,
       const float table[restrict 1000][{d}], float out[restrict {n}][{d}])
{{
    for (int i = 0; i < {n}; i++)
        for (int j = 0; j < {d}; j++)
            out[i][j] = {read};
}}
"""
CASES: dict[str, Moves] = {
    "table[ids[i]][j]": (None, 1),
    "table[ids[i]][2 * j % 8]": (None, None),
    "table[ids[i] + 1][j / 2]": (None, None),
    "flat[ids[i] * 64 + j]": (None, 1),
    "flat[(long)ids[i] * 64 - j]": (None, -1),
    "flat[ids[j] + 3 * i]": (3, None),
    "flat[ids2[i][j]]": (None, None),
    "flat[ids[7] + i * 64 + 2 * j]": (64, 2),
    "flat[ids[ids[i]] * 64 + j]": (None, 1),
    "table[ids[i]][ids[j]]": (None, None),
}


@pytest.mark.parametrize("read", CASES)
def test_strides(read: str) -> None:
    (scop,) = polydl.load(CODE.format(n=100, d=64, read=read)).scops
    (statement,) = scop.statements
    found = {statement.accesses[number].array: moves for number, moves in chosen_strides(scop, statement).items()}
    assert (found.get("flat") or found["table"]) == CASES[read]


def test_what_the_program_writes_may_change_anywhere() -> None:
    text = "void f(int *restrict ids, const float *restrict x, float *restrict y) { for (int i = 0; i < 9; i++) {"
    (scop,) = polydl.load(f"{text} ids[i] = i / 2; y[i] = x[ids[3] + i]; }} }}").scops
    assert [*chosen_strides(scop, scop.statements[1]).values()] == [(None,)]


def test_a_step_along_a_row_is_known() -> None:
    (scop,) = polydl.load(CODE.format(n=100, d=64, read="flat[ids[i] * 64 + j]")).scops
    work = Work(scop, scop.statements[0])
    number = next(n for n, access in enumerate(scop.statements[0].accesses) if access.array == "flat")
    assert work.moves((0.0, 1.0))[number] == 1.0
    assert work.moves((1.0, 0.0))[number] is None
