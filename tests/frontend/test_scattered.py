"""Elements that data choose are written by statements that are kept as they are written, and may store to any."""

from __future__ import annotations

from pathlib import Path

import pytest

import polydl
from polydl.base.errors import InputErrors
from polydl.dependences.analysis import dependences
from polydl.measure import Status
from polydl.measure.compare import terms
from polydl.model.scop import BlackBox, Statement
from tests.frontend.reading import reads, region, same_map, scop, write

pytestmark = pytest.mark.few_sizes

HEAD = "void f(const int at[restrict 20], double B[restrict 20], double A[restrict 20][30], int h[restrict 20][8])"


def only(folder: Path, body: str) -> Statement:
    (statement,) = region(folder, body, HEAD).statements
    return statement


def test_a_histogram_may_write_every_element(tmp_path: Path) -> None:
    found = only(tmp_path, "for (int i = 0; i < 20; i++) B[at[i]]++;")
    assert isinstance(found.body, BlackBox) and "B[at[i]] += 1;" in found.body.text
    any_element = "{ S0[i] -> B[a0] : 0 <= i < 20 and 0 <= a0 < 20 }"
    assert same_map(write(found).relation, any_element) and not write(found).exact
    (old,) = reads(found, "B")
    assert same_map(old.relation, any_element) and reads(found, "at")


def test_what_is_stored_is_not_read(tmp_path: Path) -> None:
    assert not reads(only(tmp_path, "for (int i = 0; i < 20; i++) B[at[i]] = i;"), "B")


def test_integers_that_the_region_declares_may_choose(tmp_path: Path) -> None:
    scop = region(tmp_path, "for (int i = 0; i < 20; i++) { int k = at[i]; B[k] = i; A[k][i] += B[i]; }", HEAD)
    assert [isinstance(s.body, BlackBox) for s in scop.statements] == [False, True, True]
    assert same_map(write(scop.statements[2]).relation, "{ S2[i] -> A[a0, i] : 0 <= i < 20 and 0 <= a0 < 20 }")


def test_a_row_that_data_choose(tmp_path: Path) -> None:
    found = only(tmp_path, "for (int i = 0; i < 20; i++) { double *b = A[at[i]]; b[i] = 0; }")
    assert isinstance(found.body, BlackBox) and "double *b = A[at[i]];" in found.body.text
    assert same_map(write(found).relation, "{ S0[i] -> A[a0, i] : 0 <= i < 20 and 0 <= a0 < 20 }")
    assert not write(found).exact and reads(found, "at")


def test_loops_that_have_elements_of_their_own_stay_parallel(tmp_path: Path) -> None:
    body = "for (int b = 0; b < 20; b++) for (int i = 0; i < 20; i++) h[b][at[i] % 8] += b;"
    scop = region(tmp_path, body, HEAD)
    carried = {loop for d in dependences(scop, reads=False) for loop in [d.carried_by]}
    assert carried == {"i"}


def test_what_conditions_choose(tmp_path: Path) -> None:
    found = only(tmp_path, "for (int i = 0; i < 20; i++) if (B[i] > 0) B[at[i]] = 0;")
    assert isinstance(found.body, BlackBox) and not write(found).exact


def test_one_element_may_be_added_to_every_time(tmp_path: Path) -> None:
    assert terms(only(tmp_path, "for (int i = 0; i < 20; i++) B[at[i]] += 1;")) >= 20


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "int k = 0; for (int i = 0; i < 20; i++) { if (B[i]) k += at[i]; B[k] = 0; }",
            "'k' is computed from data",
        ),
        ("for (int i = 0; i < 20; i++) { int k = at[i]; k = 2 * k; B[k] = 0; }", "'k' is computed from data"),
        ("for (int j = 0; j < at[0]; j++) B[j] = 0;", "data decide the bounds of 'j'"),
        ("for (int i = 0; i < 20; i++) { int k = at[i]; double *b = A[k]; k = 3; b[i] = 0; }", "decides where the po"),
    ],
)
def test_refused(body: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match=reason):
        region(tmp_path, body, HEAD)


def test_it_is_run(tmp_path: Path) -> None:
    code = """
    void f(int n, int m, const int *restrict row, const int *restrict col, const float *restrict v,
           const float *restrict x, float *restrict y, const int mark[restrict m][n], int seen[restrict m][16])
    {
        for (int k = 0; k < n; k++)
            y[row[k]] += v[k] * x[col[k]];
        for (int b = 0; b < m; b++) {
            for (int i = 0; i < 16; i++)
                seen[b][i] = 0;
            for (int i = 0; i < n; i++)
                seen[b][mark[b][i]]++;
        }
    }
    """
    found = scop(tmp_path, code)
    assert "elements of 'y' that 'row' chooses are inside of it" in found.assumptions
    sizes = {"n": 300, "m": 5}
    done = polydl.optimize(tmp_path / "snippet.c", tmp_path / "out.c", sizes=sizes, space="small", top_k=4)
    (one,) = done.scops
    assert one.report is not None and not one.illegal
    assert {m.status for m in one.report.measurements} == {Status.VERIFIED}
