"""Every program of the corpus is accepted, optimized, and computes what it computed before, at several sizes."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.options import Options
from polydl.pipeline import load, rank
from polydl.schedule.program_tree import program_tree
from polydl.schedule.structure import apply
from polydl.search.shortlist import shortlist
from tests.programs.corpus import Comparison, Entry, catalogue, comparison_program

FLAGS = ("-std=gnu11", "-O1", "-march=native", "-ffp-contract=off", "-fopenmp", "-w")
"""Without contraction of a * b + c, what keeps the order of operations keeps every bit."""
QUICK = Options(space="small", machine="epyc-zen5", threads=2)
SANITIZED = (*FLAGS, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")


def outputs(entry: Entry, values: Mapping[str, int], options: Options, most: int) -> list[str]:
    """The original text, the loops written again in their order, and texts with the best variants of every scop."""
    chosen = options.changed(defines=entry.defines(values), sizes=entry.parameters(values))
    program = load(entry.path, chosen)
    offered = []
    for scop in program.scops:
        ranking = rank(scop, options=chosen)
        codes = [generate(ranking.scop, program_tree([apply(nest, ()) for nest in ranking.nests]))]
        codes += [variant.generated for variant in shortlist(ranking.variants, most)[0]]
        offered.append((ranking.scop, codes))
    texts = [entry.text]
    for number in range(max(len(codes) for _, codes in offered)):
        pieces = [(scop, codes[min(number, len(codes) - 1)]) for scop, codes in offered]
        texts.append(splice(program.source, pieces, ""))
    return texts


def check(entry: Entry, comparisons: list[Comparison], folder: Path, flags: tuple[str, ...] = FLAGS) -> None:
    """Compile everything as one file and run it."""
    path = folder / f"{entry.name}.c"
    path.write_text(comparison_program(entry, comparisons))
    command = ["cc", *flags, str(path), "-o", str(folder / "compare"), "-lm"]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
    done = subprocess.run(
        [str(folder / "compare")],
        env={"OMP_NUM_THREADS": "3", "OMP_WAIT_POLICY": "passive", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done.stdout + done.stderr


@pytest.mark.parametrize("name", catalogue())
def test_optimized_equals_original(name: str, tmp_path: Path) -> None:
    """The first sizes, a few variants of the small space; texts tuned to sizes at run time are run at others too."""
    entry = catalogue()[name]
    values = entry.sizes[0]
    others = entry.sizes[1:] if entry.runtime else ()
    check(entry, [Comparison(values, outputs(entry, values, QUICK, 2), others)], tmp_path)
