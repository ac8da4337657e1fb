"""What flows between the nests of a program."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from polydl.dependences.analysis import dependences
from polydl.dependences.flow import Bound, Flow, flow, private_arrays
from polydl.dependences.nests import nests
from polydl.frontend import load
from polydl.model import isl
from polydl.model.counting import Count
from polydl.model.scop import Scop
from tests.frontend.reading import scop as scop_of

HEAD = "void f(int n, float x[restrict 12][10], float y[restrict 12][10], float w[restrict 10])\n{{\n{}\n{}\n}}\n"
WRITE = "for (int i = 0; i < 12; i++) for (int j = 0; j < 10; j++) T[i][j] = x[i][j] * w[j];"


def flow_of(scop: Scop) -> Flow:
    found = dependences(scop, reads=False)
    return flow(scop, nests(scop, found), found)


def program(folder: Path, reads: str, writes: str = WRITE, local: str = "static float T[12][10];") -> Scop:
    return scop_of(folder, HEAD.format(local, f"{writes}\n{reads}"))


@pytest.mark.parametrize(
    ("reads", "size", "bound"),
    [
        ("for (int a = 0; a < 12; a++) for (int b = 0; b < 10; b++) y[a][b] = T[a][b];", 120, {"ia0", "jb0"}),
        ("for (int a = 0; a < 10; a++) for (int b = 0; b < 10; b++) y[a][b] = T[a + 2][b];", 100, {"ia2", "jb0"}),
        ("for (int a = 1; a < 10; a++) for (int b = 0; b < 9; b++) y[a][b] = T[a - 1][b + 1];", 81, {"ia-1", "jb1"}),
        ("for (int b = 0; b < 10; b++) for (int a = 0; a < 12; a++) y[a][b] = T[a][b];", 120, {"ia0", "jb0"}),
        ("for (int a = 0; a < 6; a++) for (int b = 0; b < 10; b++) y[a][b] = T[2 * a][b];", 60, {"jb0"}),
        ("for (int a = 0; a < 12; a++) for (int b = 0; b < 10; b++) y[a][b] = T[11 - a][3];", 12, set()),
        ("for (int a = 0; a < 10; a++) for (int b = 0; b < 9; b++) y[a][b] = T[a][b] + T[a][b + 1];", 100, {"ia0"}),
        ("for (int a = 9; a >= 0; a--) for (int b = 0; b < 10; b++) y[a][b] = T[a][b];", 100, {"ia0", "jb0"}),
        ("for (int a = 0; a < 12; a++) for (int b = 0; b < 10; b++) y[a][b] = T[b][a < 10 ? a : 9];", 100, {"ib0"}),
    ],
)
def test_which_loops_go_together(tmp_path: Path, reads: str, size: int, bound: set[str]) -> None:
    (edge,) = flow_of(program(tmp_path, reads)).between("S0", "S1")
    assert edge.array == "T"
    assert edge.bytes == Count.of(4 * size)
    assert edge.private
    assert {f"{b.producer}{b.consumer}{b.offset}" for b in edge.bound} == bound


def test_a_loop_of_one_statement_of_several_is_not_bound(tmp_path: Path) -> None:
    reads = (
        "for (int a = 0; a < 12; a++) { float s = 0; for (int b = 0; b < 10; b++) s += T[a][b];"
        " for (int b = 0; b < 10; b++) y[a][b] = T[a][b] / s; }"
    )
    found = flow_of(program(tmp_path, reads))
    (edge,) = found.between("S0", "S1")
    assert len(edge.relation) == 2  # the sum, and the quotient
    assert edge.bound == (Bound("i", "a", 0),)
    assert [nest.name for nest in found.nests] == ["S0", "S1"]


def test_what_the_caller_writes(tmp_path: Path) -> None:
    reads = "for (int a = 0; a < 12; a++) for (int b = 0; b < 10; b++) y[a][b] = T[a][b] + w[0];"
    edges = {(e.array, e.consumer): e for e in flow_of(program(tmp_path, reads)).edges if e.producer is None}
    assert {key: e.bytes for key, e in edges.items()} == {
        ("w", "S0"): Count.of(40), ("x", "S0"): Count.of(480), ("w", "S1"): Count.of(4)
    }  # fmt: skip
    assert not any(e.private or e.bound or e.relation for e in edges.values())


READ = "for (int a = 0; a < 12; a++) for (int b = 0; b < 10; b++) y[a][b] = T[a][b];"


@pytest.mark.parametrize(
    ("local", "writes", "reads", "private"),
    [
        ("static float T[12][10];", WRITE, READ, True),
        ("float T[12][10];", WRITE, READ, True),
        ("float T[12][10] = {0};", WRITE.replace("i = 0", "i = 1"), READ, False),  # the first row is that of before
        ("float T[12][10] = {0};", WRITE, READ, True),
        ("#pragma polydl dead(T)\nfloat T[12][10];", WRITE.replace("i = 0", "i = 1"), READ, False),
        ("static float T[12][10];", WRITE.replace(" = x", " += x"), READ, False),
        ("static float T[12][10];", WRITE.replace("12", "n"), READ, False),
        ("static float T[12][10];", WRITE.replace("12", "n"), READ.replace("12", "n"), True),
    ],
)
def test_scratch(tmp_path: Path, local: str, writes: str, reads: str, private: bool) -> None:
    made = program(tmp_path, reads, writes, local)
    assert ("T" in private_arrays(made)) is private
    assert {e.private for e in flow_of(made).between("S0", "S1")} == {private}


def test_parameters_are_no_scratch(tmp_path: Path) -> None:
    text = HEAD.format("", f"{WRITE}\n{READ}").replace("T[", "x[")
    assert private_arrays(scop_of(tmp_path, text)) == frozenset()


def test_sizes_in_parameters(tmp_path: Path) -> None:
    code = """void f(int n, int m, float x[restrict n][m], float T[restrict n][m], float y[restrict n][m])
{
    for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) T[i][j] = x[i][j];
    for (int i = 0; i < n - 1; i++) for (int j = 0; j < m; j++) y[i][j] = T[i + 1][j];
}
"""
    (edge,) = flow_of(scop_of(tmp_path, code)).between("S0", "S1")
    assert edge.bytes == "4*n*m - 4*m"
    assert edge.bound == (Bound("i", "i", 1), Bound("j", "j", 0))
    assert not edge.private


def points(of: isl.Map) -> list[tuple[int, ...]]:
    """Coordinates of the source, then of the target, of every pair."""
    found: list[tuple[int, ...]] = []
    pairs = of.wrap().flatten()
    width = isl.arity(pairs)
    pairs.foreach_point(lambda point: found.append(isl.sample(isl.Set.from_point(point))[0][:width]))
    return found


def test_bound_and_bytes_against_points(tmp_path: Path) -> None:
    """Every pair of a relation, one by one."""
    for reads, shift in itertools.product(("T[a + {0}][b]", "T[b][a + {0}]", "T[a + {0}][b] + T[a][b]"), (0, 2)):
        body = reads.format(shift)
        code = f"for (int a = 0; a < 8; a++) for (int b = 0; b < 8; b++) y[a][b] = {body};"
        (edge,) = flow_of(program(tmp_path, code)).between("S0", "S1")
        pairs = [pair for one in edge.relation for pair in points(one)]
        together = {(i, j): {pair[i] - pair[2 + j] for pair in pairs} for i, j in itertools.product(range(2), range(2))}
        wanted = {("ij"[i], "ab"[j], *apart) for (i, j), apart in together.items() if len(apart) == 1}
        assert {(b.producer, b.consumer, b.offset) for b in edge.bound} == wanted
        assert edge.bytes == Count.of(4 * len({pair[:2] for pair in pairs}))


def test_an_encoder_layer() -> None:
    """All of its intermediates are scratch, and every edge between nests over the same rows says so."""
    (scop,) = load(Path(__file__).with_name("encoder_layer.c")).scops
    found = flow_of(scop)
    assert len(scop.statements) == 38
    assert scop.live_out & {"q", "k", "v", "p", "o", "a", "h", "f", "y", "top", "sum"} == set()
    inner = [edge for edge in found.edges if edge.producer is not None]
    assert all(edge.private for edge in inner)
    pairs = {(e.array, e.producer, e.consumer): {(b.producer, b.consumer, b.offset) for b in e.bound} for e in inner}
    scores, soft, values = (n.name for n in found.nests if {"b", "i"} <= set(n.loops) and n.name in ("S7", "S9", "S16"))
    assert pairs["p", scores, soft] == {("b", "b", 0), ("i", "i", 0)}
    assert pairs["p", soft, values] == {("b", "b", 0), ("i", "i", 0)}
    assert pairs["k", "S3", scores] == {("i", "j", 0)}  # rows of k are columns of the scores
    assert Counter(edge.consumer for edge in found.edges if edge.array == "x" and edge.producer is None) == {
        "S1": 1, "S3": 1, "S5": 1, "S17": 1
    }  # fmt: skip
