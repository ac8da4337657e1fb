"""What is said to run at a size is what the output runs there."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import polydl
from polydl import pipeline
from polydl.base.errors import InputError
from polydl.inspect.sizes_in_words import at_lines, size_lines, sizes_data
from polydl.lower import guarded_pieces as dispatch
from polydl.lower.emit import Generated
from polydl.lower.guarded_pieces import Among, Asked, Narrowed, Question, dispatched
from polydl.options import Options
from polydl.results import Optimized
from polydl.search.sizes.code import EverySize
from polydl.search.sizes.decision_tree import Branch
from tests.compiling import run_compiler, run_program
from tests.efforts import FEW

MATMUL = """\
void product(int m, int n, int k, const float *restrict A, int lda, const float *restrict B, float *restrict C)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            for (int p = 0; p < k; p++)
                C[i * n + j] += A[i * lda + p] * B[p * n + j];
}
"""
OPTIONS = Options(
    sizes={"m": range(1, 2049), "n": range(1, 2049), "k": 256, "lda": 256},
    machine="epyc-zen5",
    threads=2,
    space="small",
    effort=FEW,
)


@cache
def product() -> Optimized:
    ranking = pipeline.rank(MATMUL, options=OPTIONS)
    return pipeline.at_other_sizes(ranking, OPTIONS)


def numbered(at: Branch, ids: list[str]) -> Asked[Generated] | Generated:
    """The tree with code that says which leaf it is."""
    if isinstance(at, Among):
        return Among(at.values, numbered(at.small, ids), numbered(at.large, ids))
    if not isinstance(at, Question):
        return Generated((), f"taken = {ids.index(at.recipe.id)};")
    return Question(at.extents, at.limit, numbered(at.small, ids), numbered(at.large, ids))


def test_the_tree_says_what_the_compiled_conditions_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = product().other_sizes
    assert isinstance(others, EverySize)
    tree = others.tree
    ids = [leaf.recipe.id for leaf in tree.leaves()]
    assert len(ids) > 1
    monkeypatch.setattr(dispatch, "original_text", lambda scop: "taken = -1;")
    scop = pipeline.load(MATMUL, OPTIONS, require_sizes=False, rows_fit=True, sizes={}).scops[0]
    code = dispatched(scop, Narrowed(scop, tree.values), numbered(tree.top, ids))
    names = ("m", "n", "k", "lda")
    points = list(itertools.product((0, 1, 2, 31, 90, 512, 5000), (0, 1, 3, 64, 2000), (0, 1, 256), (1, 256, 6000)))
    calls = "".join(f'printf("%d\\n", which({", ".join(map(str, p))}));' for p in points)
    text = [
        "#include <stdio.h>", *code.prologue,
        f"static int which(int m, int n, int k, int lda) {{ int taken = -2; {code.region} return taken; }}",
        f"int main(void) {{ {calls} }}",
    ]  # fmt: skip
    (tmp_path / "which.c").write_text("\n".join(text))
    run_compiler(["cc", "-o", "which", "which.c"], tmp_path)
    ran = run_program([tmp_path / "which"]).stdout.split()
    found = [tree.at(dict(zip(names, p, strict=True))).id for p in points]
    assert found == [ids[int(number)] if int(number) >= 0 else "original" for number in ran]
    assert set(found) > {"original"}


def test_the_tuned_sizes_run_what_was_tuned() -> None:
    done = product()
    assert done.tuned_sizes == {"m": 512, "n": 512, "k": 256, "lda": 256}
    assert done.chosen is not None
    found = done.at({})
    assert (found.id, found.seconds, found.behind) == (done.chosen.id, done.chosen.score, 0.0)
    assert done.at({"m": 512}) == found
    assert done.at({"m": 511}).id != found.id


def test_an_estimate_is_no_better_than_the_best_of_the_ways() -> None:
    for m, n in ((1, 1), (7, 500), (100, 100), (1000, 3), (5000, 4099)):
        found = product().at({"m": m, "n": n})
        assert 0 < found.best <= found.seconds
        assert found.behind >= 0


def test_what_is_not_estimated_is_said() -> None:
    nothing = product().at({"m": 0})
    assert nothing.recipe is None
    assert "no instance" in nothing.reason
    assert "the original loops" in next(at_lines(nothing))
    assert nothing.to_data()["predicted_seconds"] is None


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"q": 4}, "'q' is no parameter of 'product'"),
        ({"m": 2**31}, "the size m is 2147483648"),
        ({"m": range(1, 3)}, r"the size m is range\(1, 3\)"),
        ({"m": 2.5}, "the size m is 2.5"),
    ],
)
def test_sizes_that_are_none(sizes: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        product().at(sizes)


def test_lines_name_every_variant_and_every_condition() -> None:
    done = product()
    others = done.other_sizes
    assert isinstance(others, EverySize)
    text = "\n".join(size_lines(done))
    assert "m = 512, n = 512, which stands for m = 1..2048, n = 1..2048" in text
    assert all(leaf.recipe.id in text for leaf in others.tree.leaves())
    assert others.tree.condition in text
    data = sizes_data(done)
    assert data["ranges"] == {"m": [1, 2048], "n": [1, 2048]}
    assert data["tree"]["if"] == others.tree.condition


def test_a_program_without_code_for_every_size_says_why() -> None:
    text = "void f(int n, double x[n]) { for (int i = 1; i < n; i++) x[i] = x[i - 1] * 0.5 + x[i]; }"
    options = OPTIONS.changed(sizes={"n": range(1, 3)})
    done = pipeline.at_other_sizes(pipeline.rank(text, options=options), options)
    assert isinstance(done.other_sizes, str)
    assert done.other_sizes
    assert done.other_sizes in "\n".join(size_lines(done))
    assert done.at({"n": 7}).reason == done.other_sizes
    assert sizes_data(done)["why_none"] == done.other_sizes


def test_macros_are_no_sizes_that_change() -> None:
    text = "void f(float x[N]) { for (int i = 0; i < N; i++) x[i] *= 2; }"
    options = Options(defines={"N": 64}, machine="epyc-zen5", threads=2, space="small")
    done = pipeline.at_other_sizes(pipeline.rank(text, options=options), options)
    assert "macros alone" in "\n".join(size_lines(done))
    with pytest.raises(InputError, match="'N' is no parameter") as caught:
        done.at({"N": 5})
    assert "-D" in str(caught.value.hint)


def test_a_ranking_without_sizes_is_for_those_that_stand_for_every_value() -> None:
    found = polydl.rank(MATMUL.replace("lda", "k").replace(", int k,", ",", 1), machine="epyc-zen5", space="small")
    assert set(found.ranges) == {"m", "n", "k"}
    assert all(found.scop.sizes[name] in values for name, values in found.ranges.items())
