"""The examples of docs/extending.md and docs/microkernels.md: short, and what they add works."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compiling import run_compiler, run_program
from tests.docs.blocks import ROOT, Block, blocks, checkout, environment, perform

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
MISSING = [tool for tool in (COMPILER, EMULATOR) if shutil.which(tool) is None]

PRODUCT = """
import sys
sys.path.insert(0, sys.argv[1])
from polydl.target.isa import isa
assert isa("sve1024").vector_bytes == 128
sys.path.append(sys.argv[2])
from polydl.kernels.microkernel_spec import MicrokernelSpec, Reduction
from polydl.model.types import F32, F64
from tests.kernels import contraction_program
from tests.kernels.contraction_program import Call
specs = [
    MicrokernelSpec(F32, 3, 64, None, 64, (Reduction(5, 1, 64),), long="sve1024"),
    MicrokernelSpec(F64, 2, 5, 6, 16, (Reduction(6, 1, 16),), beta=0, long="sve1024"),
]
calls = [Call(0, m, n, {"a_m": 5}) for m in range(4) for n in range(65)]
calls += [Call(1, m, n, {}) for m in range(3) for n in range(6)]
print(contraction_program.program(specs, calls))
"""


def files(page: str) -> list[Block]:
    """The files that a page writes, those with `main` or a driver included."""
    return [block for block in blocks((ROOT / "docs" / page).read_text(encoding="utf-8")) if block.title]


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("extending.md", ("roofline/roofline.py", "roofline/pyproject.toml")),
        ("extending.md", ("balance.py",)),
        ("extending.md", ("balance.diff",)),
        ("extending.md", ("max3.py",)),
        ("extending.md", ("max3.diff",)),
        ("extending.md", ("math_fdim.c.j2", "fdim.diff")),
        ("extending.md", ("logaddexp.diff",)),
        ("extending.md", ("sve1024.diff", "long.toml")),
        ("extending.md", ("tdpbssd.diff",)),
        ("microkernels.md", ("kernel.c", "around.c")),
    ],
)
def test_under_fifty_lines(page: str, names: tuple[str, ...]) -> None:
    found = {block.title: block.text for block in files(page)}
    assert sum(len(found[name].splitlines()) for name in names) < 50


@pytest.mark.skipif(bool(MISSING), reason=f"no {' and no '.join(MISSING)}")
def test_the_new_instruction_set_computes_what_the_twin_computes(tmp_path: Path) -> None:
    """The microkernels for SVE of the example, run in an emulator: every remainder."""
    copy = checkout(tmp_path)
    for block in files("extending.md"):
        perform(block, copy)
    subprocess.run(["git", "apply", "sve1024.diff"], cwd=copy, env=environment(copy), check=True)
    made = subprocess.run(
        [sys.executable, "-c", PRODUCT, str(copy), str(ROOT)], cwd=copy, env=environment(copy), capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr[-2000:]
    (copy / "product.c").write_text(made.stdout)
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-std=gnu11", "-static"]
    wide = ["-march=armv8.2-a+sve", "-msve-vector-bits=1024"]
    run_compiler([COMPILER, *flags, *wide, "product.c", "-o", "product"], copy)
    emulator = [EMULATOR, "-cpu", "max,sve1024=on,sve-default-vector-length=128"]
    ran = run_program([*emulator, "./product"], copy, check=False)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr[-1000:]
    run_compiler([COMPILER, *flags, *wide, "-S", "product.c", "-o", "product.s"], copy)
    assert "fmla\tz" in (copy / "product.s").read_text()


TILES = """
import random, sys
sys.path.insert(0, sys.argv[1])
from polydl.model.types import I8, I32
from polydl.target.products import in_matrices
product = in_matrices("tile", I8, I8, I32)
assert product.name == "tile_signed"
sys.path.append(sys.argv[2])
from tests.kernels.test_tiles import kernels_and_twins
print(kernels_and_twins(random.Random(5), 4, [product]))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the vector code behind tiles, of x86")
def test_the_new_product_computes_what_the_twin_computes(tmp_path: Path) -> None:
    """Emulated, and by the vector code behind it."""
    copy = checkout(tmp_path)
    for block in files("extending.md"):
        if block.title == "tdpbssd.diff":
            perform(block, copy)
    subprocess.run(["git", "apply", "tdpbssd.diff"], cwd=copy, env=environment(copy), check=True)
    command = [sys.executable, "-c", TILES, str(copy), str(ROOT)]
    made = subprocess.run(command, cwd=copy, env=environment(copy), capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-2000:]
    assert "TILE_MULTIPLY(dpbssd" in made.stdout
    (copy / "product.c").write_text(made.stdout)
    for emulated in (["-DPOLYDL_EMULATE", "-Ipolydl/include"], []):
        flags = ["-O1", "-march=native", "-Wno-psabi", "-std=gnu11", *emulated]
        run_compiler(["gcc", *flags, "product.c", "-o", "product"], copy)
        assert run_program(["./product"], copy, check=False).stdout == "done\n"


def with_family(folder: Path, old: str = "", new: str = "") -> tuple[str, str]:
    """What optimizing with the proof says and writes, with the example's family as it is, or with a mistake in it."""
    copy = checkout(folder)
    for block in files("extending.md"):
        if block.title.startswith(("max3", "largest")):
            perform(block, copy)
    text = (copy / "max3.py").read_text(encoding="utf-8")
    assert old in text
    (copy / "polydl" / "kernels" / "max3.py").write_text(text.replace(old, new, 1), encoding="utf-8")
    subprocess.run(["git", "apply", "max3.diff"], cwd=copy, env=environment(copy), check=True)
    command = [sys.executable, "-m", "polydl", "optimize", "largest.c", "--machine", "epyc-zen5", "--threads", "2"]
    command += ["--no-run", "--prove", "--top-k", "1", "-o", "out.c"]
    ran = subprocess.run(command, cwd=copy, env=environment(copy), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout + ran.stderr, (copy / "out.c").read_text(encoding="utf-8")


def test_the_new_family_is_called_and_proved(tmp_path: Path) -> None:
    said, written = with_family(tmp_path)
    assert "        polydl_max3(" in written
    assert "does what is said above it, in every instruction set" in said
    assert "refused" not in said and "max3" not in said.partition("taken for granted")[2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("polydl_f32_load(C + j)", "polydl_f32_load(B + j)"),
        ("j < n; j++) D[j]", "j + 1 < n; j++) D[j]"),
        ("n - n % POLYDL_F32_LANES", "n"),
        ('C[j]);"', 'A[j]);"'),
        ("[(d, a, b, c)]", "[(d, a, c, c)]"),
        ("(Load(a), Load(b))), Load(c))", "(Load(c), Load(b))), Load(a))"),
    ],
)
def test_a_mistake_in_the_new_family_is_found(old: str, new: str, tmp_path: Path) -> None:
    """In its text, its meaning, its roles."""
    said, written = with_family(tmp_path, old, new)
    assert "refused" in said, said
    assert "        polydl_max3(" not in written
