"""A microkernel that starts from zero does away with a nest of zeros: in the tree, where the check sees it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from polydl.dependences.analysis import Dependence, dependences
from polydl.dependences.nests import nests
from polydl.lower.emit import generate
from polydl.model.scop import Scop
from polydl.schedule.check import check
from polydl.schedule.ordered import ordered, written
from polydl.schedule.program_tree import program_tree
from polydl.schedule.transforms import Microkernel, Parallelize, Permute, Tile
from polydl.schedule.transforms.start_from_zero import start_from_zero
from polydl.schedule.tree import Sequence, kernels, statements, with_kernels
from tests.schedule.test_schedules import text

ZEROS = "for (int i = 0; i < 40; i++) for (int j = 0; j < 48; j++) C[i][j] = 0;"
PRODUCT = """
for (int i = 0; i < 40; i++)
    for (int j = 0; j < 48; j++)
        for (int k = 0; k < 64; k++)
            C[i][j] += A[i][k] * B[k][j];"""
KERNEL = (Tile("k", (32,)), Microkernel("i", "j", 4, 16, ("k.1",)), Permute(("j", "k.0", "i")), Parallelize(("j",)))


def program(folder: Path, *nests_of_c: str) -> tuple[Scop, tuple[Dependence, ...]]:
    lines = "\n".join(nests_of_c)
    scop = text(
        folder,
        "void f(float C[restrict 40][48], const float A[restrict 40][64], const float B[restrict 64][48],\n"
        f"       float D[restrict 40])\n{{\n#pragma scop\n{lines}\n#pragma endscop\n}}\n",
    )
    return scop, dependences(scop, reads=False)


def with_kernel(scop: Scop, found: tuple[Dependence, ...], heavy: str) -> Sequence:
    """The program's tree, in which one nest has a microkernel."""
    return program_tree([ordered(n, KERNEL if n.name == heavy else ()) for n in nests(scop, found)])


def test_the_zeros_are_in_the_kernel_and_no_part_of_their_own(tmp_path: Path) -> None:
    scop, found = program(tmp_path, ZEROS, PRODUCT)
    tree = with_kernel(scop, found, "S1")
    (part,) = tree.children
    (kernel,) = kernels(part)
    assert kernel.zeroing is not None and kernel.zeroing.name == "S0"
    assert set(statements(tree)) == {"S0", "S1"}
    assert check(scop, tree, found) is None
    assert "C[" not in generate(scop, tree).region.split("polydl_mk")[0]


@pytest.mark.parametrize(
    ("lines", "parts"),
    [
        pytest.param((ZEROS, "for (int i = 0; i < 40; i++) D[i] = C[i][0];", PRODUCT), 3, id="read in between"),
        pytest.param((ZEROS.replace("i < 40", "i < 39"), PRODUCT), 2, id="fewer elements"),
        pytest.param((ZEROS.replace("] = 0;", "] = 1;"), PRODUCT), 2, id="ones"),
        pytest.param((ZEROS.replace("] = 0;", "] = -0.0f;"), PRODUCT), 2, id="negative zeros"),
        pytest.param((ZEROS.replace("] = 0;", "] += 0;"), PRODUCT), 2, id="added"),
    ],
)
def test_what_is_not_all_set_to_zero_stays(tmp_path: Path, lines: tuple[str, ...], parts: int) -> None:
    scop, found = program(tmp_path, *lines)
    tree = with_kernel(scop, found, f"S{len(lines) - 1}")
    assert len(tree.children) == parts
    assert all(kernel.zeroing is None for kernel in kernels(tree))
    assert check(scop, tree, found) is None


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ((ZEROS, "for (int i = 0; i < 40; i++) D[i] = C[i][0];", PRODUCT), "dependence on C"),
        ((ZEROS, "for (int i = 0; i < 40; i++) C[i][3] = D[i];", PRODUCT), "dependence on C"),
        ((ZEROS.replace("i < 40", "i < 39"), PRODUCT), "does not set to zero"),
        ((ZEROS.replace("] = 0;", "] = 1;"), PRODUCT), "does not set to zero"),
        ((ZEROS.replace("] = 0;", "] += 0;"), PRODUCT), "does not set to zero"),
    ],
)
def test_the_check_finds_kernels_that_must_not_start_from_zero(
    tmp_path: Path, lines: tuple[str, ...], reason: str
) -> None:
    """Whoever made the tree."""
    scop, found = program(tmp_path, *lines)
    parts = nests(scop, found)
    heavy = start_from_zero(ordered(parts[-1], KERNEL).tree, parts[0].statements[0])
    others = [written(nest).tree for nest in parts[1:-1]]
    assert reason in (check(scop, Sequence((*others, heavy)), found) or "")


def test_a_kernel_that_leaves_blocks_to_loops_must_not(tmp_path: Path) -> None:
    scop, found = program(tmp_path, ZEROS, PRODUCT)
    tree = with_kernel(scop, found, "S1")
    (kernel,) = kernels(tree)
    slanted = replace(kernel, use=replace(kernel.use, nest=replace(kernel.use.nest, box=False)))
    changed = with_kernels(tree, {kernel: slanted})
    assert "not every block" in (check(scop, changed, found) or "")
