"""Products of complex numbers that are asked about before they are made are read as C's."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.prove import Proof, prove
from polydl.prove.finiteness import TRUST
from tests.prove.in_order import in_order

TURNED = """
#include <complex.h>
void turned(float complex x[restrict 3][600], const float complex w[restrict 600],
            float complex y[restrict 3][600])
{
    for (int b = 0; b < 3; b++)
        for (int k = 0; k < 600; k++) {
            float complex t = w[k] * x[b][k];
            x[b][k] = t * t - w[k];
            y[b][k] *= w[k];
        }
}
"""


def proof(tmp_path: Path, before: str = "", after: str = "") -> Proof:
    program, found = in_order(TURNED, tmp_path)
    assert all(before in one for one in found)
    changed = [one.replace(before, after) if before else one for one in found]
    return prove(program, *changed, rewritten=program.scop)


def test_they_are_proved(tmp_path: Path) -> None:
    found = proof(tmp_path)
    assert found.holds, found.reason
    assert TRUST in found.trusted


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("t = polydl_finite_productf(w[c1]", "t = polydl_finite_productf(w[599 - c1]"),
        ("polydl_finite_productf(t, t) - w[c1]", "polydl_finite_productf(t, t) + w[c1]"),
        ("t = w[c1] * x[c0][c1]", "t = w[c1] + x[c0][c1]"),
        ("if (!polydl_lost)", "if (polydl_lost)"),
        ("polydl_lost |= polydl_too_largef(t, t);", "x[c0][c1] = t;"),
        ("simd private(t)", "simd"),
        ("polydl_from += 512", "polydl_from += 511"),
        ("polydl_lost |= polydl_too_largef(t, t);", "polydl_lost |= polydl_too_largef(t, w[c1]);"),
    ],
)
def test_other_programs_are_not(before: str, after: str, tmp_path: Path) -> None:
    assert not proof(tmp_path, before, after).holds
