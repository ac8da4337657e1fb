"""Every generated variant of random programs, compiled, executed and compared bit for bit with a brute-force run."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings

from polydl.base.errors import InputError
from polydl.dependences.analysis import dependences
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import Nest, nests
from polydl.frontend import load
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.schedule.as_tree import as_tree
from polydl.schedule.limits import SPACES, RegisterBlocks
from polydl.schedule.limits import Limits as Within
from polydl.schedule.loops import NestLoops
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.tree_check import broken
from polydl.search.space import legal_structures
from tests.oracle import Limits, Program, call, compile_c, difference, initial_data, interpret, programs, render
from tests.oracle.native import apart

TINY = replace(SPACES["default"], tile_sizes=(2, 3), levels=2, tiled_at_once=2, orders=6, limit=60)
FLAGS = ("-O1", "-march=native", "-fopenmp", "-w")


def tiny_blocks(nest: Nest) -> list[tuple[str | None, str, int, int]]:
    assert nest.contraction is not None
    columns = nest.contraction.columns()[-1]
    rows = (nest.contraction.rows(columns) or (None,))[-1]
    return [(rows, columns, m, n) for m, n in ((2, 3), (1, 2), (3, 16))]


def sampled(limits: Limits, count: int) -> list[Program]:
    found: list[Program] = []

    @settings(max_examples=count, deadline=None)
    @given(programs(limits))
    def collect(program: Program) -> None:
        found.append(replace(program, name=f"kernel_{len(found)}"))

    collect()
    return found


def structures_of(scop: object, blocks: RegisterBlocks, threads: int) -> Iterator[list[NestLoops]]:
    """Structures for all nests of a scop: the variants of each, side by side."""
    found = dependences(scop, reads=False)  # type: ignore[arg-type]
    choices: list[list[NestLoops]] = []
    for nest in nests(scop, found):  # type: ignore[arg-type]
        legality = nest_legality(nest, found)
        structures = list(legal_structures(Within(nest, legality, TINY, blocks, threads)))
        for s in structures:
            assert broken(scop, s.statements, as_tree(s), found, reassociate=True) is None  # type: ignore[arg-type]
        choices.append(structures)
    longest = max(len(c) for c in choices)
    for i in range(longest):
        yield [c[i % len(c)] for c in choices]


def variants_of(program: Program, folder: Path, most: int) -> list[str]:
    """C texts of variants; the function of variant v is called `<name>_v<v>`."""
    text = render(program)
    path = folder / f"{program.name}.c"
    path.write_text(text)
    body = text[text.rindex("\n{") :]
    sizes = {n: v for n, v in program.parameters.items() if re.search(rf"\b{n}\b", body)}
    loaded = load(path, sizes=sizes)
    texts = []
    for scop in loaded.scops:
        every = list(structures_of(scop, tiny_blocks, 2))
        step = max(1, len(every) // most)
        for number, structures in enumerate(itertools.islice(every, 0, None, step)):
            output = splice(
                loaded.source, [(scop, generate(scop, program_tree([Ordered.nest(one) for one in structures])))], ""
            )
            texts.append(re.sub(rf"\b{program.name}\b", f"{program.name}_v{number}", output))
    return texts


def check(limits: Limits, count: int, most: int, folder: Path) -> int:
    refused = 0
    made: list[tuple[Program, list[str]]] = []
    for program in sampled(limits, count):
        try:
            made.append((program, variants_of(program, folder, most)))
        except InputError as error:
            refused += 1
            print(error)
    compare(made, "v", 1)
    assert refused <= count // 20
    return sum(len(texts) for _, texts in made)


def compare(made: Sequence[tuple[Program, Sequence[str]]], letter: str, seed: int) -> None:
    """Compile texts of programs, whose functions are called `<name>_<letter><number>`, as one file; run all of them on
    the same data as the interpreter."""
    pieces = [apart(text, f"{p.name}_{letter}{n}") for p, texts in made for n, text in enumerate(texts)]
    library = compile_c(pieces, FLAGS)
    for program, texts in made:
        data = initial_data(program, seed=seed)
        expected = interpret(program, data).memory
        for number, text in enumerate(texts):
            got = call(library, program, data, function=f"{program.name}_{letter}{number}")
            assert difference(program, expected, got) == "", text


def test_variants_compute_the_same(tmp_path: Path) -> None:
    assert check(Limits(), 60, 3, tmp_path) > 50


def test_perfect_nests_permuted_and_tiled(tmp_path: Path) -> None:
    assert check(Limits(imperfect=False), 30, 5, tmp_path) > 30


def test_linear_arrays(tmp_path: Path) -> None:
    assert check(Limits(linear=True), 20, 3, tmp_path) > 15
