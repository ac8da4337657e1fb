"""`polydl fuse`, `--no-fuse`, and what `explain` says of fusion."""

from __future__ import annotations

import json
from pathlib import Path

from polydl import pipeline
from polydl.inspect.explain import explain
from polydl.options import Options
from polydl.search.timing_order import TimingOrder
from tests.cli.running import polydl, refused
from tests.rewrite.programs import KERNELS, NESTS

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
    unfused, found = set(map(id, ranking)), pipeline.with_fused(ranking, options).variants
    assert any(id(v) not in unfused for v in found)
    assert pipeline.with_fused(ranking, options.changed(fuse=False)) is ranking
    assert [v for v in found if id(v) in unfused] == list(ranking.variants), "the unfused variants stay candidates"


def test_room_for_both_among_the_measured(tmp_path: Path) -> None:
    path = tmp_path / "chain.c"
    path.write_text(CHAIN.text())
    options = Options(threads=1, machine="xeon-8480plus", top_k=12)
    ranking = pipeline.rank(path, options=options)
    unfused = set(map(id, ranking))
    chosen = TimingOrder(pipeline.with_fused(ranking, options).variants, 12).next({}, 12)
    fused = [id(v) not in unfused for v in chosen]
    assert any(fused) and not all(fused)


def test_explain_shows_the_decisions(tmp_path: Path) -> None:
    path = tmp_path / "chain.c"
    path.write_text(CHAIN.text())
    scop = pipeline.load(path).scops[0]
    found = explain(scop, ["best"], Options(threads=2, space="small", machine="xeon-8480plus"))
    assert sum(line.startswith("fused: ") for line in found.fusion) == CHAIN.into
    assert found.to_data()["fusion"] == list(found.fusion)


POOLED = """#include <math.h>
#define K 16
void block(const float in[restrict 8][18][18], const float w[restrict 8][3][3][K], const float bias[restrict K],
           float conv[restrict 16][16][K], int out[restrict 8][8][K])
{
#pragma scop
  for (int y = 0; y < 16; y++) for (int x = 0; x < 16; x++) for (int k = 0; k < K; k++) conv[y][x][k] = 0;
  for (int y = 0; y < 16; y++) for (int x = 0; x < 16; x++) for (int k = 0; k < K; k++)
    for (int c = 0; c < 8; c++) for (int p = 0; p < 3; p++) for (int q = 0; q < 3; q++)
      conv[y][x][k] += in[c][y + p][x + q] * w[c][p][q][k];
  for (int y = 0; y < 16; y++) for (int x = 0; x < 16; x++) for (int k = 0; k < K; k++)
    conv[y][x][k] = fmaxf(conv[y][x][k] + bias[k], 0.0f);
  for (int y = 0; y < 8; y++) for (int x = 0; x < 8; x++) for (int k = 0; k < K; k++) {
    out[y][x][k] = 0;
    for (int p = 0; p < 2; p++) for (int q = 0; q < 2; q++)
      out[y][x][k] += conv[2 * y + p][2 * x + q][k] > 1.0f;
  }
#pragma endscop
}
"""


def test_fused_beside_a_region_with_a_schedule_of_its_own(tmp_path: Path) -> None:
    """Convolution, bias and ReLU in one microkernel, and after them a count in windows that are written out."""
    path = tmp_path / "block.c"
    path.write_text(POOLED)
    options = Options(threads=2, machine="xeon-8480plus", top_k=5)
    ranking = pipeline.with_fused(pipeline.rank(path, options=options), options)
    both = [v for v in ranking.variants if v.scheduled and any(part.into for part in v.parts)]
    assert both
    done = polydl(tmp_path, "optimize", path, "-o", tmp_path / "out.c", "--json", "--budget", "none")
    found = json.loads(done.stdout)
    assert all(v["verified"] for v in found["variants"]), found["variants"]
