"""What is said of values that pass between nests: bytes, layouts, caches, and why no loops are shared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from polydl.cli.app import app
from polydl.inspect.edges import EdgeInVariant, edges, layout_text
from polydl.model.layout import Layout, row_major
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.pipeline import load, rank, score, with_fused
from polydl.rank import rankers
from polydl.rank.estimator import Estimator
from polydl.results import Ranking
from polydl.schedule.notation import Written, split_line
from polydl.search.merged_variants import merged_variants
from polydl.search.variant import Variant
from tests.search.test_merged import CHAIN

OPTIONS = Options(machine="epyc-zen5", threads=2, space="small")


def ranking(folder: Path, text: str, defines: Mapping[str, int | str] = {}, threads: int = 2) -> Ranking:
    file = folder / "program.c"
    file.write_text(text)
    o = OPTIONS.changed(threads=threads)
    (scop,) = load(file, o, defines=defines).scops
    return with_fused(rank(scop, options=o), o)


def between(found: Ranking, variant: Variant, array: str) -> EdgeInVariant:
    """The edge of an array to the last nest that reads it, from the last one that writes it."""
    return [one for one in edges(variant, found) if one.edge.array == array and one.edge.producer][-1]


def merged(found: Ranking) -> Variant:
    return next(v for v in found.variants if any(part.merge for part in v.parts))


def apart(found: Ranking) -> Variant:
    """The best variant of the program before its nests were fused."""
    whole = (v for v in found.variants if v.program is found.scop)
    return next(v for v in whole if not any(part.merge or part.into for part in v.parts))


CHAINED: dict[str, int | str] = {"M": 100, "READ": "i"}


def test_a_merged_edge(tmp_path: Path) -> None:
    found = ranking(tmp_path, CHAIN, CHAINED)
    variant = merged(found)
    edge = between(found, variant, "P")
    assert edge.shared and edge.apart == "" and not edge.inside
    assert edge.buffer_bytes is not None and edge.buffer_bytes < 100 * 36 * 4 and edge.level in ("L1", "L2")
    data = edge.to_data()
    assert data["merged"] and data["bytes"] == 100 * 36 * 4 and data["why_not"] is None and data["private"]
    assert data["layout"] == "row-major" and json.dumps(data)


def test_a_variant_that_shares_is_named(tmp_path: Path) -> None:
    """Of one without, beside its estimate."""
    found = ranking(tmp_path, CHAIN, CHAINED)
    edge = between(found, apart(found), "P")
    best = next(v for v in found.variants if any(part.merge for part in v.parts))
    assert not edge.shared and edge.apart.startswith(f"{best.id} shares loops: ") and "by estimate" in edge.apart
    assert edge.buffer_bytes is None


def test_the_dependence_that_no_loop_follows(tmp_path: Path) -> None:
    found = ranking(tmp_path, CHAIN, {"M": 64, "READ": "(M - 1 - i)"})
    edge = between(found, apart(found), "P")
    assert "no loop has the same value in both" in edge.apart and "needs P of" in edge.apart and "RAW" in edge.apart


def test_too_few_iterations(tmp_path: Path) -> None:
    found = ranking(tmp_path, CHAIN, {"M": 13, "READ": "i"})
    edge = between(found, apart(found), "P")
    assert edge.apart in ("i is the only loop that they may share", "i runs 13 times, which is less than two tiles")


def test_no_loop_in_parallel(tmp_path: Path) -> None:
    text = """void f(float x[restrict 64][64], float y[restrict 64][64])
{
    static float s[64][64];
    for (int i = 1; i < 64; i++)
        for (int j = 1; j < 64; j++)
            s[i][j] = s[i - 1][j - 1] + s[i][j - 1] + s[i - 1][j] + x[i][j];
    for (int i = 1; i < 64; i++)
        for (int j = 1; j < 64; j++)
            y[i][j] = s[i][j] * x[63 - i][j];
}
"""
    found = ranking(tmp_path, text)
    estimator = Estimator(found.scop, found.nests, found.machine, 2, rankers.usable("traffic"))
    told = merged_variants([found.as_written()], estimator, OPTIONS).apart
    assert told == {("S0", "S1"): "no loop of S0 runs in parallel"}
    edge = between(found, apart(found), "s")
    assert not edge.shared and edge.apart == "no loop of S0 runs in parallel"


def test_something_between(tmp_path: Path) -> None:
    text = CHAIN.replace(
        "    for (int i = 0; i < M; i++)\n        for (int j = 0; j < 24; j++)",
        "    for (int k = 0; k < 36; k++)\n        for (int j = 0; j < 24; j++)\n"
        "            C[k][j] = C[35 - k][j] + C[k][23 - j];\n"
        "    for (int i = 0; i < M; i++)\n        for (int j = 0; j < 24; j++)",
    )
    found = ranking(tmp_path, text, CHAINED)
    edge = between(found, apart(found), "P")
    assert edge.apart.endswith(" between them") or "shares loops" in edge.apart


def test_inside_of_a_microkernel(tmp_path: Path) -> None:
    text = """void f(float A[restrict 96][64], float B[restrict 64][96], float bias[restrict 96],
       float Y[restrict 96][96])
{
    for (int i = 0; i < 96; i++)
        for (int j = 0; j < 96; j++) {
            Y[i][j] = 0;
            for (int k = 0; k < 64; k++)
                Y[i][j] += A[i][k] * B[k][j];
        }
    for (int i = 0; i < 96; i++)
        for (int j = 0; j < 96; j++)
            Y[i][j] = Y[i][j] + bias[j] > 0 ? Y[i][j] + bias[j] : 0;
}
"""
    found = ranking(tmp_path, text)
    fused = next(v for v in found.variants if any(part.into for part in v.parts))
    (last,) = (one for one in edges(fused, found) if one.edge.array == "Y" and one.edge.producer == "S1")
    assert last.inside and last.level == "registers" and last.to_data()["merged"]
    (given,) = (one for one in edges(fused, found) if one.edge.array == "B")
    assert given.edge.producer is None and given.apart == "" and given.said == "of the caller"


def test_copies_are_told(tmp_path: Path) -> None:
    file = tmp_path / "program.c"
    file.write_text(CHAIN)
    (scop,) = load(file, OPTIONS, defines=CHAINED).scops
    named = score(scop, [split_line(Written("S1: ab S1: mk=5(i)x12(j):k;pack=B", "-"))], OPTIONS)
    told = {one.edge.array: one.copies for one in edges(named.variants[0], named) if one.edge.consumer == "S1"}
    assert told["B"] == ("packed as B before all loops",) and told["A"] == ()


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (row_major((8, 32)), "row-major"),
        (row_major((8, 32)).blocked(1, 16), "i0, i1 / 16, i1 % 16"),
    ],
)
def test_layouts_in_words(tmp_path: Path, layout: Layout, text: str) -> None:
    file = tmp_path / "p.c"
    file.write_text("void f(float A[8][32]) { for (int i = 0; i < 8; i++) for (int j = 0; j < 32; j++) A[i][j] = 1; }")
    (scop,) = load(file).scops
    assert layout_text(_with(scop, layout).arrays["A"]) == text


def _with(scop: Scop, layout: Layout) -> Scop:
    return replace(scop, arrays={"A": replace(scop.arrays["A"], layout=layout, linear=True)})


def test_documents(tmp_path: Path) -> None:
    file = tmp_path / "chain.c"
    file.write_text(CHAIN)
    common = [
        str(file),
        "-DM=100",
        "-DREAD=i",
        "--machine",
        "epyc-zen5",
        "--threads",
        "2",
        "--space",
        "small",
        "--json",
    ]
    ranked = json.loads(CliRunner().invoke(app, ["rank", *common]).stdout)
    edge = [one for one in ranked["edges"] if one["array"] == "P" and one["producer"]][-1]
    assert {"bytes", "layout", "level", "merged", "why_not", "buffer_bytes", "distance_bytes"} <= edge.keys()
    explained = json.loads(CliRunner().invoke(app, ["explain", *common, "best"]).stdout)
    edge = [one for one in explained["variants"][0]["edges"] if one["array"] == "P" and one["producer"]][-1]
    assert not edge["merged"] and "shares loops" in edge["why_not"]
