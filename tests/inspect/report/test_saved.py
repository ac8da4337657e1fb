"""`optimize --save`: the record of a real run says what the run said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polydl import pipeline
from polydl.base.errors import InputError, QuotaExceeded
from polydl.cli.answer import Answer, Style
from polydl.cli.optimize_command import optimize
from polydl.cli.optimize_here import optimize_here
from polydl.inspect import operations, recording
from polydl.inspect.recording import recorded
from polydl.inspect.report.figures import charts
from polydl.inspect.report.record import ORIGINAL, Run, dumps, load, loads
from polydl.options import Options
from polydl.rank import rankers
from polydl.results import OptimizeResult
from polydl.search import result_cache
from tests.cli.running import EXAMPLES, polydl

SIZES = ("-D", "M=24", "-D", "N=32", "-D", "K=16")
_SUM = """\
void scale(int x[N][N], const int y[N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            x[i][j] = 2 * x[i][j] + y[j];
#pragma endscop
}
"""
_STENCIL = """\
void stencil(double A[16], double B[16])
{
#pragma scop
    for (int t = 0; t < 3; t++) {
        for (int i = 1; i < 15; i++)
            B[i] = 0.33 * (A[i - 1] + A[i] + A[i + 1]);
        for (int i = 1; i < 15; i++)
            A[i] = 0.33 * (B[i - 1] + B[i] + B[i + 1]);
    }
#pragma endscop
}
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder with run.json, and what the run printed with --json."""
    folder = tmp_path_factory.mktemp("saved")
    (folder / "matmul.c").write_bytes((EXAMPLES / "matmul.c").read_bytes())
    options = (*SIZES, "-k", "3", "--threads", "2", "--save", "run.json", "--json")
    done = polydl(folder, "optimize", "matmul.c", *options, timeout=600)
    assert done.code == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_the_record_agrees_with_the_run(saved: tuple[Path, dict[str, Any]]) -> None:
    folder, document = saved
    run = load(folder / "run.json")
    (scop,) = run.scops
    assert (run.source, run.output) == ("matmul.c", "matmul.polydl.c")
    assert run.source_text == (folder / "matmul.c").read_text()
    assert run.output_text == (folder / "matmul.polydl.c").read_text()
    assert run.options["threads"] == "2" and run.options["top_k"] == "3"
    assert "C[i][j] += A[i][k] * B[k][j];" in scop.before and "#pragma" not in scop.before
    assert scop.chosen == document["chosen"]
    assert (scop.after in run.output_text) and bool(scop.after) is (scop.chosen != ORIGINAL)
    assert scop.original.median == document["original"]["seconds"]
    assert [(m.id, m.median, m.spread, m.loops) for m in scop.measured] == [
        (v["id"], v["seconds"], v["spread"], v["loops"]) for v in document["variants"]
    ]
    assert dict(run.seconds) == document["seconds"]


def test_the_record_has_what_the_report_needs(saved: tuple[Path, dict[str, Any]]) -> None:
    run = load(saved[0] / "run.json")
    (scop,) = run.scops
    assert scop.operations is not None and scop.compulsory_bytes is not None
    assert scop.operations.at_least == scop.operations.at_most == 2 * 24 * 32 * 16
    assert scop.compulsory_bytes.at_most == 4 * (24 * 16 + 16 * 32 + 24 * 32)
    assert scop.dtype == "float"
    for m in scop.variants():
        assert set(m.scores) == set(rankers.QUICK)
        assert all(t > 0 for t in m.samples) and len(m.samples) >= 2
    assert len(scop.ranked) >= len(scop.measured)
    assert {m.id for m in scop.measured} <= {v.id for v in scop.ranked}
    assert {w.array for w in scop.winner().working_sets} == {"A", "B", "C"}
    assert all(w.min.at_most <= w.max.at_most for w in scop.original.working_sets)
    assert {d.carried_by for d in scop.dependences} == {"k"} and all(d.reduction for d in scop.dependences)
    assert {c.name for c in charts(scop, run.machine)} >= {"distribution", "samples", "roofline", "working-sets"}


def test_scores_are_those_of_the_ranking(saved: tuple[Path, dict[str, Any]]) -> None:
    (scop,) = load(saved[0] / "run.json").scops
    ranked = {v.id: v.score for v in scop.ranked}
    for m in scop.measured:
        assert m.scores["traffic"].score == pytest.approx(ranked[m.id], rel=1e-9)
        features = next(v.features for v in scop.ranked if v.id == m.id)
        assert set(m.moved) == {name[5:7] for name in features if name.startswith("into_L")}
        # The features are those of one thread.
        assert all(size == 2 * (features[f"into_{level}_bytes"] or 0) for level, size in m.moved.items())


def test_a_real_run_is_shown(saved: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = saved
    assert polydl(folder, "report", "run.json").stdout == "wrote run.html\n"
    assert b"<h1>matmul.c</h1>" in (folder / "run.html").read_bytes()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"save": "run.json", "no_run": True}, "--save and --no-run together"),
        ({"save": "run.json", "cluster": "local"}, "--save and --cluster together"),
        ({"save": "x.c", "output": "x.c"}, "are both"),
        ({"save": "./x.c", "output": "x.c"}, "are both"),
        ({"save": "matmul.c"}, "would replace the input"),
        ({"save": "nowhere/run.json"}, "there is no folder"),
    ],
)
def test_what_cannot_be_saved_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("matmul.c").write_bytes((EXAMPLES / "matmul.c").read_bytes())
    with pytest.raises(InputError, match=reason):
        optimize(file=Path("matmul.c"), format_=Style.TEXT, json_=False, **changes)
    assert [p.name for p in tmp_path.iterdir()] == ["matmul.c"], "nothing was searched or written"


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], int]:
    """`command(save)`: optimize in a folder of its own; how often it has searched so far."""
    (tmp_path / "scale.c").write_text(_SUM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path / "kept"))
    searched: list[str] = []
    search = pipeline.optimize

    def counted(*given: Any, **named: Any) -> OptimizeResult:
        searched.append("")
        done = search(*given, **named)
        scops = [replace(s, report=s.report and replace(s.report, disturbed=False)) for s in done.scops]
        return replace(done, scops=tuple(scops))

    monkeypatch.setattr(pipeline, "optimize", counted)

    def run(save: str | None) -> int:
        options = Options(threads=1, top_k=1, defines={"N": 40})
        answer = Answer(Path("scale.c"), as_json=True)
        optimize_here(answer.file, None, options, answer, run=True, fresh=False, depfile=None, save=save)
        return len(searched)

    return run


def test_a_record_is_kept_with_its_result(command: Callable[[str | None], int], tmp_path: Path) -> None:
    assert command(None) == 1
    assert command("first.json") == 2, "what is kept has no record"
    assert command("second.json") == 2
    assert command(None) == 2
    assert Path("second.json").read_bytes() == Path("first.json").read_bytes()
    (entry,) = (tmp_path / "kept" / "results").iterdir()
    document = json.loads(result_cache.CACHE.read(entry.stem) or b"")
    document["result"]["record"] = 7
    result_cache.CACHE.write(entry.stem, json.dumps(document).encode())
    with pytest.warns(UserWarning, match=r"is no result .*record"):
        assert result_cache.load(entry.stem) is None


def test_integers_have_no_roofline(command: Callable[[str | None], int]) -> None:
    command("run.json")
    (scop,) = (run := load(Path("run.json"))).scops
    assert (scop.dtype, scop.operations and scop.operations.at_most) == ("", 0)
    assert "roofline" not in {c.name for c in charts(scop, run.machine)}


def _run(source: Path, **changes: Any) -> Run:
    options = Options(threads=1, top_k=1).changed(**changes)
    done = pipeline.optimize(source, source.with_suffix(".out.c"), options)
    run = recorded(done, options)
    assert loads(dumps(run).encode(), "x") == run
    return run


def test_a_stencil_in_time(tmp_path: Path) -> None:
    """The rankers see one loop of it only, so that they are not quoted; operations and working sets are there."""
    source = tmp_path / "stencil.c"
    source.write_text(_STENCIL)
    (scop,) = (run := _run(source, fuse=False)).scops
    assert scop.operations is not None and scop.operations.at_most == 3 * 2 * 14 * 3
    assert scop.compulsory_bytes is not None and scop.compulsory_bytes.at_most == 8 * (16 + 16)
    assert all(not m.scores and not m.moved for m in scop.variants())
    assert scop.original.working_sets and scop.fusion is None
    assert "roofline" in {c.name for c in charts(scop, run.machine)}


def test_what_takes_too_long_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exceeded(*_: object) -> None:
        raise QuotaExceeded("too much")

    for module in (recording, operations):
        monkeypatch.setattr(module, "count", exceeded)
    monkeypatch.setattr(recording, "working_sets", exceeded)
    source = tmp_path / "stencil.c"
    source.write_text(_STENCIL)
    (scop,) = _run(source, fuse=False).scops
    assert scop.operations is None and scop.compulsory_bytes is None
    assert scop.original.working_sets == () and scop.original.working_sets_note == "too much"


def test_nothing_measured_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "scale.c").write_text(_SUM)
    options = Options(defines={"N": 8})
    done = pipeline.optimize(tmp_path / "scale.c", options=options, run=False)
    with pytest.raises(ValueError, match="nothing was measured"):
        recorded(done, options)
