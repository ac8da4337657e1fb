"""Functions of the file in place of their calls: statements that are the same but for what they compute."""

from __future__ import annotations

import polydl

PROGRAM = """
static float half(float x) { return 0.5f * x; }

void f(int n, const float *restrict x, float *restrict y)
{
    for (int i = 0; i < n; i++)
        y[i] = half(x[i]) + x[n - 1 - i];
}
"""


def test_it_is_proved_against_what_was_rewritten() -> None:
    done = polydl.optimize(PROGRAM, sizes={"n": 100000}, run=False, prove=True, threads=2, space="small")
    (scop,) = done.scops
    assert scop.proofs
    for proof in scop.proofs.values():
        assert proof.verdict == "proved", proof.reason
        assert "the same is computed where S0: functions in place of their calls" in proof.proved
    proof = scop.other_sizes.proof  # type: ignore[union-attr]
    assert proof is not None
    assert proof.verdict == "proved", proof.reason
