"""The output is right at sizes beside the tuned ones, and where it is not, that is found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from polydl import pipeline
from polydl.base.errors import PolyDLError
from polydl.lower.emit import Generated
from polydl.lower.splice import guarded
from polydl.measure import MeasureOptions, Toolchain
from polydl.model.scop import Scop
from polydl.search.default_sizes import touched_bytes
from polydl.search.sizes.run_neighbours import Reload, neighbouring_sizes, run_neighbours

TEXT = """\
void add(int n, int lda, const float *restrict a, float y[restrict 40])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            y[i] += a[i * lda + j];
#pragma endscop
}
"""
VARIANT = """{
    for (int j = 0; j < 32; j++)
        for (int i = 0; i < 32; i++)
            y[i] += a[i * 36 + j];
}"""
OPTIONS = MeasureOptions(threads=2, timeout=5.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "add.c").write_text(TEXT)
    return tmp_path / "add.c"


def at(path: Path, n: int, lda: int) -> Scop:
    return pipeline.only_scop(pipeline.load(path, sizes={"n": n, "lda": lda}))


def beside(path: Path, n: int, lda: int) -> Reload:
    return lambda sizes: at(path, **{"n": n, "lda": lda, **sizes})


def test_each_parameter_one_more_and_one_less(path: Path) -> None:
    assert [sizes for sizes, _ in neighbouring_sizes(at(path, 32, 36), beside(path, 32, 36))] == [
        {"n": 32, "lda": 37},
        {"n": 32, "lda": 35},
        {"n": 33, "lda": 36},
        {"n": 31, "lda": 36},
    ]


def test_of_much_data_each_parameter_is_changed_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more, or one less where there is no room for one more."""
    found = [{"n": 32, "lda": 37}, {"n": 33, "lda": 36}]
    assert [sizes for sizes, _ in neighbouring_sizes(at(path, 32, 36), beside(path, 32, 36), twice=False)] == found
    last = [sizes for sizes, _ in neighbouring_sizes(at(path, 40, 40), beside(path, 40, 40), twice=False)]
    assert last == [{"n": 40, "lda": 41}, {"n": 39, "lda": 40}]
    given = at(path, 32, 36), Generated((), VARIANT), beside(path, 32, 36), Toolchain(), OPTIONS
    data = touched_bytes(given[0])
    for most, count in ((data, 4), (data - 1, 2)):
        monkeypatch.setattr("polydl.search.sizes.run_neighbours.LARGE", most)
        assert len(run_neighbours(*given)) == count


def test_conditions_lead_to_the_original_loops(path: Path) -> None:
    tried = run_neighbours(at(path, 32, 36), Generated((), VARIANT), beside(path, 32, 36), Toolchain(), OPTIONS)
    assert len(tried) == 4


def test_a_condition_that_is_missing_is_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(scop: Scop, replacement: str, newline: str, otherwise: str) -> str:
        text = guarded(scop, replacement, newline, otherwise)
        assert "lda == 36 && " in text
        return text.replace("lda == 36 && ", "")

    monkeypatch.setattr("polydl.lower.splice.guarded", forgetful)
    with pytest.raises(PolyDLError, match=r"computes something else .* with lda = 37, n = 32"):
        run_neighbours(
            at(path, 32, 36), Generated((), VARIANT), beside(path, 32, 36), Toolchain(),
            OPTIONS,
        )  # fmt: skip


def test_sizes_that_the_program_does_not_bear_are_left_out(path: Path) -> None:
    tried = run_neighbours(
        at(path, 40, 40), Generated((), VARIANT.replace("32", "40").replace("36", "40")),
        beside(path, 40, 40), Toolchain(), OPTIONS,
    )  # fmt: skip
    assert {"n": 41, "lda": 40} not in tried
    assert {"n": 39, "lda": 40} in tried


HALVES = """\
void halves(int n, const float *restrict x, float *restrict y)
{
    int half = n / 2;
    for (int i = 0; i < half; i++)
        y[i] = x[2 * i] + x[2 * i + 1];
}
"""


def test_variables_that_are_made_of_sizes_follow_them(tmp_path: Path) -> None:
    path = tmp_path / "halves.c"
    path.write_text(HALVES)

    def reload(sizes: Mapping[str, int]) -> Scop:
        return pipeline.only_scop(pipeline.load(path, sizes={"n": 20, **sizes}))

    tried = [sizes for sizes, _ in neighbouring_sizes(reload({}), reload)]
    assert tried == [{"n": 21, "half": 10}, {"n": 19, "half": 9}]
    code = Generated((), "for (int i = 0; i < 10; i++) y[i] = x[2 * i] + x[2 * i + 1];")
    assert len(run_neighbours(reload({}), code, reload, Toolchain(), OPTIONS)) == 2
