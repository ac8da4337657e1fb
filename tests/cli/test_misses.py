"""`polydl misses`, and the figures that HayStack publishes."""

from __future__ import annotations

import json
from pathlib import Path

import polydl as package
from tests.cli.running import EXAMPLES, polydl

GEMM = """
#define D 1024
float A[D][D], B[D][D], C[D][D];
float alpha, beta;
void gemm(void) {
#pragma scop
  for (int i = 0; i < D; i++) {
    for (int j = 0; j < D; j++)
      C[i][j] *= beta;
    for (int k = 0; k < D; k++)
      for (int j = 0; j < D; j++)
        C[i][j] += alpha * A[i][k] * B[k][j];
  }
#pragma endscop
}
"""
"""examples/gemm.c of HayStack, https://github.com/spcl/haystack (Gysi et al., PLDI 2019)."""


def test_published_figures_of_haystack(tmp_path: Path) -> None:
    """The README of github.com/spcl/haystack at 0753e07: compulsory 196'608, capacity of 32 KiB and of 512 KiB
    67'043'328, total 4'297'064'448. epyc-zen4 has an L1 of 32 KiB; 1 MiB of L2 hold no more of B's 4 MiB."""
    source = tmp_path / "gemm.c"
    source.write_text(GEMM, encoding="utf-8")
    found = package.misses(source, options=package.Options(machine="epyc-zen4"))
    assert found.machine.caches[0].bytes == 32768
    whole = found.total
    assert (whole.accesses.value, whole.compulsory.value) == (4_297_064_448, 196_608)
    assert [size.value for size in whole.capacity] == [67_043_328, 67_043_328, 0]
    # "B[k][j] rd comp 0.0015 L1 1.5602 L2 1.5602 tot 24.9878", per cent of all accesses.
    (of_b,) = (one for statement, array, one in found.by_array() if array == "B")
    shares = [of_b.compulsory, of_b.capacity[0], of_b.capacity[1], of_b.accesses]
    assert [round(100 * size.value / whole.accesses.value, 4) for size in shares] == [0.0015, 1.5602, 1.5602, 24.9878]


def test_document_and_table(tmp_path: Path) -> None:
    outcome = polydl(tmp_path, "misses", EXAMPLES / "matmul.c", "--machine", "epyc-zen5", "--json")
    assert outcome.code == 0, outcome.stderr
    (scop,) = json.loads(outcome.stdout)["scops"]
    assert scop["exact"] is True
    assert scop["simulated"] is False
    assert scop["total"]["accesses"] == 4 * 300 * 100 * 200
    # 300 rows of 13 lines, 200 of 7, 300 of 7: the last line of a row has elements of that row alone.
    assert scop["total"]["compulsory"] == 300 * 13 + 200 * 7 + 300 * 7
    touched = [(a["array"], a["write"]) for a in scop["accesses"]]
    assert touched == [("A", False), ("B", False), ("C", False), ("C", True)]
    assert any("rows of A (800 bytes)" in note for note in scop["notes"])
    table = polydl(tmp_path, "misses", EXAMPLES / "matmul.c", "--machine", "epyc-zen5")
    assert table.code == 0
    assert "7,400" in table.stdout


def test_of_a_loop_string(tmp_path: Path) -> None:
    arguments = ("misses", EXAMPLES / "matmul.c", "--machine", "epyc-zen5", "--json")
    (ordered,) = json.loads(polydl(tmp_path, *arguments, "--loops", "cab").stdout)["scops"]
    assert ordered["variant"]
    assert ordered["total"]["compulsory"] == 7400
    both = polydl(tmp_path, *arguments, "--loops", "cab", "--variant", "best")
    assert both.code == 2
    assert "--variant and --loops together" in both.stderr


def test_simulated(tmp_path: Path) -> None:
    small = (
        "misses",
        EXAMPLES / "matmul.c",
        "--machine",
        "epyc-zen5",
        "-D",
        "M=40",
        "-D",
        "N=48",
        "-D",
        "K=32",
        "--json",
    )
    (counted,) = json.loads(polydl(tmp_path, *small).stdout)["scops"]
    (simulated,) = json.loads(polydl(tmp_path, *small, "--simulate").stdout)["scops"]
    assert simulated["simulated"] is True
    assert simulated["total"] == counted["total"]  # all of it fits, and rows are whole lines


def test_sizes(tmp_path: Path) -> None:
    """Given ones, and those that are taken where none are given, which the table says."""
    source = tmp_path / "set.c"
    source.write_text(
        "void f(int N, float *restrict A) {\n#pragma scop\nfor (int i = 0; i < N; i++) A[i] = 0;\n#pragma endscop\n}\n",
        encoding="utf-8",
    )
    found = polydl(tmp_path, "misses", source, "--machine", "epyc-zen5", "--size", "N=1000")
    assert "sizes: N=1000" in found.stdout
    assert " 63 " in found.stdout
    assert "sizes: N=" in polydl(tmp_path, "misses", source, "--machine", "epyc-zen5").stdout
