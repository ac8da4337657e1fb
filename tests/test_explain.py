"""`polydl explain` and forced loop strings, from the API and from the command line."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from polydl import pipeline
from polydl.base.errors import IllegalVariant, InputError
from polydl.inspect.analyses import analyze
from polydl.inspect.explain import Explanation, explain
from polydl.lower.emit import generate
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.rank import rankers
from polydl.rank.rankers import RankerWarning
from polydl.results import Ranking

MATMUL = Path(__file__).parents[1] / "examples" / "matmul.c"
SMALL = Options(machine="xeon-8280", threads=4, space="small")
PARTS = ("compute", "L2", "L3", "memory", "translation", "waiting", "copies", "sums", "forks", "correction")
SECONDS = {f"{part}_seconds" for part in PARTS}
"""Features that a score is the sum of."""


@cache
def scop() -> Scop:
    return pipeline.load(MATMUL, SMALL).scops[0]


@cache
def ranking(ranker: str) -> Ranking:
    return pipeline.rank(scop(), ranker=ranker, options=SMALL)


def one(name: str, options: Options = SMALL) -> Explanation:
    return explain(scop(), [name], options).variants[0]


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "polydl", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_best_is_the_best_of_the_ranker_asked_for() -> None:
    for ranker in ("traffic", "trace", "cost"):
        found = one("best", SMALL.changed(ranker=ranker))
        first = ranking(ranker).variants[0]
        assert found.id == first.id
        assert found.places[ranker].rank == 1
        assert found.places[ranker].score == first.score
        assert found.code == generate(scop(), first.tree).region


def test_ranks_are_the_places_in_each_ranking() -> None:
    wanted = ranking("traffic").variants[7]
    found = one(wanted.id)
    for ranker in ("traffic", "trace", "cost"):
        ids = [v.id for v in ranking(ranker).variants]
        assert found.places[ranker].rank == ids.index(wanted.id) + 1
        assert found.places[ranker].of == len(ids)
    assert found.places["traffic"].score == wanted.score
    cost = found.places["cost"]
    assert cost.score == pytest.approx(sum(v for k, v in cost.features.items() if k in SECONDS), rel=1e-9)
    assert cost.features["cost_score"] == ranking("cost")["cost_score"][cost.rank - 1]


def test_the_beginning_of_an_id_is_enough() -> None:
    ids = sorted(v.id for v in ranking("traffic").variants)
    wanted = ids[len(ids) // 2]
    length = next(n for n in range(1, 11) if sum(i.startswith(wanted[:n]) for i in ids) == 1)
    assert one(wanted[:length]).id == wanted
    shared = next(i[0] for i, j in itertools.pairwise(ids) if i[0] == j[0] and i[0].isdigit())
    with pytest.raises(InputError, match=f"variants have an id that begins with '{shared}'"):
        one(shared)


def test_a_loop_string_is_a_name_too() -> None:
    found = one("aBc c=50;mk=14x32:k")
    assert found.loop_strings() == {"S0": {"loops": "aBc", "blocks": "c=50;mk=14(i)x32(j):k"}}
    # Not in the space: scored, and placed among what is.
    scores = [v.score for v in ranking("trace").variants]
    place = found.places["trace"]
    assert place.rank == 1 + sum(s < place.score for s in scores)
    with pytest.raises(IllegalVariant, match="dependence on C"):
        one("abC mk=none")
    with pytest.raises(InputError, match="no variant has this id, nor is it a loop string") as caught:
        one("nonsense")
    assert caught.value.span is not None
    assert caught.value.span.column == 1


def test_the_working_sets_of_the_original_are_those_of_analyze() -> None:
    found = one("original")
    machine = SMALL.target()
    expected = analyze(scop(), machine).to_data()["working_sets"]
    shown = ("kind", "array", "carried_by", "min", "max", "level_min", "level_max")
    assert [{k: r.to_data()[k] for k in shown} for r in found.reuses] == expected
    assert found.code.lstrip().startswith("for (int i = 0;")
    assert found.id == "original"
    # C[i][j] from one k to the next: A and B twice, C once; to the last k all of the row of A and the column of B.
    (accumulator,) = (r for r in found.reuses if r.working_set.array == "C" and r.working_set.kind.value == "RAW")
    assert (accumulator.working_set.min.value, accumulator.working_set.max.value) == (5, 401)
    assert (accumulator.level_min, accumulator.level_max) == ("L1", "L1")


def test_tiling_shows_in_the_working_sets() -> None:
    """Blocks of 50 of k: from one use of B's block to the next lies no more than what a row of blocks touches."""
    plain, tiled = explain(scop(), ["aBc mk=none", "cab c=50;mk=10x50:k"], SMALL).variants
    by_loop = {r.working_set.carried_by for r in tiled.reuses}
    assert "k.0" in by_loop
    b_again = [r for r in tiled.reuses if r.working_set.array == "B" and r.working_set.carried_by == "i"]
    assert b_again
    # 10 x 50 of A twice, 50 x 100 of B, two rows of blocks of C at most.
    assert all(r.working_set.min.upper <= 2 * 500 + 5000 + 2 * 10 * 100 for r in b_again)
    assert plain.id != tiled.id


