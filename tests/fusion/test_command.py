"""`polydl fuse`, `--no-fuse`, and what `explain` says of fusion."""

from __future__ import annotations

import json
from pathlib import Path

from polydl import pipeline
from polydl.explain import explain
from polydl.offer import offer
from polydl.options import Options
from tests.cli.running import polydl, refused
from tests.fusion.programs import KERNELS, NESTS

CHAIN = next(p for p in KERNELS if p.name == "chain")
BNORM = next(p for p in NESTS if p.name == "bnorm_relu")
STAYS = next(p for p in NESTS if p.name == "shifted_stays")


def test_fuse_says_what_it_did_and_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "bnorm.c"
    path.write_text(BNORM.text())
    done = polydl(tmp_path, "fuse", path)
    assert done.code == 0, done.stderr
    assert "fused: S1" in done.stdout and "contracted: t" in done.stdout
    written = (tmp_path / "bnorm.polydl.c").read_text()
    assert "float polydl_t" in written
    assert written[written.index("void run_bnorm_relu") :].count("for (") == 4


def test_fuse_json(tmp_path: Path) -> None:
    path = tmp_path / "chain.c"
    path.write_text(CHAIN.text())
    done = polydl(tmp_path, "fuse", path, "--json", "-o", tmp_path / "out.c")
    (scop,) = json.loads(done.stdout)["scops"]
    assert [d["fused"] for d in scop["decisions"]] == [True] * CHAIN.into
    assert scop["decisions"][0] == {
        "into": "S1", "nest": "S0", "before": True, "fused": True, "condition": None, "reason": None
    }  # fmt: skip


def test_nothing_to_fuse_leaves_the_loops(tmp_path: Path) -> None:
    path = tmp_path / "stays.c"
    path.write_text(STAYS.text())
    done = polydl(tmp_path, "fuse", path, "-o", tmp_path / "out.c")
    assert "nothing to fuse" in done.stdout
    loops = [line.strip() for line in STAYS.body.splitlines()]
    assert all(line in (tmp_path / "out.c").read_text() for line in loops)


def test_fuse_refuses_a_missing_file(tmp_path: Path) -> None:
    assert refused(tmp_path, "fuse", "none.c")


def test_no_fuse(tmp_path: Path) -> None:
    path = tmp_path / "chain.c"
    path.write_text(CHAIN.text())
    options = Options(threads=2, space="small", machine="xeon-8480plus")
    ranking = pipeline.rank(path, options=options)
    assert any(v.scop is not None for v in pipeline.with_fused(ranking, options).variants)
    assert pipeline.with_fused(ranking, options.changed(fuse=False)) is ranking
    unfused = [v for v in pipeline.with_fused(ranking, options).variants if v.scop is None]
    assert unfused == list(ranking.variants), "the unfused variants stay candidates"


def test_room_for_both_among_the_measured(tmp_path: Path) -> None:
    path = tmp_path / "chain.c"
    path.write_text(CHAIN.text())
    options = Options(threads=2, machine="xeon-8480plus", top_k=5)
    ranking = pipeline.with_fused(pipeline.rank(path, options=options), options)
    offered, _ = offer(ranking, options, most=5)
    fused = [v.scop is not None for v, _ in offered]
    assert any(fused) and not all(fused)


def test_explain_shows_the_decisions(tmp_path: Path) -> None:
    path = tmp_path / "chain.c"
    path.write_text(CHAIN.text())
    scop = pipeline.load(path).scops[0]
    found = explain(scop, ["best"], Options(threads=2, space="small", machine="xeon-8480plus"))
    assert sum(line.startswith("fused: ") for line in found.fusion) == CHAIN.into
    assert found.to_data()["fusion"] == list(found.fusion)
