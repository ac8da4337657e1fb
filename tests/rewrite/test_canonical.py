"""One form of a program for everybody: which rewrites are made of the corpus, that each holds, that every entry has it,
and that what one entry writes another reads."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

import polydl
from polydl import pipeline
from polydl.base.errors import InputError
from polydl.exchange.isl_document import documents
from polydl.exchange.yaml import dumps
from polydl.inspect.explain import explain
from polydl.learn.collect.prepare import options_for, prepare, scop_of
from polydl.learn.collect.problems import Problem
from polydl.learn.collect.run import CollectOptions, measured
from polydl.measure import MeasureOptions
from polydl.model import isl
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.results import Ranking
from polydl.rewrite.canonical import Canonical, Form, canonical
from polydl.schedule.loopstring import text
from polydl.schedule.notation import Written
from polydl.search.proofs import proof_of
from polydl.search.timing_order import TimingOrder
from tests.programs.corpus import catalogue
from tests.test_layering import MODULES, imported

QUICK = Options(space="small", machine="epyc-zen5", threads=2, fuse=False)

SYR2K = """\
void syr2k(double C[restrict 6][6], double A[restrict 6][5], double B[restrict 6][5], double unused[restrict 6])
{
#pragma scop
#pragma polydl dead(unused)
    for (int i = 0; i < 6; i++) {
        double s = 0;
        for (int k = 0; k < 5; k++)
            s += A[i][k] * B[i][k];
        unused[i] = s;
    }
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            for (int k = 0; k < 5; k++)
                C[i][j] += A[i][k] * B[j][k] + B[i][k] * A[j][k];
#pragma endscop
}
"""
"""Dead code, and a sum of products."""
PATHS = """\
void paths(double P[restrict 7][7])
{
#pragma scop
    for (int k = 0; k < 7; k++)
        for (int i = 0; i < 7; i++)
            for (int j = 0; j < 7; j++)
                P[i][j] = P[i][j] < P[i][k] + P[k][j] ? P[i][j] : P[i][k] + P[k][j];
#pragma endscop
}
"""
"""Index sets."""
DOT = """\
void dot(float C[restrict 16][16], float A[restrict 16][16], float B[restrict 16][16])
{
#pragma scop
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            float s = 0;
            for (int k = 0; k < 16; k++)
                s += A[i][k] * B[k][j];
            C[i][j] = s;
        }
