"""What an estimate takes for a row is one in the C, and the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from polydl.dependences.nests import nests
from polydl.frontend.load import load
from polydl.kernels import families, tree_rows
from polydl.kernels.family import Cycles
from polydl.kernels.innermost import RowOptions
from polydl.kernels.transposes import Rectangle
from polydl.kernels.tree_rows import Inside
from polydl.lower.emit import generate
from polydl.model.scop import Scop
from polydl.rank import footprints, of_tree
from polydl.rank.tree_estimate import footprints_of, tree_estimate
from polydl.rewrite.canonical import canonical
from polydl.schedule.ordered import written
from polydl.schedule.program_tree import program_tree
from polydl.schedule.transforms import Vectorize
from polydl.target import preset
from polydl.target.isa import Isa
from tests.frontend import reading
from tests.programs.corpus import catalogue

SPLIT_WHERE_PRINTED = {"red_black", "assumed", "floyd_warshall", "transitive_closure"}
"""Their loops are cut into pieces when they are printed, at parities and at bounds that depend on each other; what is a
row in a piece is not told from the tree."""


def asked_and_printed(scop: Scop, vectors: Vectorize, monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, bool]]:
    """Of each nest of a program whether estimates have a row there, and whether its C has."""
    asked: list[bool] = []

    def becomes_row(scop: Scop, private: frozenset[str], inside: Sequence[Inside], options: RowOptions) -> bool:
        asked.append(tree_rows.becomes_row(scop, private, inside, options))
        return asked[-1]

    def becomes_squares(piece: Rectangle, isa: Isa) -> tuple[int, Cycles] | None:
        found = families.rectangle_cycles(piece, isa)
        asked.append(found is not None)
        return found

    monkeypatch.setattr(footprints, "becomes_row", becomes_row)
    monkeypatch.setattr(of_tree, "rectangle_cycles", becomes_squares)
    program = canonical(scop)
    found = []
    for nest in nests(program.scop, program.dependences):
        asked.clear()
        part = written(nest).after(vectors)
        tree_estimate(footprints_of(program.scop, nest.statements), part.tree, preset("epyc-zen5"), 1)
        found.append((any(asked), generate(program.scop, program_tree([part])).rows))
    return found


@pytest.mark.parametrize("name", sorted(catalogue().keys() - SPLIT_WHERE_PRINTED))
def test_predicted_rows_are_printed_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = catalogue()[name]
    values = entry.sizes[0]
    for scop in load(entry.path, defines=entry.defines(values), sizes=entry.parameters(values)).scops:
        assert all(asked == has for asked, has in asked_and_printed(scop, Vectorize(), monkeypatch))


@pytest.mark.parametrize("jam", [(2,), (4,), (4, 2), (1, 4)], ids=str)
@pytest.mark.parametrize(
    "inner",
    [
        "C[i][j] += A[i][l] * B[j][l];",
        "C[i][j] = C[i][j] > A[i][l] - B[j][l] ? C[i][j] : A[i][l] - B[j][l];",
        "A[i][l] = A[i][l] * C[0][j] + 1;",
        "A[i][l] += A[i + 1][l];",
    ],
)
def test_predicted_rows_of_several_iterations(
    inner: str, jam: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of loops longer than what may be written out, with iterations left over."""
    loops = f"for (int i = 0; i < 70; i++) for (int j = 0; j < 51; j++) for (int l = 0; l < 90; l++) {inner}"
    program = reading.scop(tmp_path, f"void f(float A[71][90], float B[51][90], float C[70][51])\n{{\n{loops}\n}}\n")
    assert asked_and_printed(program, Vectorize((), 0, jam), monkeypatch) == [(True, True)]
