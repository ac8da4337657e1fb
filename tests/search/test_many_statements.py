"""Programs of many statements: what is counted falls with them, results stay as they are, and no limit is for all."""

from __future__ import annotations

import dataclasses
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polydl
from polydl import pipeline
from polydl.base.effort import Effort
from polydl.base.errors import QuotaExceeded
from polydl.dependences.analysis import dependences
from polydl.dependences.scalars import private_depth, private_scalars
from polydl.frontend import load
from polydl.locality.contiguity import _Progression, _seen_before, _Subscript
from polydl.lower.emit import generate
from polydl.measure import check_compiles
from polydl.model.scop import Scop
from polydl.search import variant as variants
from polydl.search.sizes.choose import Choice
from polydl.search.timing_order import TimingOrder, compiled

NEST = """
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            {to}[i][j] = 0.{number} * {of}[i][j] + 0.2 * ({of}[i - 1][j] + {of}[i + 1][j]) + {of}[i][j - 1] * 0.1;"""


def nests(count: int) -> str:
    body = "".join(NEST.format(to="ba"[k % 2], of="ab"[k % 2], number=k + 1) for k in range(count))
    return f"void many(int n, double a[restrict n][n], double b[restrict n][n])\n{{{body}\n}}\n"


@pytest.mark.parametrize(("count", "regions"), [(24, [24]), (25, [12, 12, 1]), (60, [12] * 5)])
def test_many_nests_are_several_regions(count: int, regions: list[int]) -> None:
    scops = load(_file(nests(count)), sizes={"n": 100}).scops
    assert [len(scop.statements) for scop in scops] == regions
    assert all(one.region.end <= other.region.start for one, other in pairwise(scops))


def _file(text: str) -> Path:
    from polydl.frontend.inline import located

    return located(text)[0]


def transform(points: int) -> str:
    """Sums of a row into temporaries, and sums of these: all in one body."""
    rows = range(points)
    terms = {
        (k, x): " + ".join(f"{(k * m + x) % 5}.5f * in[{points} * r + {x}][{points} * q + {m}]" for m in rows)
        for x in rows
        for k in rows
    }
    first = [f"float t{k}{x} = {sums};" for (k, x), sums in terms.items()]
    second = [
        f"out[{points} * r + {k}][{points} * q + {x}] = {' + '.join(f'{(k + m) % 3}.5f * t{x}{m}' for m in rows)};"
        for x in rows
        for k in rows
    ]
    extents = f"[restrict {points} * rows][{points} * columns]"
    body = "\n".join([*first, *second])
    loops = "for (int r = 0; r < rows; r++) for (int q = 0; q < columns; q++) {"
    return f"void f(int rows, int columns, const float in{extents}, float out{extents})\n{{ {loops}\n{body}\n}} }}\n"


def small() -> Scop:
    (scop,) = load(_file(transform(3)), sizes={"rows": 20, "columns": 24}).scops
    return scop


def test_private_scalars_are_those_of_each_name_by_itself() -> None:
    scop = small()
    found = {name: depth for name in scop.arrays if (depth := private_depth(scop, name)) is not None}
    assert private_scalars(scop) == found and len(found) == 9


def test_dependences_without_reads_are_all_but_those() -> None:
    scop = small()
    every = dependences(scop)
    kept = [d for d in every if d.kind.name != "RAR"]
    found = dependences(scop, reads=False)
    assert [(d.kind, d.array, d.source, d.target, d.depth) for d in found] == [
        (d.kind, d.array, d.source, d.target, d.depth) for d in kept
    ]
    assert len(every) > len(kept) and all(a.relation.is_equal(b.relation) for a, b in zip(found, kept, strict=True))