#pragma endscop
}
"""
"""A sum in place."""
PROGRAMS = {"syr2k": SYR2K, "paths": PATHS, "dot": DOT}
NAMES = {
    "syr2k": ["S3t0", "S3t1"],
    "paths": [f"S0{first}{second}" for first in "abc" for second in "abc"],
    "dot": ["S0", "S1"],
}
"""Of the statements as they are searched."""


@pytest.fixture(params=list(PROGRAMS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@cache
def read(name: str) -> Scop:
    (scop,) = polydl.load(PROGRAMS[name]).scops
    return scop


@cache
def ranked(name: str) -> Ranking:
    return pipeline.rank(read(name), options=QUICK)


def statements(scop: Scop) -> list[tuple[str, isl.Set, tuple[int, ...], list[isl.Map]]]:
    """What tells two forms apart."""
    return [(s.name, s.domain, s.position, [a.relation for a in s.accesses]) for s in scop.statements]


def corpus() -> Iterator[tuple[str, Canonical]]:
    for program, entry in catalogue().items():
        values = entry.sizes[0]
        for scop in polydl.load(entry.path, defines=entry.defines(values), sizes=entry.parameters(values)).scops:
            yield program, canonical(scop)


def test_what_is_rewritten_of_the_corpus() -> None:
    made = {program: found for program, found in corpus() if found.steps or found.refused}
    assert {program: [type(step.rewrite).__name__ for step in found.steps] for program, found in made.items()} == {
        "symm": ["LinearSums"],
        "reversed": ["Upwards"] * 2,
        "syr2k": ["Terms"],
        "doitgen": ["Expanded"],
        "ludcmp": ["Lives", *["InPlace"] * 4],
        "gramschmidt": ["InPlace"],
        "durbin": ["InPlace"],
        "floyd_warshall": ["Cut", "Cut"],
        "transitive_closure": ["Cut", "Cut"],
        "harris": ["InPlace"],
        "deriche": [*["Lives"] * 4, "Columns", "Columns"],
        "depthwise": ["InPlace"],
        "attention_causal": ["InPlace"],
        "fir": ["InPlace"],
        "linear_layout": ["InPlace"],
        "complex_gemm": ["Beside", "Beside", "Terms"],
        "edit_distance": ["Returned"],
        "lstm_cell": ["Returned"],
    }
    for found in made.values():
        assert found.refused == ()
        assert [step.broken() for step in found.steps] == [None] * len(found.steps)
        assert canonical(found.scop).steps == (), "there is nothing left to rewrite"


def test_every_entry_has_the_same_program(name: str, tmp_path: Path) -> None:
    wanted = canonical(read(name)).scop
    assert [s.name for s in wanted.statements] == NAMES[name]
    assert statements(ranked(name).scop) == statements(wanted)
    (document,) = documents([read(name)])
    assert list(document["statements"]) == NAMES[name]
    assert statements(explain(read(name), "original", QUICK).scop) == statements(wanted)
    file = tmp_path / "k.c"
    file.write_text(PROGRAMS[name])
    problem = Problem(name, "tests", file, {}, 1.0)
    assert statements(canonical(scop_of(problem, options_for(problem, 2, "small", 0, None))).scop) == statements(wanted)
    nest = ranked(name).nests[0]
    line = (Written(f"{nest.name}: {text_of(ranked(name))[nest.name][0]}", "here"), Written("", "here"))
    assert statements(pipeline.score(read(name), [line], QUICK).scop) == statements(wanted)


def text_of(ranking: Ranking) -> dict[str, tuple[str, str]]:
    """Per nest the loop string and blocks of a variant that runs every nest in its loops."""
    plain = next(v for v in ranking.variants if not v.scheduled)
    return {s.nest.name: (text(s).loops, text(s).blocks) for s in plain.structures}


def test_fuse_keeps_the_names_of_the_file() -> None:
    found = canonical(read("syr2k"), reassociate=False, form=Form.WRITTEN)
    assert [s.name for s in found.scop.statements] == ["S3"]
    assert [s.name for s in canonical(read("paths"), form=Form.WRITTEN).scop.statements] == ["S0"]


def test_rewrites_are_told(name: str) -> None:
    (document,) = documents([read(name)])
    told = "\n".join(document["rewrites"])
    wanted = {"syr2k": "nothing reads what S0 computes", "paths": "S0 is cut where", "dot": "s is the element of C"}
    assert wanted[name] in told


def test_what_is_exported_is_scheduled(name: str, tmp_path: Path) -> None:
    """The order as it is written, exported and given back, is a variant that computes the same."""
    source, file = tmp_path / "k.c", tmp_path / "k.yaml"
    source.write_text(PROGRAMS[name])
    file.write_text(dumps(documents([read(name)])))
    result = pipeline.optimize(source, options=QUICK.changed(schedule=file, machine=None))
    (done,) = result.scops
    assert [s.name for s in done.ranking.scop.statements] == NAMES[name]
    assert done.report is not None
    assert [m.verified for m in done.report.measurements] == [True]


def test_a_schedule_may_name_the_statements_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    domain = "{ S3[i, j, k] : 0 <= i < 6 and 0 <= j < 6 and 0 <= k < 5 }"
    order = "[{ S3[i, j, k] -> [(j)] }, { S3[i, j, k] -> [(i)] }, { S3[i, j, k] -> [(k)] }]"
    file.write_text(yaml.safe_dump({"domain": domain, "child": {"schedule": order}}))
    found = pipeline.rank(read("syr2k"), options=QUICK.changed(schedule=file))
    assert [s.name for s in found.scop.statements] == ["S3"]
    file.write_text(yaml.safe_dump({"domain": domain.replace("S3", "S9"), "child": {"schedule": order}}))
    with pytest.raises(InputError, match="the domain leaves out S3"):
        pipeline.rank(read("syr2k"), options=QUICK.changed(schedule=file))


def test_loop_strings_of_rank_are_read_by_it(name: str) -> None:
    """A variant's loop strings name its nests, and make the variant again."""
    ranking = ranked(name)
    plain = [v for v in ranking.variants if not v.scheduled][:3]
    assert plain
    lines = []
    for variant in plain:
        said = {s.nest.name: text(s) for s in variant.structures}
        loops = "; ".join(f"{nest}: {one.loops}" for nest, one in said.items())
        blocks = "; ".join(f"{nest}: {one.blocks}" for nest, one in said.items() if one.blocks)
        (made,) = pipeline.rank(read(name), options=QUICK.changed(loops=loops, blocks=blocks)).variants
        assert (made.id, made.parts) == (variant.id, variant.parts)
        lines.append(f"{loops} {blocks}")
    assert [v.id for v in explain(read(name), lines, QUICK).variants] == [v.id for v in plain]


