"""Programs whose reads and loop bounds data choose, through the whole flow: analysed, proved no more than is known, and
every variant computes what the original computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.inspect.analyses import analyze
from polydl.measure import Status
from polydl.measure.compare import longest_sum
from polydl.target import preset
from tests.everyday.programs import PROGRAMS

pytestmark = pytest.mark.few_sizes

ORDER = """\
void order(const int at[17][13], const float A[17][13], float T[17][13], float out[17][13], float s[17])
{
    for (int i = 0; i < 17; i++)
        for (int j = 0; j < 13; j++)
            T[i][j] = 2 * A[i][j];
    for (int i = 0; i < 17; i++)
        for (int j = 0; j < 13; j++)
            out[i][j] = T[at[i][j]][j] + T[i][at[j][i % 13] % 13];
    for (int i = 0; i < 17; i++)
        for (int j = 0; j < 13; j++)
            T[i][j] = out[i][j] + T[i][j];
    for (int i = 0; i < 17; i++) {
        s[i] = 0;
        for (int j = 0; j < 13; j++)
            s[i] += T[at[i][j]][j];
        if (i > 2)
            T[i][0] = T[at[i][0]][0] + 1;
    }
}
"""
"""An array is read through an index between writes to it, and in the loop that writes it."""
BORDERS = """\
void borders(const float A[33][34], const float B[34][35], const int at[35], const float bias[9], float C[33][35])
{
    for (int i = 0; i < 33; i++)
        for (int j = 0; j < 35; j++)
            C[i][j] = bias[at[j]];
    for (int i = 0; i < 33; i++)
        for (int j = 0; j < 35; j++)
            for (int k = 33; k >= 0; k--)
                C[i][j] += A[i][k] * B[k][j];
    for (int i = 32; i >= 0; i--)
        for (int j = 0; j < 35; j++)
            C[i][j] = C[i][j] * bias[at[j] + i - i / 2 * 2];
}
"""
"""Element-wise nests before and behind a product, which data choose an operand of."""


@pytest.mark.parametrize("text", [ORDER, BORDERS], ids=["order", "borders"])
def test_every_variant_computes_the_same(text: str, tmp_path: Path) -> None:
    path = tmp_path / "k.c"
    path.write_text(text)
    done = polydl.optimize(path, tmp_path / "out.c", top_k=8, prove=True, budget=None)
    (scop,) = done.scops
    assert scop.report is not None
    assert len(scop.report.measurements) > 2
    assert {m.status for m in scop.report.measurements} == {Status.VERIFIED}
    assert not scop.illegal
    assert {proof.verdict for proof in scop.proofs.values()} == {"proved"}


@pytest.mark.parametrize("name", ["csr_pointers", "gather_matmul", "bilinear"])
def test_it_can_be_analysed(name: str) -> None:
    entry = PROGRAMS[name]
    values = entry.sizes[0]
    (scop,) = polydl.load(entry.path, defines=entry.defines(values), sizes=entry.parameters(values)).scops
    found = analyze(scop, preset("epyc-zen5"))
    inexact = {a.array for s in scop.statements for a in s.accesses if not a.exact}
    assert inexact
    assert found
    assert longest_sum(scop) >= 1


def test_rows_add_up_as_many_elements_as_there_may_be() -> None:
    entry = PROGRAMS["csr_matvec"]
    (scop,) = polydl.load(entry.path, defines=entry.defines(entry.sizes[0])).scops
    assert longest_sum(scop) >= 99


def test_a_kernel_for_arrays_without_a_size() -> None:
    kernel = polydl.compile(PROGRAMS["csr_pointers"].path, {"m": 50}, tune=False, threads=1)
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 9, 50)
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype("i4")
    column = rng.integers(0, 70, ptr[-1]).astype("i4")
    value, x, y = rng.integers(1, 4, ptr[-1]).astype("f4"), rng.integers(1, 4, 70).astype("f4"), np.zeros(50, "f4")
    kernel(ptr, column, value, x, y)
    rows = [slice(ptr[i], ptr[i + 1]) for i in range(50)]
    np.testing.assert_array_equal(y, [(value[row] * x[column[row]]).sum() for row in rows])
