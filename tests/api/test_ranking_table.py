"""A ranking as a table: places, slices, columns, DataFrames, the C text of a variant."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.base.errors import IllegalVariant, InputError, PolyDLError
from polydl.measure import Toolchain, check_compiles
from polydl.rank.estimate import Estimate
from polydl.rank.ranker import Scored
from polydl.schedule.limits import SPACES
from polydl.schedule.ordered import Ordered
from polydl.search.variant import Variant
from polydl.target import preset

MATMUL = Path(__file__).parent.parent.parent / "examples" / "matmul.c"


@pytest.fixture(scope="module")
def program() -> polydl.Program:
    return polydl.load(MATMUL, defines={"M": 96, "N": 64, "K": 48})


@pytest.fixture(scope="module")
def table(program: polydl.Program) -> polydl.Ranking:
    return polydl.rank(program.scops[0], "small", "epyc-zen5", "traffic", threads=2)


def test_space_machine_and_ranker_by_place(table: polydl.Ranking, program: polydl.Program) -> None:
    assert (table.machine.name, table.ranker, table.threads) == (preset("epyc-zen5").name, "traffic", 2)
    by_name = polydl.rank(program.scops[0], space="small", machine=preset("epyc-zen5"), ranker="traffic", threads=2)
    assert list(by_name["id"]) == list(table["id"])
    options = polydl.Options(space="small", machine="epyc-zen5", threads=2)
    assert list(polydl.rank(program.scops[0], options=options)["id"]) == list(table["id"])
    assert len(polydl.rank(program.scops[0], "default", options=options)) > len(table)


def test_a_machine_of_ones_own_has_its_cores(program: polydl.Program) -> None:
    machine = preset("epyc-zen5")
    assert polydl.rank(program.scops[0], "small", machine).threads == machine.cores


def test_a_ranker_of_ones_own(program: polydl.Program) -> None:
    class Backwards:
        """The last variant first."""

        name = "backwards"

        def rank(self, scop, nest, structures, machine, threads):  # type: ignore[no-untyped-def]
            return Scored(-np.arange(len(structures), dtype=float), {})

    usual = polydl.rank(program.scops[0], "default", "epyc-zen5", threads=2)
    found = polydl.rank(program.scops[0], "default", "epyc-zen5", Backwards(), threads=2)
    assert found.ranker == "backwards" and set(found["id"]) == set(usual["id"])
    assert found["backwards_score"].tolist() == [float(i) for i in range(1 - len(found), 1)]
    # It only orders: the seconds are the model's, dealt out in its order, and the parts say what that changed.
    assert found["score"].tolist() == usual["score"].tolist()
    assert all(v.score == pytest.approx(sum(v.estimate.seconds.values())) for v in found)
    assert found["correction_seconds"].any() and "correction_seconds" not in usual.columns


def test_a_ranker_that_predicts_seconds(program: polydl.Program) -> None:
    class Constant:
        """Seconds without a model."""

        name = "constant"

        def rank(self, scop, nest, structures, machine, threads):  # type: ignore[no-untyped-def]
            return Scored(np.linspace(1.0, 2.0, len(structures)), {}, seconds=True)

    found = polydl.rank(program.scops[0], "small", "epyc-zen5", Constant(), threads=2)
    assert found["score"].tolist() == pytest.approx(np.linspace(1.0, 2.0, len(found)).tolist())
    assert (found["correction_seconds"] > 0.9).all()


def test_options_by_place_are_refused(program: polydl.Program) -> None:
    with pytest.raises(TypeError, match="by keyword"):
        polydl.rank(program.scops[0], polydl.Options())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no space called 'huge'"):
        polydl.rank(program.scops[0], "huge")
    assert "small" in SPACES


def test_progress_takes_any_function(program: polydl.Program) -> None:
    with redirect_stdout(io.StringIO()) as said:
        polydl.rank(program.scops[0], "small", "epyc-zen5", progress=print)
    assert said.getvalue() == "rank 0 1\nrank 1 1\n"


def test_progress_counts_the_schedules_of_a_region() -> None:
    """One region, whose schedules are made and checked one by one: that is what takes its time."""
    sweep = """
    void sweep(double A[restrict 40][40]) {
      for (int t = 0; t < 9; t++)
        for (int i = 1; i < 39; i++)
          for (int j = 1; j < 39; j++)
            A[i][j] = 0.5 * (A[i - 1][j] + A[i][j + 1]);
    }"""
    seen: list[tuple[str, int, int]] = []
    polydl.rank(sweep, "small", "epyc-zen5", threads=2, progress=lambda *step: seen.append(step))
    assert {stage for stage, _, _ in seen} == {"rank"}
    assert len({done for _, done, _ in seen}) > 20
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert seen[-1][1] == seen[-1][2]


def test_places_and_slices(table: polydl.Ranking) -> None:
    assert isinstance(table[0], Variant) and table[0] is table.variants[0] and table[-1] is table.variants[-1]
    top = table[:3]
    assert [v.id for v in top] == [v.id for v in table][:3] and len(top) == 3 and top.machine is table.machine
    for beyond in (len(table), -len(table) - 1):
        with pytest.raises(IndexError, match=f"no variant {beyond}: the table has {len(table)}, the best is 0"):
            table[beyond]


def test_columns(table: polydl.Ranking) -> None:
    assert table.columns[:4] == ("id", "score", "loops", "recipe")
    columns = table.to_dict()
    assert list(columns) == list(table.columns) and {c.shape for c in columns.values()} == {(len(table),)}
    assert columns["score"].dtype == np.float64 and list(columns["score"]) == [v.score for v in table]
    assert columns["compute_seconds"][3] == table[3].features["compute_seconds"]
    assert columns["loops"][0] == table[0].loops and columns["recipe"][0] == str(table[0].recipe)
    with pytest.raises(InputError, match="no column called 'scores'") as error:
        table["scores"]
    assert "did you mean 'score'?" in str(error.value)


def test_a_feature_that_only_some_variants_have(table: polydl.Ranking) -> None:
    from dataclasses import replace

    mixed = replace(table, variants=(table[0], replace(table[1], estimate=Estimate({"compute": 1.0}, {"other": 1.0}))))
    assert np.isnan(mixed["other"]).tolist() == [True, False] and np.isnan(mixed["score"]).sum() == 0


def test_data_frames(table: polydl.Ranking) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and frame.shape == (len(table), len(table.columns))
    assert frame["score"].is_monotonic_increasing and frame.loc[0, "id"] == table[0].id
    assert table[:0].to_pandas().shape == (0, 4)


def test_without_pandas(table: polydl.Ranking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(PolyDLError, match="pandas is not installed"):
        table.to_pandas()


def test_c_text_of_a_variant(table: polydl.Ranking) -> None:
    best = table[0]
    text = best.code()
    assert best.region() in text and text.startswith("/* C += A * B")
    compiled = check_compiles(text, Toolchain(), table.scop.source)
    assert compiled.ok, compiled.message
    assert table[5].code() != text


def test_an_illegal_variant_has_no_text(table: polydl.Ranking, tmp_path: Path) -> None:
    """The exact check stands between a recipe and its text."""
    path = tmp_path / "scan.c"
    path.write_text("void f(float x[100]) {\n for (int i = 1; i < 100; i++) x[i] += x[i - 1];\n}\n")
    from dataclasses import replace

    variant = polydl.rank(path, "small", "epyc-zen5", threads=2)
    plain = next(v for v in variant if v.structures)
    structure = plain.structures[0]
    broken = replace(plain, parts=(Ordered.nest(replace(structure, parallel=(structure.loops[0].name,))),))
    with pytest.raises(IllegalVariant, match="RAW"):
        broken.code()


def test_c_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = MATMUL.read_text()
    assert len(polydl.rank(text, "small", "epyc-zen5")) > 1
    result = polydl.optimize(text, run=False, space="small", machine="epyc-zen5")
    assert result.output is None and "void matmul(" in result.text
    assert polydl.optimize(text, "out.c", run=False, space="small", machine="epyc-zen5").output == Path("out.c")
    assert [path.name for path in tmp_path.iterdir()] == ["out.c"]
    with pytest.raises(InputError, match="no such file"):
        polydl.load("matmul.c")