def test_a_loop_string_without_a_nest_means_the_loops_of_the_file() -> None:
    found = pipeline.rank(read("syr2k"), options=QUICK.changed(loops="bac"))
    assert [s.name for s in found.scop.statements] == ["S3"]
    found = pipeline.rank(read("syr2k"), options=QUICK.changed(loops="S3: bac"))
    assert [s.name for s in found.scop.statements] == ["S3"]
    found = pipeline.rank(read("syr2k"), options=QUICK.changed(loops="S3t0: bac", blocks="mk=none"))
    assert [s.name for s in found.scop.statements] == ["S3t0", "S3t1"]
    with pytest.raises(InputError, match="which nest") as refused:
        pipeline.rank(read("syr2k"), options=QUICK.changed(loops="S9: bac"))
    assert "S3 (i, j, k)" in str(refused.value)


def test_every_id_of_rank_is_explained(name: str) -> None:
    ranking = ranked(name)
    ids = [v.id for v in (*ranking.variants[:4], ranking.variants[-1])]
    found = explain(read(name), [*ids, {"syr2k": "bac", "paths": "acb", "dot": "S1: bac"}[name]], QUICK)
    assert [v.id for v in found.variants[:-1]] == ids
    for variant, explained in zip((*ranking.variants[:4], ranking.variants[-1]), found.variants, strict=False):
        assert explained.code == variant.region()
        assert explained.places["traffic"].score == variant.score
    assert "for (" in found.variants[-1].code
    assert found.rewrites == tuple(map(str, ranking.program.steps)) == tuple(found.to_data()["rewrites"])
    assert found.rewrites


def test_every_offered_variant_is_proved(name: str) -> None:
    ranking = ranked(name)
    order = TimingOrder(ranking.variants, 3)
    offered, illegal = order.next({}, 3), order.illegal
    assert offered
    assert illegal == ()
    for variant in offered:
        proof = proof_of(ranking.program, variant, QUICK)
        assert proof.holds, proof.reason
        said = "\n".join((*proof.proved, *proof.trusted))
        assert name != "syr2k" or "nothing reads what S0 computes" in said
        assert name != "dot" or "s is the element of C" in said


SEIDEL = """\
void seidel(float A[restrict 40][40])
{
#pragma scop
    for (int t = 0; t < 4; t++)
        for (int i = 1; i < 39; i++)
            for (int j = 1; j < 39; j++)
                A[i][j] = (A[i - 1][j] + A[i][j - 1] + A[i][j] + A[i][j + 1] + A[i + 1][j]) * 0.2f;
#pragma endscop
}
"""


def test_collect_measures_schedules_of_their_own(tmp_path: Path) -> None:
    """What has a schedule of its own is measured as what it is, and learning says that it takes none of it."""
    file = tmp_path / "seidel.c"
    file.write_text(SEIDEL)
    problem = Problem("seidel", "tests", file, {}, 1e4)
    options = options_for(problem, 2, "small", 0, None).changed(machine="epyc-zen5")
    timing = MeasureOptions(threads=2, budget=1e-3, min_rounds=1, max_rounds=2, jobs=2)
    prepared = prepare(problem, options, 4, timing, tmp_path / "scratch")
    assert prepared.error == ""
    scheduled = {
        variant for variant, planned in prepared.planned.items() if '"transform": "Schedule"' in spaced(planned.recipe)
    }
    assert scheduled, "the best variants of it have a schedule of their own"
    assert prepared.built is not None
    assert scheduled <= {one.id for one in prepared.built.candidates}
    found = measured(prepared, CollectOptions(threads=2, space="small"), timing, "machine", "cc")
    rows = {row.variant: row for row in found.rows}
    assert found.error == ""
    assert all(rows[variant].status == "verified" for variant in scheduled), [r.message for r in found.rows]


def spaced(recipe: str) -> str:
    return json.dumps(json.loads(recipe))


STEPS = {
    f"polydl.rewrite.{name}"
    for name in (
        "around_products",
        "scatter_to_gather",
        "scattered_sums",
        "dead",
        "div_mod_splitting",
        "materialise",
        "zero_points",
        "storage",
        "triangle_padding",
        "detiling",
        "reduction_fission",
        "split",
        "borders",
        "columns",
        "interiors",
        "joint_blocks",
        "linear",
        "expressions",
        "partial_results",
        "reroll",
        "upwards",
        "tabulate",
        "widen",
    )
}


def test_nobody_else_calls_a_rewrite() -> None:
    """Who needs the program as it is searched asks for the canonical one."""
    users = {
        module
        for module, path in MODULES.items()
        for _, what in imported(ast.parse(path.read_text(encoding="utf-8")), path)
        if (what in STEPS or what.rpartition(".")[0] in STEPS) and module not in STEPS
    }
    # What is searched for every size is the canonical program in parts as well.
    assert users == {"polydl.rewrite.canonical", "polydl.search.sizes.partial_sums"}