def test_json_from_the_command_line_with_times() -> None:
    done = cli("explain", str(MATMUL), "best", "original", "--space", "small", "--threads", "1", "--measure", "--json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["function"] == "matmul"
    best, original = document["variants"]
    assert original["id"] == "original"
    assert original["recipe"] == []
    assert set(best["rankers"]) == {"traffic", "cost", "trace"}
    assert best["rankers"]["traffic"]["rank"] == 1
    assert best["rankers"]["traffic"]["predicted_seconds"] > 0
    assert best["measured"]["verified"] is True
    assert 0 < best["measured"]["seconds"] < original["measured"]["seconds"]
    assert {"L1", "memory"} <= set(best["level_bytes"])
    assert best["working_sets"][0].keys() >= {"kind", "array", "carried_by", "min", "max", "level_min", "level_max"}


def test_why_a_variant_would_be_timed() -> None:
    """The best estimate is timed first, then what may gain on it; the last of the order is not."""
    order = ranking("traffic").variants
    first, last = explain(scop(), ["best", order[-1].id], SMALL).variants
    assert first.why_timed == "the best estimate"
    assert last.why_timed.startswith("not among the first ")
    assert first.to_data()["why_timed"] == first.why_timed
    count = sum(not v.why_timed.startswith("not among") for v in explain(scop(), [v.id for v in order], SMALL).variants)
    assert count == SMALL.top_k
    shown = cli("explain", str(MATMUL), "best", "original", "--space", "small", "--machine", "xeon-8280").stdout
    line = next(line for line in shown.splitlines() if line.strip().startswith("timed by"))
    assert "the best estimate" in line
    assert "what the others are" in line


TRIANGLE = """
void triangle(float C[restrict 1000][1000], const float A[restrict 1000][1000], const float B[restrict 1000][1000])
{
    for (int i = 0; i < 1000; i++)
        for (int j = 0; j <= i; j++)
            for (int k = 0; k < 1000; k++)
                C[i][j] += A[i][k] * B[k][j];
}
"""


def test_a_ranker_that_counts_each_structure_is_left_out_of_thousands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took twenty minutes for 5,000, with nothing to see."""
    path = tmp_path / "triangle.c"
    path.write_text(TRIANGLE)
    (triangle,) = pipeline.load(path, SMALL).scops
    (found,) = explain(triangle, "best", SMALL).variants
    assert set(found.places) == {"traffic", "trace", "cost"}
    monkeypatch.setattr(rankers, "MOST_COUNTED", 5)
    with pytest.warns(RankerWarning, match=r"cost is left out: .* structures of S0, one by one"):
        (found,) = explain(triangle, "best", SMALL).variants
    assert set(found.places) == {"traffic", "trace"}
    (found,) = explain(triangle, "best", SMALL.changed(ranker="cost")).variants
    assert "cost" in found.places


def test_side_by_side() -> None:
    done = cli("explain", str(MATMUL), "aBc c=50", "original", "--space", "small", "--machine", "xeon-8280")
    assert done.returncode == 0, done.stderr
    loops = next(line for line in done.stdout.splitlines() if "loop string" in line)
    assert loops.index("S0: aBc c=50;mk=") < loops.index("S0: abc mk=none")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("optimize", str(MATMUL), "--loops", "abC", "--blocks", "mk=none"), "WAR dependence on C"),
        (("optimize", str(MATMUL), "--loops", "abQ"), "--loops:1:3: error: there is no loop 'q'"),
        (("optimize", str(MATMUL), "--blocks", "c=8"), "blocks without a loop string"),
        (("explain", str(MATMUL), "best", "original", "best"), "one or two variants"),
        (("rank", str(MATMUL), "--loops-file", "/nonexistent/loops"), "cannot read /nonexistent/loops"),
    ],
)
def test_the_input_is_at_fault(arguments: tuple[str, ...], said: str) -> None:
    done = cli(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_forced_variant_is_the_one_that_is_written(tmp_path: Path) -> None:
    output = tmp_path / "out.c"
    done = cli(
        "optimize", str(MATMUL), "-o", str(output), "--loops", "aB@schedule(dynamic,1)", "--blocks", "mk=14x32:k",
        "--threads", "2", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert len(document["variants"]) == 1
    assert document["variants"][0]["verified"] is True
    if document["chosen"] != "original":
        assert "schedule(dynamic,1)" in output.read_text()


def test_a_file_of_loop_strings_keeps_its_order(tmp_path: Path) -> None:
    path = tmp_path / "loops.txt"
    path.write_text("cab mk=none # plain\naB mk=14x32:k\n")
    done = cli("rank", str(MATMUL), "--loops-file", str(path), "--machine", "epyc-zen4", "--ranker", "trace", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["letters"] == {"S0": {"a": "i", "b": "j", "c": "k"}}
    assert [(v["loop_string"], v["blocks"], v["line"], v["rank"]) for v in document["variants"]] == [
        ("cab", "mk=none", 1, 2),
        ("aB", "mk=14x32:k", 2, 1),
    ]
