"""Code for all sizes is read back and proved with its sizes as parameters, and a mistake in it never passes."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import polydl
from polydl.lower.instance_marks import without_marks
from polydl.model.scop import Scop
from polydl.prove import Proof, prove_every_size
from polydl.prove.integers import ZERO, Affine, Unreadable, divided, number, parameter, product
from polydl.results import OptimizeResult
from polydl.search.sizes.code import EverySize
from tests.efforts import FEW
from tests.search.one_way import OPTIONS, in_one_way, proof_of
from tests.search.test_every_size import CASES

LEADING = """
void f(int m, int n, int k, int lda, int ldb, const double *restrict A, const double *restrict B, double *restrict C,
       double alpha)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            for (int p = 0; p < k; p++)
                C[i * n + j] += alpha * A[p * lda + i] * B[p * ldb + j];
}
"""
SOURCES = {name: case[0] for name, case in CASES.items()} | {"leading": LEADING}


@cache
def made(name: str, variant: int) -> tuple[Scop, EverySize]:
    """See `in_one_way`."""
    return in_one_way(SOURCES[name], variant)


def proof(name: str, variant: int, region: str | None = None) -> Proof:
    """Of the code, or of another text in place of it."""
    return proof_of(*made(name, variant), region)


@pytest.mark.parametrize("name", SOURCES)
def test_it_is_proved_for_all_sizes(name: str) -> None:
    found = proof(name, 0)
    assert found.holds, found.reason
    assert found.proved[0].startswith("for all sizes, in ")


def test_marks_change_nothing_else() -> None:
    for name in ("matmul", "transposed"):
        _, found = made(name, 0)
        assert found.marked is not None and "polydl_instance_S0(" in found.marked.region
        assert without_marks(found.marked.region) == found.generated.region
        assert found.marked.prologue == found.generated.prologue


MUTANTS = {
    "matmul": (
        # strides, bounds, tiles
        (r"(&B\[.*?\], &C\[.*?\]), k, n,", r"\1, n, n,"),
        (r"(&B\[.*?\], &C\[.*?\]), k, n,", r"\1, k, k,"),
        (r"(&B\[.*?\], &C\[.*?\], k), n,", r"\1, m,"),
        (r"c0 <= \(n - 1\) / ", "c0 < (n - 1) / "),
        (r"c3 <= polydl_n_min\((\d+),", r"c3 <= polydl_n_min(\1 - 1,"),
        (r"c1 <= \(k - 1\) / ", "c1 <= (k - 2) / "),
        (r"c2 <= \(m - 1\) / (\d+)", r"c2 < m / \1"),
        (r"(c2 <= \(m - 1\)) / (\d+)", r"\1 / (\2 + 1)"),
        (r"_n_min\(\d+, (m - )", r"_n_min(1, \1"),
        (r"_n_min\(\d+, (n - )", r"_n_min(1000, \1"),
        (r"_n_min\(\d+, (k - )", r"_n_min(7, \1"),
        (r"k - (\d+) \* c1", r"k - \1 * c1 + 1"),
        # operands
        (r"&A\[", "&B["),
        (r"&B\[(\d+) \* c1\]", r"&B[\1 * c1 + 1]"),
        (r"&C\[(\d+ .*?)\]\[(.*?)\]", r"&C[\2][\1]"),
        (r"&A\[(\d+ .*?)\]\[(.*?)\]", r"&A[\2][\1]"),
        # which kernel, which sizes, whether at all
        (r"if \(c1 == 0\) polydl_mk", "if (c1 != 0) polydl_mk"),
        (r"if \(c1 == 0\) polydl_mk", "if (1) polydl_mk"),
        (r" && k >= 1", ""),
        (r" && n >= 1", " && n >= 0"),
        (r"n < 2", "n < 3"),
        (r"C\[i\]\[j\] \+= A", "C[i][j] -= A"),
        (r"( +)for \(long c1 = 0; c1 <=", r"#pragma omp parallel for\n\1for (long c1 = 0; c1 <="),
        (r"(polydl_row_f32_\w+)\(m, &C", r"\1(m - 1, &C"),
    ),
    "transposed": (
        (r"(polydl_pack_.*?), k, polydl_n_min", r"\1, n, polydl_n_min"),
        (r"_n_min\(\d+, n - (.*?)\), &B\[", r"_n_min(8, n - \1), &B["),
        (r"polydl_S0_pack_B \+ \d+ \* c2", "polydl_S0_pack_B + 64 * c2"),
        (r"(_pack_B) \+ (\d+) \* c3", r"\1 + \2 * c3 + 1"),
        (r"&B\[(.*?)\]\[(.*?)\], polydl", r"&B[\1][\2 + 1], polydl"),
        (r" +polydl_pack_.*\n", ""),
        (r"polydl_scratch\(\d+\)", "polydl_scratch(4096)"),
    ),
    "leading": ((r", lda\b", ", n"), (r"\blda \* ", "ldb * "), (r"lda >= m", "lda >= 1")),
}  # fmt: skip


@pytest.mark.parametrize(("name", "place"), [(name, k) for name, every in MUTANTS.items() for k in range(len(every))])
def test_a_mistake_is_never_proved(name: str, place: int) -> None:
    pattern, new = MUTANTS[name][place]
    for variant in range(5):
        _, found = made(name, variant)
        assert found.marked is not None
        mutant, times = re.subn(pattern, new, found.marked.region, count=1)
        if times:
            break
    assert times, f"no code for all sizes of {name} has {pattern}"
    assert proof(name, variant, mutant).verdict in ("wrong", "open")


def test_the_text_that_is_proved_is_the_output() -> None:
    scop, found = made("matmul", 0)
    assert found.marked is not None
    other = replace(found.generated, region=found.generated.region.replace("c0", "c9"))
    assert prove_every_size(scop, other, found.marked).verdict == "wrong"


def optimized(**changes: bool) -> OptimizeResult:
    return polydl.optimize(
        SOURCES["matmul"], options=OPTIONS, effort=FEW, sizes={"m": 16, "n": 48, "k": 8}, run=False, **changes
    )


@pytest.mark.few_sizes
def test_the_command_says_it() -> None:
    with_proof, without = optimized(prove=True), optimized()
    others = with_proof.scops[0].other_sizes, without.scops[0].other_sizes
    assert isinstance(others[0], EverySize) and isinstance(others[1], EverySize)
    assert others[0].generated == others[1].generated
    assert others[0].shown.startswith("proved for all sizes")
    assert others[1].shown == ""
    assert " * other sizes: proved: for all sizes" in with_proof.text


def test_what_is_wrong_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong = Proof("wrong", (), reason="line 7: another element of B in S1[0, 0, 1]")
    monkeypatch.setattr("polydl.prove.prove_every_size", lambda *given, **more: wrong)
    done = optimized(prove=True)
    assert done.scops[0].other_sizes == f"other code for them is shown to be wrong: {wrong.reason}"


def test_addresses_are_divided_by_strides() -> None:
    n, k, i = parameter("n"), parameter("k"), Affine((("i0", 1),))
    inner = product(n, k)
    address = product(i, inner).plus(product(n, i), 3).plus(number(2))
    plane, rest = divided(address, inner)
    row, column = divided(rest, n)
    assert (plane, row, column) == (i, i.times(3), number(2))
    assert divided(product(i, n), n.plus(number(2))) == (i, i.times(-2))
    with pytest.raises(Unreadable):
        divided(n, n.times(2))
    with pytest.raises(Unreadable):
        str(inner)
    assert product(ZERO, n) == ZERO
