"""Rankers that other packages register under `polydl.rankers`."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from polydl import pipeline
from polydl.base.errors import InputError, PolyDLError
from polydl.inspect.explain import explain
from polydl.options import Options
from polydl.rank import rankers
from polydl.search import result_cache

MATMUL = """
void matmul(float A[restrict 64][64], float B[restrict 64][64], float C[restrict 64][64])
{
#pragma scop
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++)
            for (int k = 0; k < 64; k++)
                C[i][j] += A[i][k] * B[k][j];
#pragma endscop
}
"""
BACKWARDS = """
import numpy as np
from polydl.rank.ranker import Scored

class Backwards:
    name = "backwards"
    def rank(self, scop, nest, structures, machine, threads):
        return Scored(np.arange(len(structures), 0, -1, dtype=np.float64), {})
"""
_NUMBER = itertools.count()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """`install(code, entry)`: a package with the module `code` registers the ranker `mine`; the module's file."""

    def make(code: str, entry: str) -> Path:
        module = f"plugged_ranker_{next(_NUMBER)}"
        info = tmp_path / f"{module}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text(f"[polydl.rankers]\nmine = {module}{entry}\n")
        file = tmp_path / f"{module}.py"
        file.write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        importlib.invalidate_caches()
        return file

    return make


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "matmul.c"
    path.write_text(MATMUL)
    return path


def test_it_decides_the_order(install: Callable[..., Path], source: Path) -> None:
    install(BACKWARDS, ":Backwards")
    ranking = pipeline.rank(source, ranker="mine", threads=2, machine="epyc-zen4")
    theirs = [variant.features["mine_score"] for variant in ranking.variants]
    assert len(theirs) > 50
    assert theirs == [float(n) for n in range(1, len(theirs) + 1)]
    usual = pipeline.rank(source, threads=2, machine="epyc-zen4")
    assert {v.id for v in ranking.variants} == {v.id for v in usual.variants}
    # Their scores have no unit: the model's seconds are dealt out in their order.
    assert [v.score for v in ranking.variants] == [v.score for v in usual.variants]
    assert ranking.ranker == "mine"


def test_explain_shows_it_beside_the_others(install: Callable[..., Path], source: Path) -> None:
    install(BACKWARDS, ":Backwards")
    options = Options(ranker="mine", threads=2, machine="epyc-zen4")
    (one,) = explain(pipeline.only_scop(pipeline.load(source)), ["best"], options).variants
    assert set(one.places) == {*rankers.available(), "mine"}
    assert one.places["mine"].rank == 1


@pytest.mark.parametrize(
    ("code", "entry", "reason"),
    [
        ("", ":Missing", "cannot be loaded"),
        ("import not_a_module_at_all", ":X", "cannot be loaded"),
        ("", ".sub:X", "cannot be loaded"),
        ("Number = int", ":Number", "makes a int, which has no method rank"),
    ],
)
def test_what_is_no_ranker(install: Callable[..., Path], code: str, entry: str, reason: str) -> None:
    install(code, entry)
    with pytest.raises(PolyDLError, match=r"plugged_ranker_\d+ 1\.5, ") as caught:
        rankers.named("mine")
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("np.zeros(len(structures) - 1)", r"scored \(\d+,\), not \(\d+,\)"),
        ("np.full(len(structures), np.nan)", "not finite"),
        ("np.full(len(structures), np.inf)", "not finite"),
    ],
)
def test_what_it_answers_is_checked(install: Callable[..., Path], source: Path, answer: str, reason: str) -> None:
    install(BACKWARDS.replace("np.arange(len(structures), 0, -1, dtype=np.float64)", answer), ":Backwards")
    with pytest.raises(PolyDLError, match=reason):
        pipeline.rank(source, ranker="mine", threads=2, machine="epyc-zen4")


def test_unknown_names_list_it(install: Callable[..., Path]) -> None:
    install(BACKWARDS, ":Backwards")
    with pytest.raises(InputError) as caught:
        rankers.named("mime")
    assert "did you mean 'mine'?" in (caught.value.hint or "")


def test_its_code_is_part_of_what_is_kept(install: Callable[..., Path], source: Path) -> None:
    module = install(BACKWARDS, ":Backwards")
    options, out = Options(ranker="mine"), source.with_suffix(".out.c")
    before = result_cache.key(source, out, options)
    assert result_cache.key(source, out, options) == before
    module.write_text(BACKWARDS.replace(", 0, -1", ""))
    assert result_cache.key(source, out, options) != before
