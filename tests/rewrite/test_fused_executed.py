"""Fused programs compute what the others do: bit for bit on integers, within bounds where functions round."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from polydl import pipeline
from polydl.kernels.vector_text import SHORT_ULPS
from polydl.lower.emit import generate, protected
from polydl.lower.splice import splice
from polydl.options import Options
from polydl.schedule.program_tree import program_tree
from polydl.schedule.transforms import Vectorize
from tests.rewrite.executing import Floats, called, compiled
from tests.rewrite.programs import KERNELS, NESTS, Fusable, gemm

OPTIONS = Options(threads=2, space="small", machine="xeon-8480plus", top_k=6)
TARGETS = {"native": ("-march=native",), "avx2": ("-mavx2", "-mfma"), "generic": ()}
BOUND = 16 * 2.0**-24
"""Relative to the largest result: the roundings of an expression, 4 ulps a function."""


def inputs(program: Fusable) -> dict[str, Floats]:
    generator = np.random.default_rng(7)
    return {n: generator.integers(-3, 4, shape).astype(np.float32) for n, shape in program.shapes.items()}


def renamed(text: str, program: Fusable, number: int) -> str:
    return re.sub(rf"\b{program.function}\(", f"{program.function}_v{number}(", text)


def variants(program: Fusable, folder: Path, most: int, options: Options = OPTIONS) -> tuple[list[str], list[str]]:
    """C texts of at most `most` fused variants, the function is `<name>_v<number>`, and their recipes."""
    path = folder / f"{program.name}.c"
    path.write_text(program.text())
    loaded = pipeline.load(path, options)
    ranking = pipeline.rank(loaded.scops[0], options=options)
    unfused = set(map(id, ranking))
    texts, recipes = [], []
    for variant in (v for v in pipeline.with_fused(ranking, options) if id(v) not in unfused):
        # Stores past the caches are for large arrays; here they are tried on small ones.
        streams = [part.after(Vectorize(tuple(program.shapes))) if part.rows else part for part in variant.parts]
        for structures in (streams, variant.parts):
            code = generate(variant.program, program_tree(structures))
            text = splice(loaded.source, [(ranking.scop, code)], "")
            if text not in texts and len(texts) < most:
                texts.append(text)
                recipes.append(str(variant.recipe))
    return texts, recipes


def check(
    programs: Sequence[Fusable],
    folder: Path,
    targets: Sequence[str],
    most: int,
    options: Options = OPTIONS,
    bound: float = BOUND,
) -> list[list[str]]:
    """Holds the fused variants equal to their programs, compiled for each target; returns the recipes per program."""
    made = [variants(program, folder, most, options) for program in programs]
    pieces = [program.text() for program in programs]
    for program, (texts, _) in zip(programs, made, strict=True):
        pieces += [renamed(text, program, number) for number, text in enumerate(texts)]
    pieces = [re.sub(r"#pragma (?:scop|endscop|polydl.*)", "", piece) for piece in pieces]
    for target in targets:
        flags = ("-Og", "-fopenmp", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", *TARGETS[target])
        library = compiled(folder, f"all_{target}", pieces, flags)
        for program, (_, recipes) in zip(programs, made, strict=True):
            compare(library, program, recipes, bound)
    return [recipes for _, recipes in made]


def compare(library: ctypes.CDLL, program: Fusable, recipes: Sequence[str], bound: float) -> None:
    """Calls a program and its variants, one for each recipe."""
    arrays = inputs(program)
    want = called(library, program.function, arrays)
    for number, recipe in enumerate(recipes):
        got = called(library, f"{program.function}_v{number}", arrays)
        for name in program.shapes.keys() - set(program.dead):
            if program.exact:
                assert np.array_equal(got[name], want[name]), f"{program.name}: {name}: {recipe}"
            else:
                error = np.abs(got[name] - want[name]).max() / max(1.0, np.abs(want[name]).max())
                assert error <= bound, f"{program.name}: {name} is {error} off: {recipe}"


@pytest.mark.parametrize("program", KERNELS, ids=lambda p: p.name)
def test_epilogues(tmp_path: Path, program: Fusable) -> None:
    """Some of them in every kind of vector."""
    targets = list(TARGETS) if program.name in ("chain", "select", "gelu") else ["native"]
    (recipes,) = check([program], tmp_path, targets, 1)
    assert recipes or len(targets) == 1
    most = max((r.count("Fuse(into=S") for r in recipes if "Microkernel" in r), default=0)
    assert most == program.into, recipes


FAST_PROGRAMS = (
    *(p for p in KERNELS if p.name in ("sigmoid", "tanh", "gelu")),
    gemm("silu_in_double", "", "{} C[i][j] = C[i][j] / (1.0 + exp(-0.125 * C[i][j]));", 1, exact=False),
)


@pytest.mark.parametrize("program", FAST_PROGRAMS, ids=lambda p: p.name)
def test_fast_math(tmp_path: Path, program: Fusable) -> None:
    """Quick forms within their bound; what C would compute in double goes into the epilogue too."""
    options = OPTIONS.changed(fast_math=True)
    bound = 4 * SHORT_ULPS * 2.0**-24
    (found,) = check([program], tmp_path, list(TARGETS), 1, options, bound)
    assert all("Fuse(into=S" in recipe for recipe in found[:1])
    fast, exact = (variants(program, tmp_path, 1, o)[0] for o in (options, OPTIONS))
    assert re.search(r"= .*polydl_f32_(exp|tanh|erf)_short\(", fast[0])
    assert not any(re.search(r"= .*polydl_f32_(exp|tanh|erf)_short\(polydl_acc", text) for text in exact)


@pytest.mark.parametrize("program", NESTS, ids=lambda p: p.name)
def test_nests(tmp_path: Path, program: Fusable) -> None:
    """In rows of vectors, or around a microkernel: pooling has windows, whose largest element one finds."""
    (recipes,) = check([program], tmp_path, list(TARGETS), 10)
    assert any("Vectorize" in r or "Microkernel" in r for r in recipes)


@pytest.mark.parametrize("program", NESTS + KERNELS, ids=lambda p: p.name)
def test_what_the_command_fuses(tmp_path: Path, program: Fusable) -> None:
    path = tmp_path / f"{program.name}.c"
    path.write_text(program.text())
    result = pipeline.fuse(path, tmp_path / "out.c")
    fused = result.scops[0]
    done = sum(d.failure is None for d in fused.decisions) + len(fused.merges)
    assert done == max(program.into, 1 if program.name == "transposed_residual_stays" else 0)
    plain = re.sub(r"#pragma (?:scop|endscop|polydl.*)", "", program.text())
    library = compiled(tmp_path, "both", [plain, renamed(result.text, program, 0)], ("-Og", "-ffp-contract=off"))
    arrays = inputs(program)
    want, got = called(library, program.function, arrays), called(library, f"{program.function}_v0", arrays)
    for name in program.shapes.keys() - set(program.dead):
        assert np.array_equal(got[name], want[name])


def test_conditions_are_split_out_of_loops(tmp_path: Path) -> None:
    program = next(p for p in NESTS if p.name == "pooling")
    path = tmp_path / "pooling.c"
    path.write_text(program.text())
    text = pipeline.fuse(path, tmp_path / "out.c").text
    assert "if (" not in text[text.index("void run_pooling") :]


def test_helpers_stay_out_of_reach_of_macros(tmp_path: Path) -> None:
    """The source may well have an `n` and a `part` of its own."""
    program = KERNELS[0]
    path = tmp_path / "macros.c"
    path.write_text("#define n 37\n#define part 43\n#define stream 1\n" + program.text())
    loaded = pipeline.load(path)
    ranking = pipeline.with_fused(pipeline.rank(loaded.scops[0], options=OPTIONS), OPTIONS)
    code = generate(ranking.scop, ranking.variants[0].tree)
    assert "#undef part" in protected(ranking.scop.source, code.prologue)
    compiled(tmp_path, "macros", [splice(loaded.source, [(ranking.scop, code)], "")])