def test_images_are_compared_as_one_by_one() -> None:
    rng = np.random.default_rng(0)

    shape = 30, 40
    made = [_Progression(*(rng.integers(1, 3, 30 * 40) for _ in range(3))) for _ in range(2)]
    images = [_Subscript(one, np.ones(30 * 40, dtype=np.bool_)) for one in made]
    ends = np.stack([end.reshape(shape) for one in made for end in (one.start, one.count, one.last)], axis=-1)
    elements = [[tuple(of_box) for of_box in image_] for image_ in ends.tolist()]
    expected = [[elements[f][r] in {elements[e][r] for e in range(f)} for r in range(40)] for f in range(30)]
    assert _seen_before(images, shape).tolist() == expected
    assert 100 < sum(map(sum, expected)) < 1200


def test_effort_falls_with_the_statements_of_a_file() -> None:
    usual = Effort()
    assert usual.of_file(24) is usual
    less = usual.of_file(48)
    assert (less.statements, less.fused_bases, less.fused, less.measured) == (1500, 20, 12, 75_000)
    assert (less.blocks.characters, less.searched.characters) == (75_000, 50_000)
    assert (usual.of_file(10**6).fused, usual.of_file(10**6).first) == (1, 8)
    assert dataclasses.replace(less, **{f: getattr(usual, f) for f in ("child_seconds",)}) == less


def test_effort_for_other_sizes_falls_with_the_budget() -> None:
    usual = Effort()
    assert usual.within(20) is usual.within(math.inf) is usual
    less = usual.within(2)
    assert (less.blocks.points, less.blocks.judging, less.blocks.characters) == (26, 8, 15_000)
    assert (less.searched.points, less.searched.judging, less.searched.characters) == (16, 8, 10_000)
    assert (less.timed, less.timed_ways, less.stages) == (1, 2, ((4, 6), (7, 3)))
    searched = ("fused_bases", "fused", "ways", "checks", "measured")
    assert [getattr(less, name) for name in searched] == [getattr(usual, name) for name in searched]
    assert usual.within(1e-9).nests_at_sizes == usual.within(1e-9).statements == 1


def test_a_small_budget_says_what_it_leaves_out_and_leaves_out_the_same_each_time() -> None:
    how: dict[str, Any] = {"sizes": {"n": 60}, "run": False, "space": "small", "machine": "epyc-zen5", "threads": 2}
    usual, small, again = (polydl.optimize(nests(4), budget=b, **how) for b in (20, 2, 2))
    assert not usual.less
    assert small.less == "with 2 s for a region, the search for other sizes did about 10% of the usual"
    assert small.text == again.text
    parts = {name: seconds for name, seconds in small.seconds.items() if name != "total"}
    assert list(parts) == ["analysis", "compile", "measure", "check", "other sizes"]
    assert 0 < parts["other sizes"] < sum(parts.values()) <= small.seconds["total"]


def test_a_statement_of_many_accesses_counts_for_several(tmp_path: Path) -> None:
    """The terms of a sum are accesses of one statement, and cost as many statements do."""
    terms = " + ".join(f"a[i + {k}]" for k in range(199))
    text = f"void f(int n, double *restrict a, double *restrict c) {{ for (int i = 0; i < n; i++) c[i] = {terms}; }}"
    (scop,) = polydl.load(text, sizes={"n": 1000}).scops
    assert (len(scop.statements), scop.weight) == (1, 25)
    (short,) = polydl.load(text.replace(terms, "a[i] + a[i + 1]"), sizes={"n": 1000}).scops
    assert short.weight == 1
    effort = Effort(in_full=5, statements=60, first=2)
    result = polydl.optimize(text, sizes={"n": 1000}, run=False, space="small", effort=effort)
    assert result.less.startswith("with 1 statement of 200 accesses, ")


def test_a_choice_that_no_size_judged_has_a_loss() -> None:
    choice = Choice(0, np.log([1.0, 1.21]), range(2, 2))
    assert choice.loss == pytest.approx(0.1)


