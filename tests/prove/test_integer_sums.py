"""Sums of integers in one accumulator for several loops: right, proved, and no mistake in them is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polydl import load
from tests.prove import mutations
from tests.prove.mutations import OPTIONS

PROGRAM = """
#include <stdint.h>
#include <stdlib.h>
void sums(int n, int m, const {read} a[restrict n][m][16], const {read} b[restrict n][m][16],
          {held} out[restrict n])
{{
#pragma scop
    for (int k = 0; k < n; k++)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < 16; j++)
                out[k] {op} {value};
#pragma endscop
}}
"""
SIZES = {"n": 7, "m": 5}
VALUES = {
    "differences": ("uint8_t", "int32_t", "+=", "abs(a[k][i][j] - b[k][i][j])"),
    "products": ("int16_t", "int64_t", "-=", "(int64_t)a[k][i][j] * b[k][i][j]"),
    "bits": ("uint32_t", "uint32_t", "^=", "a[k][i][j] & b[k][i][j]"),
}


FLAT = """
#include <stdint.h>
#include <stdlib.h>
void sums(int n, const {read} a[restrict n], const {read} b[restrict n], {held} out[restrict 1])
{{
#pragma scop
    for (int i = 0; i < n; i++)
        out[0] {op} {value};
#pragma endscop
}}
"""


@pytest.mark.parametrize(
    ("name", "n"), [("differences", 1000), ("differences", 100_000), ("products", 1000), ("bits", 100_000)]
)
def test_bytes_are_added_up_without_a_clause_whatever_their_number(name: str, n: int) -> None:
    read, held, op, value = VALUES[name]
    flat = FLAT.format(read=read, held=held, op=op, value=value.replace("[k][i][j]", "[i]"))
    program = load(flat, options=replace(OPTIONS, threads=1), sizes={"n": n})
    (subject,) = mutations.subjects_of(name, program, ["polydl_sum"])
    assert ("reduction" in subject.named.region) == (n >= 4096 and name != "differences")
    proof, plain = subject.mutant(subject.named)
    assert proof.verdict == "proved"
    (right,) = mutations.verified(subject, [plain])
    assert right.verified


@pytest.mark.parametrize("name", VALUES)
def test_they_are_right_and_mistakes_in_them_are_seen(name: str) -> None:
    read, held, op, value = VALUES[name]
    program = load(PROGRAM.format(read=read, held=held, op=op, value=value), options=OPTIONS, sizes=SIZES)
    (subject,) = mutations.subjects_of(name, program, ["polydl_sum"])
    region = subject.named.region
    assert "reduction" not in region
    assert region.count("polydl_sum = ") == 1
    assert region.index("polydl_sum = ") < region.index("for (int c1")
    proof, plain = subject.mutant(subject.named)
    assert proof.verdict == "proved"
    (right,) = mutations.verified(subject, [plain])
    assert right.verified
    left, seen = [], 0
    for kind, what, text in mutations.mutants(subject, mutations.KINDS, 3, 2):
        proof, code = subject.mutant(text)
        seen += proof.verdict == "wrong"
        if proof.verdict != "wrong":
            left.append((f"{kind}: {what}", proof.verdict, code))
    assert seen >= 5
    for (what, verdict, _), one in zip(left, mutations.verified(subject, [c for _, _, c in left]), strict=True):
        assert one.verified or verdict != "proved", f"{what}: {verdict}, {one.status}"
