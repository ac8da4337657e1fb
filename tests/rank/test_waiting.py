"""Cycles between iterations that wait for each other."""

from __future__ import annotations

import pytest

import polydl
from polydl.rank.plain import Inner, Work, latency
from polydl.target.isa import isa

LOOP = "{type} x[1000], s[1]; void f(void) {{ for (int i = 0; i < 1000; i++) s[0] = {value}; }}"
FLOATS = isa("avx512")


def waits(element: str, value: str) -> float:
    """Of a loop that carries `s[0]` from one iteration to the next."""
    (scop,) = polydl.load(LOOP.format(type=element, value=value)).scops
    work = Work(scop, scop.statements[0])
    return latency([Inner(work, (1.0,), tuple(1.0 for _ in work.statement.accesses), 1.0)], FLOATS)


@pytest.mark.parametrize(
    ("value", "operations"),
    [("s[0] + x[i]", 1), ("(s[0] ^ x[i]) + 1", 2), ("s[0] > x[i] ? s[0] : x[i]", 2), ("(s[0] + x[i]) * 3", 1)],
)
def test_integers_wait_a_cycle_for_what_is_no_product(value: str, operations: int) -> None:
    product = FLOATS.latency if "*" in value else 0
    assert waits("int", value) == operations + product


def test_floats_wait_for_each_operation() -> None:
    assert waits("float", "s[0] + x[i]") == FLOATS.latency
    assert waits("float", "(s[0] + x[i]) * 3") == 2 * FLOATS.latency