def test_of_long_variants_fewer_are_timed() -> None:
    product = (Path(__file__).parents[1] / "everyday" / "gemm_plain.c").read_text()
    sizes = {"M": 64, "N": 64, "K": 64}
    variants = polydl.rank(product, "small", "epyc-zen5", defines=sizes, threads=2).variants
    five = TimingOrder(variants, 5).next({}, 5)
    lengths = [compiled(five[:n]) for n in range(6)]
    assert len(five) == 5
    assert lengths == sorted(set(lengths))
    assert TimingOrder(variants, 5, lengths[5]).next({}, 5) == five
    assert TimingOrder(variants, 5, lengths[3]).next({}, 5) == five[:4]
    assert TimingOrder(variants, 5, 1).next({}, 5) == five[:2]
    assert TimingOrder(variants, 1, 1).next({}, 5) == five[:1]
    written = five[1].generated
    longer = dataclasses.replace(written, region=written.region * (5 * lengths[1] // len(written.region)))
    second = dataclasses.replace(five[1])
    second.__dict__.update(generated=longer, illegal=None)
    assert compiled([second]) > 4 * lengths[1]
    assert TimingOrder([five[0], second, *five[2:]], 5, 1).next({}, 5) == (five[0], five[2])
    assert TimingOrder([second, *five[2:]], 1, 1).next({}, 5) == (second,)


def test_what_was_not_done_is_said(tmp_path: Path) -> None:
    effort = Effort(in_full=4, statements=40, first=2)
    result = polydl.optimize(nests(8), sizes={"n": 60}, run=False, space="small", effort=effort)
    done = "the search for schedules, fused variants and other sizes, and the timing of long ones, did about 50%"
    assert re.fullmatch(rf"with 8 statements of \d+ accesses, {done} of the usual", result.less)
    assert not polydl.optimize(nests(2), sizes={"n": 60}, run=False, space="small", effort=Effort(statements=40)).less


def test_a_variant_whose_code_is_too_much_is_left_out_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ranking = polydl.rank(nests(1), "small", "epyc-zen5", sizes={"n": 60}, threads=2)
    first = next(one for one in ranking if not one.as_written)

    def too_much(program: Scop, tree: object) -> object:
        if tree is first.tree:
            raise QuotaExceeded("code generation needs more than 3 isl operations")
        return generate(program, tree)  # type: ignore[arg-type]

    monkeypatch.setattr(variants, "generate", too_much)
    order = TimingOrder(ranking.variants, 2)
    chosen, refused = order.next({}), order.illegal
    assert refused == (f"{first.id}: code generation needs more than 3 isl operations",)
    assert chosen and first.id not in {one.id for one in chosen}


@pytest.mark.parametrize("others", [True, False])
def test_what_was_compiled_piece_by_piece_is_only_read_as_a_whole(
    others: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code for other sizes is compiled with the whole output."""
    wanted: list[bool] = []

    def compiles(*given: Any, object_code: bool) -> Any:
        wanted.append(object_code)
        return check_compiles(*given, object_code=object_code)

    monkeypatch.setattr(pipeline, "check_compiles", compiles)
    monkeypatch.setattr(pipeline, "timer_of", lambda *_: None)
    monkeypatch.setattr(pipeline, "choose", lambda report, variants, ranked: variants[0])
    loops = "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) for (int k = 0; k < n; k++)"
    arrays = ", ".join(f"float {name}[restrict n][n]" for name in "abc")
    text = f"void f(int n, {arrays}) {{ {loops} c[i][j] += a[i][k] * b[k][j]; }}"
    sizes: dict[str, int | range] = {"n": 48}
    if not others:
        text = text.replace("int n, ", "").replace("n;", "48;").replace("[restrict n][n]", "[restrict 48][48]")
        sizes = {}
    done = polydl.optimize(text, tmp_path / "out.c", sizes=sizes, space="small", top_k=1, threads=1)
    code = done.scops[0].code
    assert code is not None and bool(code.otherwise) == others
    assert wanted == [others]
