"""Elements that the printed C keeps in locals are read as what they stand for, and only where nothing else touches
them."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.prove import Proof, prove
from tests.prove.in_order import in_order

FILTERED = """
void filtered(const float x[restrict 64], const float w[restrict 3], float y[restrict 64], float z[restrict 64])
{
    for (int i = 0; i < 60; i++) {
        y[i] = 0;
        for (int k = 0; k < 3; k++)
            y[i] += x[i + k] * w[k];
        y[i] = y[i] < 0 ? 0 : y[i];
        z[i] = y[i] + x[i];
    }
}
"""


def proof(tmp_path: Path, before: str = "", after: str = "") -> Proof:
    program, found = in_order(FILTERED, tmp_path)
    assert all(before in one for one in found)
    changed = [one.replace(before, after, 1) if before else one for one in found]
    return prove(program, *changed, rewritten=program.scop)


def test_it_is_proved(tmp_path: Path) -> None:
    _, (plain, _) = in_order(FILTERED, tmp_path)
    assert "y[c0] = polydl_kept0;" in plain
    found = proof(tmp_path)
    assert found.holds, found.reason


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y[c0] = polydl_kept0;", "y[c0 + 1] = polydl_kept0;"),
        ("y[c0] = polydl_kept0;", ""),
        ("y[c0] = polydl_kept0;", "y[c0] = polydl_kept0;\n polydl_kept0 += 1;"),
        ("y[c0] = polydl_kept0;", "z[c0] = y[c0]; y[c0] = polydl_kept0;"),
        ("z[c0] = polydl_kept0", "c0 = 1; z[c0] = polydl_kept0"),
        ("float polydl_kept0", "double polydl_kept0"),
        ("float polydl_kept0 = 0;", "float polydl_kept0 = y[c0 + 1];"),
    ],
    ids=["elsewhere", "never", "behind", "read", "moved", "type", "started"],
)
def test_another_local_is_not(tmp_path: Path, before: str, after: str) -> None:
    assert not proof(tmp_path, before, after).holds
