"""Scheduled programs compute what the originals compute; illegal trees are refused."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import islpy as isl
import pytest

from polydl import load
from polydl.base.errors import QuotaExceeded
from polydl.dependences.analysis import dependences
from polydl.equations.step import applied
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.model.in_child import Hung, in_child
from polydl.model.scop import Scop, Statement
from polydl.rank.estimate import Estimate
from polydl.rank.tree_estimate import Prepared, footprints_of, prepared
from polydl.rank.tree_estimate import estimates as estimates_of
from polydl.rank.whole import TreeEstimator
from polydl.rewrite.canonical import canonical
from polydl.rewrite.split import split
from polydl.schedule.as_tree import written
from polydl.schedule.direction import moving
from polydl.schedule.goal import components
from polydl.schedule.ordered import Ordered
from polydl.schedule.passes import clusters, merged
from polydl.schedule.program_tree import program_tree
from polydl.schedule.relations import Links, direct
from polydl.schedule.transforms import Schedule
from polydl.schedule.tree import Band, Copy, Kernel, Leaf, Member, Node, Run, bands, kernels, statements
from polydl.schedule.tree import Sequence as InOrder
from polydl.schedule.tree_check import broken
from polydl.search import candidates as candidates_module
from polydl.search.bases import skewed
from polydl.search.candidates import TILINGS, bases, candidates, effective, fingerprint, made
from polydl.search.isl_scheduler import ISL, Setting, computed
from polydl.target import detect, preset
from tests.compiling import run_compiler, run_program
from tests.programs.corpus import Comparison, catalogue, comparison_program

PROGRAMS = ("lu", "jacobi_1d", "seidel_2d", "floyd_warshall", "nussinov", "softmax", "gramschmidt", "trmm")
SMALL_TILES = ((), (4, 3, 8), (5,))
"""Tiles that the small sizes of the corpus do not divide."""


def scop_of(name: str) -> Scop:
    """The scop of a program of the corpus at its first test size, index sets split."""
    entry = catalogue()[name]
    values = entry.sizes[0]
    scop = load(entry.path, defines=entry.defines(values), sizes=entry.parameters(values)).scops[0]
    return applied(scop, split(scop, dependences(scop, reads=False)))


def schedules(scop: Scop) -> list[Ordered]:
    found = dependences(scop, reads=False)
    made, _ = candidates(
        scop, scop.statements, found, detect(), estimates(scop), reassociate=False, tilings=SMALL_TILES
    )
    return [part for choice in made for part in choice.parts if part.loops is None]


def estimates(scop: Scop) -> TreeEstimator:
    """How long a tree of all the scop's statements takes on two threads of this machine."""
    return TreeEstimator(footprints_of(scop, scop.statements), detect(), 2)


class OneByOne(TreeEstimator):
    """Asks for the footprints of each tree by itself."""

    def estimates(self, several: Sequence[Prepared]) -> list[Estimate]:
        scop, own = self.footprints.scop, [work.statement for work in self.footprints.works.values()]
        alone = (prepared(footprints_of(scop, own), one.tree, self.machine) for one in several)
        return [estimates_of([one], self.threads, self.far)[0] for one in alone]


@pytest.mark.parametrize("name", ["lu", "softmax", "seidel_2d"])
def test_trees_at_once_are_estimated_as_one_by_one(name: str) -> None:
    scop = scop_of(name)
    found = dependences(scop, reads=False)
    both = []
    for kind in (TreeEstimator, OneByOne):
        of = kind(footprints_of(scop, scop.statements), preset("epyc-zen5"), 2)
        made, _ = candidates(scop, scop.statements, found, of.machine, of, reassociate=True, tilings=SMALL_TILES)
        both.append([(choice.parts[0].how, choice.estimates) for choice in made])
    assert both[0] == both[1] != []


