"""What a program touches between two parts: of an array that shrinks to a buffer, no more than the buffer."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.dependences.nests import nests
from polydl.rank.estimator import Estimator
from polydl.rank.streams import UNDER_WAY
from polydl.rank.traffic import TrafficRanker
from polydl.rank.whole import Known, distances, handed_over, program_estimate
from polydl.schedule.ordered import ordered
from polydl.schedule.part_storage import part_storage
from polydl.schedule.program_tree import program_tree
from polydl.schedule.transforms import Merge, Parallelize
from polydl.target import Machine, preset
from tests.schedule.test_merge import program

ROWS = 4096
BODY = """{
    static float T[m][n];
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) T[i][j] = A[i][0] + j;
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) P[i][j] = T[i][j] * T[i][n - 1 - j];
    for (int i = 0; i < m; i++) D[i][0] = A[i][0] + P[i][0];
}
"""


@pytest.fixture
def machine() -> Machine:
    return preset("epyc-zen5")


def test_a_buffer_is_touched_not_the_array(tmp_path: Path, machine: Machine) -> None:
    found = program(tmp_path, BODY, sizes=(ROWS, 1024, 16))
    three = nests(found.scop, found.dependences)
    apart = program_tree([ordered(nest, (Parallelize(("i",)),)) for nest in three])
    shared = program_tree([
        *(ordered(nest, (Parallelize(("i",)), Merge(three[0].name, 1))) for nest in three[:2]),
        ordered(three[2], (Parallelize(("i",)),)),
    ])  # fmt: skip
    (buffer,) = part_storage(found.scop, shared.children[0]).values()
    parts = [[*three[0].statements, *three[1].statements], three[2].statements]
    whole = distances(found.scop, parts, machine)[0]["A"]
    held = distances(found.scop, parts, machine, held=[((buffer.array, 2.0 * buffer.bytes),), ()])[0]["A"]
    assert whole - held == pytest.approx(4 * 1024 * ROWS - 2 * buffer.bytes)
    one, other = (program_estimate(found.scop, tree, machine, 2) for tree in (shared, apart))
    assert one.score < other.score


def test_estimates_that_are_kept_are_those_made_anew(tmp_path: Path, machine: Machine) -> None:
    """Of parts that several programs have in common, whatever else runs around them."""
    found = program(tmp_path, BODY, sizes=(ROWS, 1024, 16))
    three = nests(found.scop, found.dependences)
    alone = [ordered(nest, (Parallelize(("i",)),)) for nest in three]
    shared = [ordered(nest, (Parallelize(("i",)), Merge(three[0].name, 1))) for nest in three[:2]]
    kept = Known()
    for parts in (alone, [*shared, alone[2]], alone):
        tree = program_tree(parts)
        again = program_estimate(found.scop, tree, machine, 2, kept)
        assert again == program_estimate(found.scop, tree, machine, 2)
    around = [about for (_, about), (part, _) in kept.estimates.items() if part is alone[2].tree]
    assert len(kept.estimates) == 4 + len(around) - 1
    assert len(around) == len(set(around)) >= 1


def test_what_other_threads_wrote_is_waited_for(tmp_path: Path, machine: Machine) -> None:
    """T and the first lines of the rows of P go from one nest to another; nothing does where nests share loops, or on
    one thread, or where the data are more than the last cache keeps."""
    found = program(tmp_path, BODY, sizes=(64, 1024, 16))
    three = nests(found.scop, found.dependences)
    parts = [nest.statements for nest in three]
    seconds = [one.seconds.get("handed", 0.0) for one in handed_over(found.scop, parts, machine, 2)]
    late = 2 * machine.memory.latency_ns * 1e-9 / UNDER_WAY / 64
    quarter = [64 * 1024 * 4 / 4 * late, 64 * 64 / 4 * late]
    assert seconds == pytest.approx([0.0, *quarter])
    assert all(not one.seconds for one in handed_over(found.scop, parts, machine, 1))
    assert all(not one.seconds for one in handed_over(found.scop, [found.scop.statements], machine, 2))
    large = program(tmp_path, BODY, sizes=(1 << 16, 1024, 16))
    parts = [nest.statements for nest in nests(large.scop, large.dependences)]
    assert "handed" not in handed_over(large.scop, parts, machine, 2)[1].seconds


def test_parts_and_programs_wait_alike(tmp_path: Path, machine: Machine) -> None:
    found = program(tmp_path, BODY, sizes=(64, 1024, 16))
    three = nests(found.scop, found.dependences)
    made = [ordered(nest, (Parallelize(("i",)),)) for nest in three]
    estimator = Estimator(found.scop, three, machine, 2, TrafficRanker())
    together = program_estimate(found.scop, program_tree(made), machine, 2)
    assert together.score == pytest.approx(sum(estimator.part(one).score for one in made))
    assert together.seconds["handed"] > 0
