"""Which outputs rows store past the caches: large ones, that nobody comes back to while they would still be there."""

from __future__ import annotations

from pathlib import Path

import polydl
from polydl.rewrite.canonical import canonical
from polydl.schedule.transforms import Schedule
from polydl.search.fused_variants import _large_outputs
from polydl.target.machine_files import preset

EVERYDAY = Path(__file__).parent.parent / "everyday"
PROGRAMS = Path(__file__).parent.parent / "programs"
MACHINE = preset("epyc-zen4")


IN_ONE_NEST = """
void shifted(const float x[restrict M][N], float h[restrict M][N], float y[restrict M][N])
{
    for (int i = 0; i < M; i++) {
        float s = 0;
        for (int j = 0; j < N; j++)
            h[i][j] = x[i][j] * 2;
        for (int j = 0; j < N; j++)
            s += h[i][j];
        for (int j = 0; j < N; j++)
            y[i][j] = h[i][j] - s;
    }
}
"""


def outputs(path: Path | str, sizes: dict[str, int], defines: dict[str, int], *, anew: bool = False) -> tuple[str, ...]:
    (scop,) = polydl.load(path, sizes=sizes, defines=defines).scops
    made = canonical(scop).scop
    return _large_outputs(made, made.statements, MACHINE, anew=anew)


def test_what_the_same_row_reads_again_stays_in_the_caches() -> None:
    sizes = {"M": 400000, "N": 1024}
    # In nests of their own: h has left the caches when it is read.
    assert outputs(EVERYDAY / "dropout_residual_norm.c", {}, sizes) == ("h", "y")
    assert outputs(IN_ONE_NEST, {}, sizes) == ("y",)
    assert outputs(EVERYDAY / "softmax_rows.c", {}, {"ROWS": 400000, "COLS": 1024}) == ()


def test_what_is_read_when_it_has_left_the_caches_goes_past_them() -> None:
    assert outputs(PROGRAMS / "jacobi_2d.c", {}, {"N": 20000, "T": 2}) == ("A", "B")


def test_outputs_behind_pointers_are_as_large_as_what_is_written() -> None:
    assert outputs(EVERYDAY / "silu.c", {"n": 1 << 28}, {}) == ("y",)
    assert outputs(EVERYDAY / "silu.c", {"n": 1 << 16}, {}) == ()


def test_tiles_of_time_come_back_sooner_than_sweeps() -> None:
    assert outputs(PROGRAMS / "jacobi_2d.c", {}, {"N": 20000, "T": 2}, anew=True) == ()
    assert outputs(EVERYDAY / "silu.c", {"n": 1 << 28}, {}, anew=True) == ("y",)
    assert [how.as_written for how in (Schedule("written"), Schedule("skewed"), Schedule("written", (64,)))] == [
        True, False, False,
    ]  # fmt: skip
    options = {"defines": {"N": 4000, "T": 10}, "machine": "epyc-zen4", "threads": 2}
    (done,) = polydl.optimize(PROGRAMS / "jacobi_2d.c", run=False, **options).scops
    assert done.chosen is not None
    assert "skewed" in str(done.chosen.recipe)
    assert "stream" not in str(done.chosen.recipe)


def test_what_a_statement_reads_itself_is_in_the_caches_anyway() -> None:
    assert outputs(PROGRAMS / "prefix_sum.c", {}, {"M": 4000, "N": 20000}) == ()