def compares(
    tmp_path: Path, name: str, texts: list[str], flags: tuple[str, ...] = (), values: Mapping[str, int] | None = None
) -> subprocess.CompletedProcess[str]:
    entry = catalogue()[name]
    source = tmp_path / "compare.c"
    source.write_text(comparison_program(entry, [Comparison(values or entry.sizes[0], [entry.text, *texts])]))
    program = tmp_path / "compare"
    command = ["cc", "-O1", "-fopenmp", "-w", *flags, "-o", str(program), str(source), "-lm"]
    run_compiler(command)
    environment = os.environ | {"OMP_NUM_THREADS": "3"}
    return run_program([str(program)], env=environment, check=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_schedule_computes_the_same(tmp_path: Path, name: str) -> None:
    scop = scop_of(name)
    made = schedules(scop)[:6]
    assert any(m.run is Run.PARALLEL for one in made for band in bands(one.tree) for m in band.members)
    texts = [splice(scop.source, [(scop, generate(scop, program_tree([one])))], "") for one in made]
    done = compares(tmp_path, name, texts, ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_scheduler_that_would_not_come_back_is_not_asked() -> None:
    """isl's scheduler takes minutes for these fourteen statements on hardly any operations; Feautrier's a moment."""
    entry = catalogue()["adi"]
    scop = load(entry.path, defines={"T": "10", "N": "1500"}).scops[0]
    found = dependences(scop, reads=False)
    made, given_up = candidates(scop, scop.statements, found, detect(), estimates(scop), reassociate=True)
    assert made
    assert [reason for reason in given_up if "unknowns at once" in reason]
    assert not [reason for reason in given_up if "was stopped" in reason]


def test_a_scheduler_that_hangs_is_reported_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    scop = scop_of("lu")
    links = direct(scop, scop.statements, dependences(scop, reads=False))
    asked: list[str] = []

    def hangs(scop: Scop, of: Sequence[Statement], links: Links, setting: Setting) -> Node | None:
        asked.append(setting.name)
        if setting.algorithm == ISL:
            raise Hung(f"{setting.name} was stopped", hint="")
        return computed(scop, of, links, setting)

    monkeypatch.setattr(candidates_module, "computed", hangs)
    given_up: list[str] = []
    hung = set[int]()
    with pytest.warns(UserWarning, match="pluto-max was stopped; a faster machine may find more schedules"):
        names = [name for name, _ in bases(scop, scop.statements, links, lambda: links, given_up, hung)]
    assert asked == ["pluto-max", "feautrier"]
    assert given_up == ["pluto-max was stopped"]
    assert "feautrier" in names
    again = [name for name, _ in bases(scop, scop.statements, links, lambda: links, given_up, hung)]
    assert asked == ["pluto-max", "feautrier", "feautrier"]
    assert again == names


def test_answers_of_a_child() -> None:
    assert in_child(lambda: "two\nlines", "this", seconds=2) == "two\nlines"

    def endless() -> str:
        while True:
            pass

    def over_quota() -> str:
        raise QuotaExceeded("too many", hint="less")

    def broken_isl() -> str:
        raise isl.Error("no such thing")

    def greedy() -> str:
        return "x" * (1 << 40)

    with pytest.raises(Hung, match="this was stopped after 1 s of processor time or for its memory"):
        in_child(endless, "this", seconds=1)
    with pytest.raises(Hung, match="or for its memory"):
        in_child(greedy, "this", seconds=1)
    with pytest.raises(QuotaExceeded, match="too many"):
        in_child(over_quota, "this", seconds=1)
    with pytest.raises(isl.Error, match="no such thing"):
        in_child(broken_isl, "this", seconds=1)


@pytest.mark.parametrize("name", ["lu", "seidel_2d", "jacobi_1d"])
def test_tiles_in_tiles(tmp_path: Path, name: str) -> None:
    scop = scop_of(name)
    found = dependences(scop, reads=False)
    links = direct(scop, scop.statements, found)
    texts = []
    for base_name, base in bases(scop, scop.statements, links, lambda: links, [], set()):
        one, two = (Schedule(base_name, (3,), outer=outer) for outer in (1, 2))
        trees = [made(scop, moving(scop, scop.statements), links, base, how, reassociate=False) for how in (one, two)]
        most = [max((len([m for m in b.members if m.tile > 1]) for b in bands(tree)), default=0) for tree in trees]
        if most[1] > most[0]:
            assert most[1] == 2 * most[0]
            assert broken(scop, scop.statements, trees[1], found, reassociate=False) is None
            code = generate(scop, program_tree([Ordered.scheduled(scop.statements, two, trees[1])]))
            texts.append(splice(scop.source, [(scop, code)], ""))
    assert texts
    done = compares(tmp_path, name, texts, ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["lu", "lu_right", "cholesky", "trsm", "trmm"])
def test_whole_tiles_in_microkernels(tmp_path: Path, name: str) -> None:
    """Factorisations and triangular products: tiles without any other statement go to the microkernel, which adds up
    in the original order; no size is a multiple of the tiles."""
    scop = scop_of(name)
    found = dependences(scop, reads=False)
    links = direct(scop, scop.statements, found)
    strict = direct(scop, scop.statements, found, privatised=False)
    texts = []
    for base_name, base in bases(scop, scop.statements, links, lambda: strict, [], set()):
        how = Schedule(base_name, (8,), block=(4, 8))
        tree = made(scop, moving(scop, scop.statements), links, base, how, reassociate=True)
        if not list(kernels(tree)):
            continue
        assert broken(scop, scop.statements, tree, found, reassociate=True) is None
        assert broken(scop, scop.statements, tree, found, reassociate=False) is not None  # a microkernel's own order
        one = Ordered.scheduled(scop.statements, how, tree)
        code = generate(scop, program_tree([one]))
        assert "_mk_" in code.region
        texts.append(splice(scop.source, [(scop, code)], ""))
    assert texts
    done = compares(tmp_path, name, texts, ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_other_names_lead_to_the_tree_that_microkernels_fit() -> None:
    """isl's schedule under the statements' own names skews the loops of the factorisation in ludcmp; under others it
    doesn't."""
    entry = catalogue()["ludcmp"]
    read = load(entry.path, defines=entry.defines(entry.sizes[0]), sizes=entry.parameters(entry.sizes[0])).scops[0]
    program = canonical(read, reassociate=True)
    scop, found = program.scop, program.dependences
    links = direct(scop, scop.statements, found)
    strict = direct(scop, scop.statements, found, privatised=False)
    with_kernels = []
    for name, base in bases(scop, scop.statements, links, lambda: strict, [], set()):
        how = Schedule(name, (8,), block=(4, 8))
        tree = made(scop, moving(scop, scop.statements), links, base, how, reassociate=True)
        if list(kernels(tree)):
            assert broken(scop, scop.statements, tree, found, reassociate=True) is None
            with_kernels.append(name)
    assert [name for name in with_kernels if name.endswith("-renamed")]


def test_a_kernel_that_reads_what_it_writes_is_refused(tmp_path: Path) -> None:
    scop = text(
        tmp_path,
        "void f(double A[restrict 40][40], const double B[restrict 40][40]) {\n#pragma scop\n"
        "for (int i = 1; i < 40; i++) for (int j = 0; j < 40; j++) for (int k = 0; k < 40; k++)\n"
        "A[i][j] += A[i - 1][k] * B[k][j];\n#pragma endscop\n}\n",
    )
    found = dependences(scop, reads=False)
    how = Schedule("written", (8,), block=(4, 8))
    base = written(scop.statements)
    tree = made(
        scop, moving(scop, scop.statements), (), base, how, reassociate=True
    )  # as if nothing depended on anything
    assert list(kernels(tree))
    wrong = broken(scop, scop.statements, tree, found, reassociate=True)
    assert wrong is not None
    assert "dependence on A" in wrong


@pytest.mark.parametrize("name", ["lu", "jacobi_1d", "gemver", "trmm"])
def test_ways_that_are_effectively_the_same_make_the_same_tree(name: str) -> None:
    scop = scop_of(name)
    of = moving(scop, scop.statements)
    links = direct(scop, scop.statements, dependences(scop, reads=False))
    shared = 0
    for _, base in bases(scop, scop.statements, links, lambda: links, [], set()):
        start, known = merged(base, links), {}
        for way in [Schedule("", sizes, outer=outer, block=(4, 8)) for sizes in TILINGS for outer in (1, 2)]:
            text = fingerprint(made(scop, of, links, base, way, reassociate=True))
            key = effective(way, start)
            shared += key in known
            assert known.setdefault(key, text) == text
        assert len(known) == 1 or len(set(known.values())) > 1
    assert shared


def test_same_input_same_schedules() -> None:
    first, second = (schedules(scop_of("lu")) for _ in range(2))
    assert [(s.how, fingerprint(s.tree)) for s in first] == [(s.how, fingerprint(s.tree)) for s in second]


def text(tmp_path: Path, code: str) -> Scop:
    path = tmp_path / "p.c"
    path.write_text(code)
    return load(path).scops[0]


JACOBI = """void f(double A[restrict 40], double B[restrict 40]) {
  for (int t = 0; t < 10; t++) {
    for (int i = 1; i < 39; i++) B[i] = A[i - 1] + A[i] + A[i + 1];
    for (int i = 1; i < 39; i++) A[i] = B[i - 1] + B[i] + B[i + 1];
  }
}
"""


def test_skewing_finds_the_least_slope(tmp_path: Path) -> None:
    scop = text(tmp_path, JACOBI)
    tree = skewed(scop.statements, direct(scop, scop.statements, dependences(scop, reads=False)))
    assert isinstance(tree, Band)
    shown = [{name: str(aff) for name, aff in member.affs.items()} for member in tree.members]
    assert shown == [
        {"S0": "{ S0[t, i] -> [(t)] }", "S1": "{ S1[t, i] -> [(t)] }"},
        {"S0": "{ S0[t, i] -> [(2t + i)] }", "S1": "{ S1[t, i] -> [(1 + 2t + i)] }"},
    ]


def why(scop: Scop, tree: Node) -> str | None:
    return broken(scop, scop.statements, tree, dependences(scop, reads=False), reassociate=False)


def with_run(tree: Node, at: int, run: Run) -> Node:
    """The tree with the first loop of band number `at` run otherwise."""
    target = list(bands(tree))[at]

    def change(node: Node) -> Node:
        match node:
            case Leaf() | Kernel() | Copy():
                return node
            case InOrder(children):
                return InOrder(tuple(change(c) for c in children))
            case Band(members, child):
                head = (replace(members[0], run=run), *members[1:]) if node is target else members
                return Band(head, change(child))

    return change(tree)


@pytest.mark.parametrize("run", [Run.PARALLEL, Run.SIMD])
def test_concurrent_loops_are_checked(tmp_path: Path, run: Run) -> None:
    scop = text(tmp_path, JACOBI)
    tree = written(scop.statements)
    assert why(scop, tree) is None
    assert "at the same time as" in (why(scop, with_run(tree, 0, run)) or "")
    assert why(scop, with_run(tree, 1, run)) is None


def test_wrong_orders_are_refused(tmp_path: Path) -> None:
    scop = text(tmp_path, JACOBI)
    tree = written(scop.statements)
    assert isinstance(tree, Band) and isinstance(tree.child, InOrder)
    reversed_ = Band(tree.members, InOrder(tree.child.children[::-1]))
    assert "no later than" in (why(scop, reversed_) or "")
    outside_in = InOrder(tuple(Band((_only(tree.members[0], c),), c) for c in tree.child.children))
    assert "no later than" in (why(scop, outside_in) or "")


def _only(member: Member, node: Node) -> Member:
    return replace(member, affs={s: member.affs[s] for s in statements(node)})


@pytest.mark.parametrize("run", [Run.PARALLEL, Run.SIMD])
def test_values_of_a_private_scalar_stay_in_their_iteration(tmp_path: Path, run: Run) -> None:
    """The order is kept, but a loop whose iterations have scalars of their own loses what its run before has left."""
    scop = text(
        tmp_path,
        "void f(double A[restrict 9], double B[restrict 9]) {\n#pragma scop\n"
        "  for (int i = 0; i < 9; i++) { double s = A[i]; B[i] = s * s; }\n#pragma endscop\n}\n",
    )
    before = Member({"S0": isl.Aff("{ S0[i] -> [(i)] }"), "S1": isl.Aff("{ S1[i] -> [(i + 1)] }")})
    inner = Member({"S0": isl.Aff("{ S0[i] -> [(2i)] }"), "S1": isl.Aff("{ S1[i] -> [(2i + 2)] }")})
    tree = Band((before,), Band((inner,), InOrder((Leaf("S1"), Leaf("S0")))))
    assert why(scop, tree) is None
    assert "would pass from one iteration" in (why(scop, with_run(tree, 1, run)) or "")
    assert why(scop, with_run(written(scop.statements), 0, run)) is None


def test_lives_of_a_private_scalar_are_kept_apart(tmp_path: Path) -> None:
    scop = text(
        tmp_path,
        "void f(double A[restrict 9], double B[restrict 9]) {\n#pragma scop\n"
        "  for (int i = 0; i < 9; i++) { double s = A[i]; B[i] = s * s; }\n#pragma endscop\n}\n",
    )
    tree = written(scop.statements)
    assert why(scop, tree) is None
    assert isinstance(tree, Band)
    apart = InOrder(tuple(Band((_only(tree.members[0], leaf),), leaf) for leaf in (Leaf("S0"), Leaf("S1"))))
    assert "overlap" in (why(scop, apart) or "")


def test_split_parts_cover_the_domain_and_make_rows_independent() -> None:
    entry = catalogue()["floyd_warshall"]
    scop = load(entry.path, defines=entry.defines(entry.sizes[0]), sizes=entry.parameters(entry.sizes[0])).scops[0]
    steps = list(split(scop, dependences(scop, reads=False)))
    assert [step.broken() for step in steps] == [None, None]
    apart = applied(scop, steps)
    whole = scop.statements[0].domain
    parts = [s.domain.set_tuple_name(scop.statements[0].name) for s in apart.statements]
    assert len(parts) == 9
    union = parts[0]
    for part in parts[1:]:
        assert union.intersect(part).is_empty()
        union = union.union(part)
    assert union.is_equal(whole)


def test_bands_merge_only_where_loops_run_forward(tmp_path: Path) -> None:
    code = (
        "void f(double A[restrict 20][20]) {{\n  for (int i = 1; i < 19; i++)\n"
        "    for (int j = 1; j < 19; j++) A[i][j] = A[i - 1][{0}];\n}}\n"
    )
    for subscript, together in (("j - 1", True), ("j + 1", False)):
        scop = text(tmp_path, code.format(subscript))
        links = direct(scop, scop.statements, dependences(scop, reads=False))
        tree = merged(written(scop.statements), links)
        assert isinstance(tree, Band)
        assert (len(tree.members) == 2) is together


def test_components_come_in_an_order_that_the_links_allow(tmp_path: Path) -> None:
    scop = text(
        tmp_path,
        "void f(double A[restrict 20], double B[restrict 20], double C[restrict 20]) {\n"
        "  for (int i = 1; i < 20; i++) { A[i] = B[i - 1]; C[i] = A[i]; B[i] = A[i - 1]; }\n}\n",
    )
    links = direct(scop, scop.statements, dependences(scop, reads=False))
    assert components(["S0", "S1", "S2"], links) == [["S0", "S2"], ["S1"]]
    tree = written(scop.statements)
    assert isinstance(tree, Band)
    assert clusters(["S0", "S1", "S2"], links, tree.members[0]) == [["S0", "S2"], ["S1"]]
